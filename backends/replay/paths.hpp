// The routes that a group's collectives take, looked up once and kept.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/collective/bundle_sum.hpp"
#include "sim/collective/collective.hpp"
#include "sim/device/cluster.hpp"
#include "sim/network/network.hpp"

namespace syncline {

/// One transfer's way through the network.
struct Path {
  std::uint32_t first = 0;  // in the uses of its owner
  std::uint32_t count = 0;
  Seconds latency;
};

/// Several transfers that advance together, as one action over all their links: on each link the number of
/// them that cross it, per byte that one of them moves.
struct Bundle {
  std::vector<LinkUse> uses;
  std::size_t number = 0;  // in a BundleBook
};

/// What a step costs on a hop: latency + bytes · seconds_per_byte.
struct HopCost {
  Seconds latency;
  double seconds_per_byte = 0;
  friend auto operator<=>(const HopCost&, const HopCost&) = default;
};

/// Sorts, and leaves one of equal ones.
template <class Cost>
void keep_different(std::vector<Cost>& costs) {
  std::sort(costs.begin(), costs.end());
  costs.erase(std::unique(costs.begin(), costs.end()), costs.end());
}

/// The hops of a plan's lanes.
struct LanePaths {
  std::vector<LinkUse> uses;            // of all hops
  std::vector<std::vector<Path>> hops;  // [lane][sender]
  Bundle bundle;
  double seconds_per_byte = 0;  // of the bundle at its fullest link, nothing else being under way
  std::vector<std::vector<HopCost>>
      costs;                      // [lane] the different ones, ascending, all lanes sharing the links
  std::size_t between_nodes = 0;  // hops that leave a node

  [[nodiscard]] std::span<const LinkUse> uses_of(const Path& path) const {
    return std::span(uses).subspan(path.first, path.count);
  }
  /// Time of a ring with nothing else under way than its bundle: every step waits for the slowest hop.
  [[nodiscard]] Seconds lone_time(std::size_t index, const Lane& lane) const;
};

/// Transfers from one member to all others that advance together.
struct FanOutCost {
  Seconds slowest_latency, mean_latency;  // of its ways
  double seconds_per_byte = 0;            // at the fullest link, nothing else being under way
  friend auto operator<=>(const FanOutCost&, const FanOutCost&) = default;

  /// What `bytes` to `others` members take beyond their time at the fullest link. Much to send: the near ones
  /// are served while the first bytes are on their way to the far ones. Little: the last arrival is that at
  /// the farthest.
  [[nodiscard]] Seconds latency(Bytes bytes, std::size_t others) const;
};
struct FanOut {
  Bundle bundle;                  // coefficient: share of the transfers that cross the link
  std::vector<FanOutCost> costs;  // the different ones of those it stands for
};

class PathFinder {
 public:
  explicit PathFinder(const Cluster& cluster);

  [[nodiscard]] AcceleratorId accelerator(RankId rank) const { return cluster_.placement[rank.value()]; }
  [[nodiscard]] const Topology& topology() const { return cluster_.topology; }
  [[nodiscard]] bool between_nodes(RankId a, RankId b) const;

  /// Appends what a transfer from `source` to `target` loads; returns the latency of the way.
  Seconds append(RankId source, RankId target, std::vector<LinkUse>& uses);

  [[nodiscard]] LanePaths lane_paths(std::span<const RankId> members, std::span<const Lane> lanes);

  [[nodiscard]] FanOut fan_out(std::span<const RankId> members, std::size_t source);

 private:
  void add_costs(LanePaths& paths);

  const Cluster& cluster_;
  std::vector<LinkUse> way_;  // scratch: followed last
  std::vector<double> pace_;  // scratch by link, s per byte
  BundleSum sum_;
};

}  // namespace syncline
