// A router for any topology: along paths of fewest links, found on the graph itself.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/topology/topology.hpp"

namespace syncline {

/// Shortest takes the first of equally short ways at every vertex, Ecmp one by a seeded hash of (source, target, vertex),
/// Spray splits evenly at each. Keeps a copy of the graph as it stands now, and of the distances to the targets asked
/// for last (one breadth-first search each). A route is empty where there is no path.
/// @param usable  by LinkId: the links that may be taken; empty: all
[[nodiscard]] std::unique_ptr<const Router> graph_router(const Topology& topology, GraphRouting routing,
                                                         std::uint64_t seed = 0,
                                                         const std::vector<bool>& usable = {});

}  // namespace syncline
