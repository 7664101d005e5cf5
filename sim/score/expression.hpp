// Sums in rule files: `gbs / (dp * microbatches)`, `ceil(vocab / 128) * 128`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace syncline::score {

/// Value of a name; nothing where it is blank.
/// @throws std::invalid_argument when there is no such name
using Lookup = std::function<std::optional<double>(std::string_view name)>;

/// Numbers, names, + - * / %, parentheses, ceil(x), floor(x), min(x, y), max(x, y).
/// @returns nothing when a name in it is blank, or a divisor is 0
/// @throws std::invalid_argument when it cannot be read
[[nodiscard]] std::optional<double> evaluate(std::string_view expression, const Lookup& lookup);

}  // namespace syncline::score
