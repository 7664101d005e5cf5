#include "backends/replay/paths.hpp"

#include <algorithm>

namespace syncline {

PathFinder::PathFinder(const Cluster& cluster) : cluster_(cluster), crossing_(cluster.topology.links().size()) {}

bool PathFinder::between_nodes(RankId a, RankId b) const {
  return topology().node_of(accelerator(a)) != topology().node_of(accelerator(b));
}

Seconds PathFinder::append(RankId source, RankId target, std::vector<LinkUse>& uses) {
  route_.clear();
  topology().router().route(accelerator(source), accelerator(target), route_);
  for (const LinkId link : route_) uses.push_back({link, 1.0});
  return topology().latency(route_);
}

void PathFinder::count_link(LinkId link) {
  if (crossing_[link.value()] == 0) touched_.push_back(link);
  crossing_[link.value()] += 1;
}

// Turns the counts into coefficients per byte of one of `transfers`, and clears them.
void PathFinder::finish(Bundle& bundle, double transfers) {
  std::sort(touched_.begin(), touched_.end());
  for (const LinkId link : touched_) {
    const BytesPerSecond bandwidth = topology().link(link).bandwidth;
    if (bundle.uses.empty() || bandwidth < bundle.narrowest) bundle.narrowest = bandwidth;
    bundle.uses.push_back({link, crossing_[link.value()] / transfers});
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
      paths.bundle.slowest_latency = std::max(paths.bundle.slowest_latency, path.latency);
      if (between_nodes(from, to)) ++paths.between_nodes;
      for (const LinkId link : route_) count_link(link);
    }
  }
  finish(paths.bundle, 1);
  return paths;
}

Bundle PathFinder::fan_out(std::span<const RankId> members, std::size_t source) {
  Bundle bundle;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i == source) continue;
    route_.clear();
    topology().router().route(accelerator(members[source]), accelerator(members[i]), route_);
    bundle.slowest_latency = std::max(bundle.slowest_latency, topology().latency(route_));
    for (const LinkId link : route_) count_link(link);
  }
  finish(bundle, static_cast<double>(members.size() - 1));
  return bundle;
}

}  // namespace syncline
