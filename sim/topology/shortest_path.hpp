// A router for any topology, and the yardstick for the others.
#pragma once

#include <memory>

#include "sim/topology/topology.hpp"

namespace syncline {

/// Fewest links; of equally short paths always the same one. Slow: each route is a breadth-first search of
/// the graph. Keeps a copy of the graph as it stands now. A route is empty where there is no path.
[[nodiscard]] std::unique_ptr<const Router> shortest_path_router(const Topology& topology);

}  // namespace syncline
