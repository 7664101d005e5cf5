// What the network of a run's cluster costs and draws, and how that is shown.
#pragma once

#include <string>

#include "sim/cost/network_cost.hpp"
#include "sim/report/summary.hpp"
#include "tools/question.hpp"

namespace syncline {

/// Puts the figures by the default price list into the context: none without such a list, or for a textbook pipeline without
/// a topology, which has no network to price.
void add_network_cost(RunContext& context, const Question& question);

/// A line a part with count, price and power, then the sums: what `syncline topology` prints.
[[nodiscard]] std::string cost_table(const NetworkCost& cost);

}  // namespace syncline
