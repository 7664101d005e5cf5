// A topology in the formats of others, and back.
#pragma once

#include <iosfwd>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/error.hpp"
#include "sim/topology/topology.hpp"

namespace syncline {

/// How traffic finds its way over a graph: GraphSpec::routing and its seed.
struct GraphRoutes {
  GraphRouting routing = GraphRouting::Shortest;
  std::uint64_t seed = 0;
};

/// What comes nearest to a cluster's own routing: a graph's own; of a sprayed fat tree spraying; of other fat trees
/// (D-mod-k on rails apart) and dragonflies ECMP; else the first of the shortest paths.
[[nodiscard]] GraphRoutes nearest_routes(const TopologySpec& spec);

/// GraphML (graphml.graphdrawing.org): vertices with kind and node, cables (undirected edges) and one-way links (directed)
/// with bandwidth, efficiency, latency and kind, each with its unit; of the graph its routing and seed. What read_graphml()
/// reads back.
void write_graphml(std::ostream& out, const Topology& topology, const GraphRoutes& routes = {});

/// What such a file leaves out of a topology, a phrase each; none: read back it is the same. Routes are compared for up to
/// 64 x 64 pairs of accelerators, spread evenly.
[[nodiscard]] std::vector<std::string> lost_in_graphml(const Topology& topology, const GraphRoutes& routes);

/// Graphviz: one line a bundle of parallel cables, with their number; coloured by kind of link.
void write_dot(std::ostream& out, const Topology& topology);

/// Accelerators of the largest platform that is written: it has a route for every ordered pair of them.
inline constexpr std::size_t MostPlatformHosts = 512;

/// SimGrid platform (DTD version 4.1): a host an accelerator, a one-way link a link at its usable bandwidth, and all routes;
/// with the settings by which a transfer takes its latency plus bytes over bandwidth, and links are shared evenly.
/// @throws std::invalid_argument when there are more hosts than that, or traffic is sprayed, for which platforms have no word
void write_simgrid_platform(std::ostream& out, const Topology& topology);

/// What such a file leaves out. SimGrid has all of its routes; read_simgrid_platform() takes the links of them.
[[nodiscard]] std::vector<std::string> lost_in_platform(const Topology& topology);

/// What is wrong in a file of another format.
class FormatError : public std::invalid_argument {
 public:
  /// @param place  without the file, which readers of text do not know
  FormatError(Place place, const std::string& reason)
      : std::invalid_argument("line " + std::to_string(place.line) + ": " + reason),
        place_(std::move(place)),
        reason_(reason) {}
  [[nodiscard]] const Place& place() const { return place_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  Place place_;
  std::string reason_;
};

/// @throws FormatError
[[nodiscard]] GraphSpec read_graphml(const std::string& text);

/// Hosts are accelerators, each a node of its own; what joins their links are switches. Understood: version 4, one zone of
/// hosts, routers, links and routes, or one flat <cluster> with or without backbone. Routes tell what is joined to what;
/// they must be of fewest links, and which of several such is taken is decided anew (GraphSpec::routing).
/// @throws FormatError naming the element that has no counterpart; std::invalid_argument where no one line is to blame
[[nodiscard]] GraphSpec read_simgrid_platform(const std::string& text);

/// The words of files and reports: accelerator, nic, switch; scale-up, host-bus, scale-out; shortest, ecmp, spray.
[[nodiscard]] std::string_view word_of(VertexKind kind);
[[nodiscard]] std::string_view word_of(LinkKind kind);
[[nodiscard]] std::string_view word_of(GraphRouting routing);

}  // namespace syncline
