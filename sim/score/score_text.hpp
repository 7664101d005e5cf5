// A score for people, and the rows as a CSV file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "sim/score/rules.hpp"
#include "sim/score/score.hpp"

namespace syncline::score {

struct TextOptions {
  std::size_t worst = 3;  // rows shown of each table
  bool groups = false;    // tables by source, accelerator, family and precision too
};

/// Tables, groups, worst rows, refusals by reason, assumptions by rule.
[[nodiscard]] std::string score_text(const Score& score, std::span<const RowResult> rows,
                                     const std::vector<Rule>& rules, const TextOptions& options);

[[nodiscard]] std::string csv_header();
[[nodiscard]] std::string csv_line(const RowResult& row);

}  // namespace syncline::score
