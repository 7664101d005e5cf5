// One row of a table, predicted.
#pragma once

#include <vector>

#include "sim/score/rules.hpp"
#include "sim/score/score.hpp"

namespace syncline {

/// Makes a scenario of the row, simulates it and puts what comes out beside what was measured. Whatever the row lacks
/// or asks for that is not modelled becomes its refusal, with the reason; so does a broken promise of the program's.
[[nodiscard]] score::RowResult predict_row(const score::TrainingRow& row,
                                           const std::vector<score::Rule>& rules);

/// The row without a prediction, refused for `reason`.
[[nodiscard]] score::RowResult refused_row(const score::TrainingRow& row,
                                           const std::vector<score::Rule>& rules, const std::string& reason,
                                           bool our_bug);

}  // namespace syncline
