// What was broken, slow or uneven in a run, in words.
#pragma once

#include <string>
#include <string_view>

#include "sim/report/summary.hpp"

namespace syncline {

/// "link", "nic", "switch", "accelerator", as in scenarios.
[[nodiscard]] std::string_view name_of(Fault::Part part);

/// A line for each fault, one for what all of them did, one for noise; empty where there are none.
[[nodiscard]] std::string fault_table(const RunSummary& run);

}  // namespace syncline
