// Descriptions that the tests build. Round figures, so that results can be checked by hand: scale-up 100
// GB/s, host bus 50 GB/s, every fabric cable 10 GB/s; latencies 1, 2 and 4 us, so that a sum tells which
// links were taken.
#pragma once

#include <utility>
#include <vector>

#include "sim/topology/topology.hpp"

namespace syncline {

inline const LinkSpec ScaleUpLink{BytesPerSecond(100e9), 1.0, Seconds(1e-6)};
inline const LinkSpec HostBus{BytesPerSecond(50e9), 1.0, Seconds(2e-6)};
inline const LinkSpec Cable{BytesPerSecond(10e9), 1.0, Seconds(4e-6)};

/// Nodes with a scale-up of the given kind and no fabric.
inline TopologySpec nodes_of(int accelerators, int per_node,
                             ScaleUpSpec::Kind kind = ScaleUpSpec::Kind::Switch) {
  TopologySpec spec;
  spec.name = "test";
  spec.accelerators = accelerators;
  spec.accelerators_per_node = per_node;
  if (per_node > 1) spec.scale_up = ScaleUpSpec{kind, ScaleUpLink};
  return spec;
}

struct TreeOptions {
  int levels = 0, radix = 64;
  std::vector<double> oversubscription = {};
  bool rails = false;
  int nics = 0;  // 0: one an accelerator
};

inline TopologySpec fat_tree(int accelerators, int per_node, const TreeOptions& options) {
  TopologySpec spec = nodes_of(accelerators, per_node);
  spec.nic = NicSpec{options.nics > 0 ? options.nics : per_node, HostBus};
  spec.scale_out = FatTreeSpec{options.levels, options.radix, options.oversubscription, options.rails, Cable};
  return spec;
}

inline TopologySpec torus(int accelerators, std::vector<int> shape, std::vector<bool> wrap = {}) {
  TopologySpec spec = nodes_of(accelerators, 1);
  TorusSpec torus;
  torus.shape = std::move(shape);
  torus.wrap = std::move(wrap);
  torus.link = Cable;
  spec.scale_out = torus;
  return spec;
}

inline TopologySpec all_to_all(int accelerators, AllToAllSpec::Kind kind, int per_node = 1) {
  TopologySpec spec = nodes_of(accelerators, per_node);
  spec.scale_out = AllToAllSpec{kind, Cable};
  return spec;
}

/// The same with NICs as the fabric's endpoints.
inline TopologySpec with_nics(TopologySpec spec, int per_node) {
  spec.nic = NicSpec{per_node, HostBus};
  return spec;
}

constexpr auto Ideal = AllToAllSpec::Kind::IdealSwitch;
constexpr auto Mesh = AllToAllSpec::Kind::FullMesh;

}  // namespace syncline
