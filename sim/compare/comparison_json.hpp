// A comparison as one JSON object; docs/compare.md has every key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/compare/comparison.hpp"
#include "sim/compare/comparison_text.hpp"
#include "sim/compare/tolerance.hpp"

namespace syncline::compare {

/// Lists are as long as `options` says; `broken`: what is beyond its limit.
[[nodiscard]] std::string comparison_json(const Comparison& comparison, const TextOptions& options,
                                          const std::vector<Broken>& broken, std::string_view version);

}  // namespace syncline::compare
