#include "backends/replay/paths.hpp"

#include <algorithm>
#include <set>

namespace syncline {

PathFinder::PathFinder(const Cluster& cluster) : cluster_(cluster), crossing_(cluster.topology.links().size()) {}

bool PathFinder::between_nodes(RankId a, RankId b) const {
  return topology().node_of(accelerator(a)) != topology().node_of(accelerator(b));
}

// Puts the links from `source` to `target` into route_; returns the latency of the way.
Seconds PathFinder::follow(RankId source, RankId target) {
  route_.clear();
  topology().router().route(accelerator(source), accelerator(target), route_);
  return topology().latency(route_);
}

Seconds PathFinder::append(RankId source, RankId target, std::vector<LinkUse>& uses) {
  const Seconds latency = follow(source, target);
  for (const LinkId link : route_) uses.push_back({link, 1.0});
  return latency;
}

void PathFinder::count_link(LinkId link) {
  if (crossing_[link.value()] == 0) touched_.push_back(link);
  crossing_[link.value()] += 1;
}

// Turns the counts into coefficients per byte of one of `transfers`, and clears them.
void PathFinder::finish(Bundle& bundle, double transfers) {
  std::sort(touched_.begin(), touched_.end());
  for (const LinkId link : touched_) {
    const double coefficient = crossing_[link.value()] / transfers;
    bundle.seconds_per_byte =
        std::max(bundle.seconds_per_byte, coefficient / topology().link(link).bandwidth.si());
    bundle.uses.push_back({link, coefficient});
    crossing_[link.value()] = 0;
  }
  touched_.clear();
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
      for (const LinkId link : route_) count_link(link);
    }
  }
  finish(paths.bundle, 1);
  add_costs(paths);
  return paths;
}

// What each hop costs when all lanes share the links: few different values on a regular fabric.
void PathFinder::add_costs(LanePaths& paths) {
  for (const LinkUse& use : paths.bundle.uses)
    crossing_[use.link.value()] = use.coefficient / topology().link(use.link).bandwidth.si();
  for (const std::vector<Path>& hops : paths.hops) {
    std::set<HopCost> different;
    for (const Path& hop : hops) {
      HopCost cost{hop.latency, 0};
      for (const LinkUse& use : paths.uses_of(hop))
        cost.seconds_per_byte = std::max(cost.seconds_per_byte, crossing_[use.link.value()]);
      different.insert(cost);
    }
    paths.costs.emplace_back(different.begin(), different.end());
  }
  for (const LinkUse& use : paths.bundle.uses) crossing_[use.link.value()] = 0;
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

Bundle PathFinder::fan_out(std::span<const RankId> members, std::size_t source) {
  Bundle bundle;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i == source) continue;
    const Seconds latency = follow(members[source], members[i]);
    bundle.slowest_latency = std::max(bundle.slowest_latency, latency);
    bundle.mean_latency += latency / static_cast<double>(members.size() - 1);
    for (const LinkId link : route_) count_link(link);
  }
  finish(bundle, static_cast<double>(members.size() - 1));
  return bundle;
}

}  // namespace syncline
