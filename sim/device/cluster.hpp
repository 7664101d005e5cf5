// What a schedule runs on.
#pragma once

#include <vector>

#include "sim/device/device.hpp"
#include "sim/topology/topology.hpp"

namespace syncline {

/// `placement[rank]` is the rank's accelerator; all different.
struct Cluster {
  Topology topology;
  Device device;
  std::vector<AcceleratorId> placement;
};

/// Rank r on accelerator r.
[[nodiscard]] std::vector<AcceleratorId> placement_in_order(std::size_t ranks);

}  // namespace syncline
