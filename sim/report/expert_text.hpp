// What is told of experts in the report of a run.
#pragma once

#include <string>

#include "sim/report/expert_balance.hpp"

namespace syncline {

/// Tokens, bytes and times; where tokens fall unevenly, in words why the step takes longer than with even
/// ones. At most 100 columns.
[[nodiscard]] std::string expert_table(const ExpertBalance& experts);

}  // namespace syncline
