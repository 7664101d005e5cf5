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

/// Share of the pairs whose traffic takes other links by one router than by the other.
double share_apart(const Topology& topology, const Router& a, const Router& b) {
  constexpr std::size_t Most = 64;  // sources, and targets
  const std::size_t n = topology.accelerators().size(), tried = std::min(n, Most);
  const auto at = [&](std::size_t i) { return AcceleratorId(tried == 1 ? 0 : i * (n - 1) / (tried - 1)); };
  std::size_t apart = 0, all = 0;
  for (std::size_t i = 0; i < tried; ++i)
    for (std::size_t j = 0; j < tried; ++j) {
      if (i == j) continue;
      ++all;
      if (!are_equal(load_of(a, at(j), at(i)), load_of(b, at(j), at(i)))) ++apart;
    }
  return all == 0 ? 0 : static_cast<double>(apart) / static_cast<double>(all);
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
  std::vector<std::string> lost;
  if (topology.collectives() != nullptr) lost.emplace_back("the figures of collectives");
  if (!topology.shape().torus.empty())
    lost.emplace_back("the dimensions along which collectives go on a torus");
  return lost;
}

std::vector<std::string> lost_in_graphml(const Topology& topology, const GraphRoutes& routes) {
  std::vector<std::string> lost = lost_in_platform(topology);
  const std::unique_ptr<const Router> graph = graph_router(topology, routes.routing, routes.seed);
  const double apart = share_apart(topology, topology.router(), *graph);
  if (apart > 0)
    lost.push_back(fmt::format("the routes of {:.0f} % of the pairs of accelerators (there: {})",
                               std::ceil(100 * apart), graph->description()));
  return lost;
}

}  // namespace syncline
