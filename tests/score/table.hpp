// Small tables written in a test.
#pragma once

#include <string>
#include <vector>

#include "sim/score/training_row.hpp"

namespace syncline::score::test {

/// The only row of a table with these columns.
inline TrainingRow row_of(const std::string& header, const std::string& cells) {
  return TrainingRow(CsvTable::parse(header + "\n" + cells + "\n", "folder/some.csv"), 0);
}

}  // namespace syncline::score::test
