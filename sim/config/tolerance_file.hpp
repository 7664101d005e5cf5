// Files of limits for a comparison of two timelines; docs/compare.md has the format.
#pragma once

#include <string>
#include <vector>

#include "sim/compare/tolerance.hpp"

namespace syncline {

/// A map from what is limited to its limit, `step: 5%`, in order; and the `version`, which may be left out.
/// @throws InputError
[[nodiscard]] std::vector<compare::Limit> read_limits(const std::string& file);

}  // namespace syncline
