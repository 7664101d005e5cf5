// What a schedule runs on.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/device/device.hpp"
#include "sim/topology/faults.hpp"
#include "sim/topology/topology.hpp"

namespace syncline {

/// `placement[rank]` is the rank's accelerator; all different.
struct Cluster {
  Topology topology;  // with the faults from the start in it
  Device device;
  std::vector<AcceleratorId> placement;
  std::vector<Fault> faults{};  // all of them
  Noise noise{};
  std::uint64_t seed = 0;  // of the noise
};

/// Rank r on accelerator r.
[[nodiscard]] std::vector<AcceleratorId> placement_in_order(std::size_t ranks);

}  // namespace syncline
