// A topology in the formats of others, and back.
#pragma once

#include <iosfwd>
#include <string>

#include "sim/topology/topology.hpp"

namespace syncline {

/// GraphML (graphml.graphdrawing.org): vertices with kind and node, cables (undirected edges) and one-way links (directed)
/// with bandwidth, efficiency, latency and kind, each with its unit. What read_graphml() reads back.
void write_graphml(std::ostream& out, const Topology& topology);

/// Graphviz: one line a bundle of parallel cables, with their number; coloured by kind of link.
void write_dot(std::ostream& out, const Topology& topology);

/// Accelerators of the largest platform that is written: it has a route for every ordered pair of them.
inline constexpr std::size_t MostPlatformHosts = 512;

/// SimGrid platform (DTD version 4.1): a host an accelerator, a one-way link a link at its usable bandwidth, and all routes;
/// with the settings by which a transfer takes its latency plus bytes over bandwidth, and links are shared evenly.
/// @throws std::invalid_argument when there are more hosts than that, or traffic is sprayed, for which platforms have no word
void write_simgrid_platform(std::ostream& out, const Topology& topology);

/// @throws std::invalid_argument with line and reason
[[nodiscard]] GraphSpec read_graphml(const std::string& text);

}  // namespace syncline
