// The routes that a group's collectives take, looked up once and kept.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

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

/// Several transfers that advance together, as one action over all their links: on each link the number of them that
/// cross it, per byte that one of them moves.
struct Bundle {
  std::vector<LinkUse> uses;
  Seconds slowest_latency, mean_latency;  // of its paths (fan-outs only)
  double seconds_per_byte = 0;            // at the fullest link, nothing else being under way
};

/// What a step costs on a hop: latency + bytes · seconds_per_byte.
struct HopCost {
  Seconds latency;
  double seconds_per_byte = 0;
  friend auto operator<=>(const HopCost&, const HopCost&) = default;
};

/// The hops of a plan's lanes.
struct LanePaths {
  std::vector<LinkUse> uses;            // of all hops, coefficient 1
  std::vector<std::vector<Path>> hops;  // [lane][sender]
  Bundle bundle;
  std::vector<std::vector<HopCost>> costs;  // [lane] the different ones, all lanes sharing the links
  std::size_t between_nodes = 0;            // hops that leave a node

  [[nodiscard]] std::span<const LinkUse> uses_of(const Path& path) const {
    return std::span(uses).subspan(path.first, path.count);
  }
  /// Time of a ring with nothing else under way than its bundle: every step waits for the slowest hop.
  [[nodiscard]] Seconds lone_time(std::size_t index, const Lane& lane) const;
};

class PathFinder {
 public:
  explicit PathFinder(const Cluster& cluster);

  [[nodiscard]] AcceleratorId accelerator(RankId rank) const { return cluster_.placement[rank.value()]; }
  [[nodiscard]] const Topology& topology() const { return cluster_.topology; }
  [[nodiscard]] bool between_nodes(RankId a, RankId b) const;

  /// Appends the links from `source` to `target`, coefficient 1; returns the latency of the way.
  Seconds append(RankId source, RankId target, std::vector<LinkUse>& uses);

  [[nodiscard]] LanePaths lane_paths(std::span<const RankId> members, std::span<const Lane> lanes);

  /// From one member to all others: coefficient = share of the transfers that cross the link.
  [[nodiscard]] Bundle fan_out(std::span<const RankId> members, std::size_t source);

 private:
  Seconds follow(RankId source, RankId target);
  void count_link(LinkId link);
  void finish(Bundle& bundle, double transfers);
  void add_costs(LanePaths& paths);

  const Cluster& cluster_;
  std::vector<LinkId> route_;            // followed last
  std::vector<double> crossing_;         // scratch by link, all 0 between calls
  std::vector<LinkId> touched_;
};

}  // namespace syncline
