// What files of other formats do not hold of a topology.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/topology/export.hpp"
#include "sim/topology/graph_router.hpp"

namespace syncline {
namespace {

/// Of one transfer, in order of links.
std::vector<LinkUse> load_of(const Router& router, AcceleratorId source, AcceleratorId target) {
  std::vector<LinkUse> uses;
  router.load(source, target, uses);
  std::ranges::sort(uses, {}, &LinkUse::link);
  return uses;
}

bool are_equal(const std::vector<LinkUse>& a, const std::vector<LinkUse>& b) {
  constexpr double Rounding = 1e-9;
  return std::ranges::equal(a, b, [](const LinkUse& x, const LinkUse& y) {
    return x.link == y.link && std::abs(x.coefficient - y.coefficient) < Rounding;
  });
}

/// How far apart two routers are, over up to 64 x 64 pairs.
struct Apart {
  double share = 0;     // of the pairs whose traffic takes other links
  bool longer = false;  // by the first some pair takes more of them
};
Apart apart(const Topology& topology, const Router& a, const Router& b) {
  constexpr std::size_t Most = 64;  // sources, and targets
  const std::size_t n = topology.accelerators().size(), tried = std::min(n, Most);
  const auto at = [&](std::size_t i) { return AcceleratorId(tried == 1 ? 0 : i * (n - 1) / (tried - 1)); };
  Apart found;
  std::size_t different = 0, all = 0;
  for (std::size_t i = 0; i < tried; ++i)
    for (std::size_t j = 0; j < tried; ++j) {
      if (i == j) continue;
      ++all;
      const std::vector<LinkUse> one = load_of(a, at(j), at(i)), other = load_of(b, at(j), at(i));
      if (!are_equal(one, other)) ++different;
      found.longer = found.longer || one.size() > other.size();
    }
  if (all > 0) found.share = static_cast<double>(different) / static_cast<double>(all);
  return found;
}

std::string pairs_text(double share) {
  return fmt::format("the routes of {:.0f} % of the pairs of accelerators", std::ceil(100 * share));
}

/// What is not told by vertices and links.
std::vector<std::string> lost_in_graphs(const Topology& topology) {
  std::vector<std::string> lost;
  if (topology.collectives() != nullptr) lost.emplace_back("the figures of collectives");
  if (!topology.shape().torus.empty())
    lost.emplace_back("the dimensions along which collectives go on a torus");
  return lost;
}

struct Nearest {
  GraphRoutes operator()(const FatTreeSpec& tree) const {
    if (tree.routing == FatTreeRouting::Spray) return {GraphRouting::Spray};
    const bool rails = tree.rail_optimised || tree.rail_only;
    if (tree.routing == FatTreeRouting::DModK && rails)
      return {};                             // the first of equal ways is through the node
    return {GraphRouting::Ecmp, tree.seed};  // spreads flows as D-mod-k does
  }
  GraphRoutes operator()(const DragonflySpec& dragonfly) const {
    return {GraphRouting::Ecmp, dragonfly.seed};
  }
  template <class Other>
  GraphRoutes operator()(const Other&) const {
    return {};
  }
};

}  // namespace

GraphRoutes nearest_routes(const TopologySpec& spec) {
  if (spec.graph) return {spec.graph->routing, spec.graph->seed};
  return std::visit(Nearest{}, spec.scale_out);
}

std::vector<std::string> lost_in_platform(const Topology& topology) {
  std::vector<std::string> lost = lost_in_graphs(topology);
  const std::unique_ptr<const Router> graph = graph_router(topology, GraphRouting::Shortest, 0);
  const auto [share, longer] = apart(topology, topology.router(), *graph);
  if (longer)
    lost.emplace_back("paths of fewest links alone, without which it cannot be read back here");
  else if (share > 0)
    lost.push_back(pairs_text(share) + " for who reads it back here, where routes are decided anew");
  return lost;
}

std::vector<std::string> lost_in_graphml(const Topology& topology, const GraphRoutes& routes) {
  std::vector<std::string> lost = lost_in_graphs(topology);
  const std::unique_ptr<const Router> graph = graph_router(topology, routes.routing, routes.seed);
  const double share = apart(topology, topology.router(), *graph).share;
  if (share > 0) lost.push_back(fmt::format("{} (there: {})", pairs_text(share), graph->description()));
  return lost;
}

}  // namespace syncline
