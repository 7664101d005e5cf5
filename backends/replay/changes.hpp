// What becomes of a cluster's parts while a schedule is played on it: its faults that begin at a time, as
// dates.
#pragma once

#include <memory>
#include <vector>

#include "sim/device/cluster.hpp"

namespace syncline {

struct Change {
  enum class Kind {
    Slow,     // an accelerator
    Narrow,   // links: a share of their bandwidth is left
    Stop,     // links: what crosses them stands still
    Reroute,  // everything goes on over `router`
  };
  Seconds date;
  Kind kind = Kind::Slow;
  std::size_t fault = 0;  // of Cluster::faults
  std::vector<LinkId> links{};
  std::shared_ptr<const Router> router{};
};

/// By date; those of one date in the order of Cluster::faults.
/// @throws std::invalid_argument  accelerators that could not reach each other, an accelerator that goes down
[[nodiscard]] std::vector<Change> changes_of(const Cluster& cluster);

/// The rank on a fault's accelerator, and the world size when it holds none.
[[nodiscard]] std::size_t rank_on(const Cluster& cluster, const Fault& fault);

/// What the transfer between two accelerators, which loads `uses`, would load by the routes that the topology
/// has now.
void take_present_way(const Topology& topology, std::vector<LinkUse>& uses);

}  // namespace syncline
