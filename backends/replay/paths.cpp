#include "backends/replay/paths.hpp"

#include <algorithm>

namespace syncline {

PathFinder::PathFinder(const Cluster& cluster)
    : cluster_(cluster), pace_(cluster.topology.links().size()), sum_(cluster.topology.links().size()) {}

bool PathFinder::between_nodes(RankId a, RankId b) const {
  return topology().node_of(accelerator(a)) != topology().node_of(accelerator(b));
}

Seconds PathFinder::append(RankId source, RankId target, std::vector<LinkUse>& uses) {
  const std::size_t begin = uses.size();
  topology().router().load(accelerator(source), accelerator(target), uses);
  return topology().latency(std::span(uses).subspan(begin));
}

LanePaths PathFinder::lane_paths(std::span<const RankId> members, std::span<const Lane> lanes) {
  LanePaths paths;
  for (const Lane& lane : lanes) {
    std::vector<Path>& hops = paths.hops.emplace_back();
    for (std::size_t i = 0; i < lane.senders(); ++i) {
      const RankId from = members[lane.order[i]];
      const RankId to = members[lane.order[(i + 1) % lane.order.size()]];
      Path& path = hops.emplace_back();
      path.first = static_cast<std::uint32_t>(paths.uses.size());
      path.latency = append(from, to, paths.uses);
      path.count = static_cast<std::uint32_t>(paths.uses.size()) - path.first;
      if (between_nodes(from, to)) ++paths.between_nodes;
    }
  }
  sum_.add(paths.uses);
  paths.bundle.uses = sum_.take();
  paths.seconds_per_byte = topology().seconds_per_byte(paths.bundle.uses);
  add_costs(paths);
  return paths;
}

// What each hop costs when all lanes share the links: few different values on a regular fabric.
void PathFinder::add_costs(LanePaths& paths) {
  for (const LinkUse& use : paths.bundle.uses)
    pace_[use.link.value()] = use.coefficient / topology().link(use.link).bandwidth.si();
  for (const std::vector<Path>& hops : paths.hops) {
    std::vector<HopCost>& costs = paths.costs.emplace_back();
    for (const Path& hop : hops) {
      HopCost cost{hop.latency, 0};
      for (const LinkUse& use : paths.uses_of(hop))
        cost.seconds_per_byte = std::max(cost.seconds_per_byte, pace_[use.link.value()]);
      if (costs.empty() || costs.back() != cost) costs.push_back(cost);
    }
    keep_different(costs);
  }
}

Seconds LanePaths::lone_time(std::size_t index, const Lane& lane) const {
  const auto slowest_hop = [&](Bytes bytes) {
    Seconds slowest;
    for (const HopCost& cost : costs[index])
      slowest = std::max(slowest, cost.latency + Seconds(bytes.si() * cost.seconds_per_byte));
    return slowest;
  };
  if (!lane.shrinking) return slowest_hop(lane.step_bytes) * static_cast<double>(lane.steps);
  Seconds total;
  for (int step = 0; step < lane.steps; ++step) total += slowest_hop(lane.bytes_of(step));
  return total;
}

Seconds FanOutCost::latency(Bytes bytes, std::size_t others) const {
  const Seconds sending(bytes.si() * seconds_per_byte);
  const double all_but_last = static_cast<double>(others - 1) / static_cast<double>(others);
  return std::max(mean_latency, slowest_latency - sending * all_but_last);
}

FanOut PathFinder::fan_out(std::span<const RankId> members, std::size_t source) {
  FanOutCost cost;
  const auto others = static_cast<double>(members.size() - 1);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i == source) continue;
    way_.clear();
    const Seconds latency = append(members[source], members[i], way_);
    cost.slowest_latency = std::max(cost.slowest_latency, latency);
    cost.mean_latency += latency / others;
    sum_.add(way_);
  }
  FanOut fan;
  fan.bundle.uses = sum_.take();
  for (LinkUse& use : fan.bundle.uses) use.coefficient /= others;
  cost.seconds_per_byte = topology().seconds_per_byte(fan.bundle.uses);
  fan.costs = {cost};
  return fan;
}

}  // namespace syncline
