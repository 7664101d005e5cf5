// One point of a sweep, from the scenario with its values to its row.
#pragma once

#include <cstddef>

#include "sim/sweep/row.hpp"
#include "sim/sweep/sweep.hpp"

namespace syncline {

/// What is wrong with the point, and a bug of ours in it, stands in the row's error.
[[nodiscard]] sweep::Row run_point(const sweep::Sweep& sweep, const ScenarioDocument& scenario,
                                   std::size_t point);

}  // namespace syncline
