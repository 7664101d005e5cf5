// Scores and rows as JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/score/score.hpp"

namespace syncline::score {

/// One object; docs/score.md has every key.
[[nodiscard]] std::string score_json(const Score& score, std::span<const RowResult> rows,
                                     std::string_view version);

/// A row in one line, and back: how worker processes hand in what they found.
[[nodiscard]] std::string row_line(const RowResult& row);
/// @throws std::logic_error when it is none
[[nodiscard]] RowResult row_of_line(std::string_view line);

}  // namespace syncline::score
