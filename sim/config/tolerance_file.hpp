// Files of limits for a comparison of two timelines; docs/compare.md has the format.
#pragma once

#include <string>
#include <vector>

#include "sim/compare/tolerance.hpp"
#include "sim/config/document.hpp"

namespace syncline {

/// One limit, `step: 5%`, at its place; or what is wrong with it.
/// @param path  of the entry, for messages
void read_limit(const ConfigEntry& entry, const std::string& path, std::vector<compare::Limit>& limits, ConfigErrors& errors);

/// A map from what is limited to its limit, `step: 5%`, in order; and the `version`, which may be left out.
/// @throws InputError
[[nodiscard]] std::vector<compare::Limit> read_limits(const std::string& file);

}  // namespace syncline
