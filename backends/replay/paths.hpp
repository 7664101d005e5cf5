// The routes that a group's collectives take, looked up once and kept.
#pragma once

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
  Seconds slowest_latency;       // of its paths
  BytesPerSecond narrowest;      // bandwidth of the narrowest link on any path; 0 when there is none
};

/// The hops of a plan's lanes.
struct LanePaths {
  std::vector<LinkUse> uses;            // of all hops, coefficient 1
  std::vector<std::vector<Path>> hops;  // [lane][sender]
  Bundle bundle;
  std::size_t between_nodes = 0;        // hops that leave a node

  [[nodiscard]] std::span<const LinkUse> uses_of(const Path& path) const {
    return std::span(uses).subspan(path.first, path.count);
  }
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
  void count_link(LinkId link);
  void finish(Bundle& bundle, double transfers);

  const Cluster& cluster_;
  std::vector<LinkId> route_;            // scratch
  std::vector<double> crossing_;         // by link: transfers counted so far
  std::vector<LinkId> touched_;
};

}  // namespace syncline
