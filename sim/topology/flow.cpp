// Boost's max-flow, on the topology drawn together to what matters for a split.
#include <algorithm>
#include <cstdint>
#include <utility>

// GCC 12 takes Boost's optional edges for uninitialised when it inlines them here.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include "sim/topology/graph.hpp"

namespace syncline {
namespace {

using FlowTraits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
struct FlowEdge {
  double capacity = 0, residual = 0;
  FlowTraits::edge_descriptor reverse;
};
struct FlowVertex {
  boost::default_color_type colour = boost::white_color;
  double distance = 0;
  FlowTraits::edge_descriptor predecessor;
};
using FlowGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, FlowVertex, FlowEdge>;

/// All links between two vertices of the flow graph, in both directions.
struct Bundle {
  std::size_t low, high;
  double upwards, downwards;  // bytes/s from low to high, and back
};

/// The vertices of each side drawn together to one, links between the same two to a bundle: the flow is the
/// same.
std::vector<Bundle> contract(const Topology& topology, std::span<const Side> side) {
  constexpr std::size_t Source = 0, Target = 1;
  const auto place = [&](VertexId vertex) -> std::size_t {
    switch (side[vertex.value()]) {
      case Side::Source: return Source;
      case Side::Target: return Target;
      case Side::Neither: break;
    }
    return vertex.value() + std::size_t{2};
  };
  std::vector<Bundle> bundles;
  bundles.reserve(topology.links().size());
  for (const Link& link : topology.links()) {
    const std::size_t from = place(link.from), to = place(link.to);
    const double bandwidth = link.bandwidth.si();
    if (from < to) bundles.push_back({from, to, bandwidth, 0});
    if (from > to) bundles.push_back({to, from, 0, bandwidth});
  }
  const auto ends = [](const Bundle& bundle) { return std::pair(bundle.low, bundle.high); };
  std::sort(bundles.begin(), bundles.end(),
            [&](const Bundle& a, const Bundle& b) { return ends(a) < ends(b); });
  std::size_t kept = 0;
  for (const Bundle& bundle : bundles) {
    if (kept > 0 && ends(bundles[kept - 1]) == ends(bundle)) {
      bundles[kept - 1].upwards += bundle.upwards;
      bundles[kept - 1].downwards += bundle.downwards;
    } else {
      bundles[kept++] = bundle;
    }
  }
  bundles.resize(kept);
  return bundles;
}

}  // namespace

BytesPerSecond largest_flow(const Topology& topology, std::span<const Side> side) {
  FlowGraph graph(topology.vertices().size() + 2);
  for (const Bundle& bundle : contract(topology, side)) {
    const auto up = add_edge(bundle.low, bundle.high, FlowEdge{bundle.upwards, 0, {}}, graph).first;
    const auto down = add_edge(bundle.high, bundle.low, FlowEdge{bundle.downwards, 0, {}}, graph).first;
    graph[up].reverse = down;
    graph[down].reverse = up;
  }
  return BytesPerSecond(boost::boykov_kolmogorov_max_flow(
      graph, get(&FlowEdge::capacity, graph), get(&FlowEdge::residual, graph), get(&FlowEdge::reverse, graph),
      get(&FlowVertex::predecessor, graph), get(&FlowVertex::colour, graph),
      get(&FlowVertex::distance, graph), get(boost::vertex_index, graph), 0, 1));
}

}  // namespace syncline
