// What a cluster is built from, as plain values: the content of a topology file.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/topology/collective_figures.hpp"

namespace syncline {

/// One kind of cable or bus. `bandwidth` is the data-sheet figure per direction; `efficiency` in (0, 1] the share of
/// it that a communication library reaches with large messages (measured); the simulation uses the product.
struct LinkSpec {
  BytesPerSecond bandwidth;
  double efficiency = 1.0;
  Seconds latency;

  [[nodiscard]] BytesPerSecond usable() const { return bandwidth * efficiency; }
};

/// The scale-up domain inside a node: what connects its accelerators directly.
struct ScaleUpSpec {
  enum class Kind { Switch, FullMesh, Torus };  // NVSwitch-like star; a link between every two; a TPU slice
  Kind kind = Kind::Switch;
  LinkSpec link;             // Switch: accelerator to switch. Else: between two accelerators
  std::vector<int> shape{};  // Torus: as TorusSpec has it
  std::vector<bool> wrap{};
  int dimensions = 3;
};

/// How a node reaches the scale-out fabric.
struct NicSpec {
  int per_node = 1;   // divides accelerators_per_node or equals it; accelerator i uses NIC i * per_node / accelerators
  LinkSpec host_bus;  // accelerator to NIC (PCIe)
};

/// Folded-Clos network of equal switches. Level 1 are the leaves.
/// A switch of `radix` ports with oversubscription o (down ÷ up) has radix·o/(1+o) ports down and the rest up; the top
/// level has all ports down. Where that is no whole number, the largest split of ratio exactly o that fits is taken
/// (64 ports at 2:1 are 42 down, 21 up, one unused). `levels` 0 means: as few as hold all NICs.
/// Only what the NICs need is built; a switch has one cable to each of as many switches above as it has ports up, or,
/// where fewer switches above do, several parallel cables to each. Parallel cables stay apart as links of their own: a
/// flow gets one cable's bandwidth, not the bundle's, and flows that share a cable contend, as in the real thing.
/// Rail-optimised: NIC r of every node goes to a leaf of rail r, so equal-index NICs of nearby nodes are one switch
/// apart. NICs that fit one switch get one switch, and rails mean nothing. Not rail-optimised: leaves are filled with
/// NICs in order, node after node.
struct FatTreeSpec {
  int levels = 0;
  int radix = 64;
  std::vector<double> oversubscription;  // by level from the leaves up; missing entries are 1
  bool rail_optimised = false;
  LinkSpec link;  // every cable: NIC to leaf, switch to switch
};

/// k-ary n-dimensional torus with one endpoint (see TopologySpec) a vertex, the first dimension fastest.
struct TorusSpec {
  std::vector<int> shape;   // e.g. {4, 4, 8}; empty: as near to a cube as the count allows, shortest first
  std::vector<bool> wrap;   // by dimension; empty: all wrapped. A dimension of 2 has one cable, not two
  int dimensions = 3;       // used when shape is empty
  LinkSpec link;            // each of the 2·dimensions links of an accelerator
};

/// Every endpoint reaches every other without shared links but its own.
struct AllToAllSpec {
  enum class Kind { IdealSwitch, FullMesh };
  Kind kind = Kind::IdealSwitch;
  LinkSpec link;  // IdealSwitch: endpoint to switch. FullMesh: between each two endpoints
};

/// A whole cluster. Without `nic`, the fabric's endpoints are the accelerators themselves (tori, all-to-all); with
/// it, they are the NICs. A fat tree needs NICs. `std::monostate`: no scale-out fabric, so one node only.
/// Traffic inside a node takes the scale-up links where there are any, else the fabric.
struct TopologySpec {
  std::string name;
  std::string source;
  int accelerators = 0;            // in all
  int accelerators_per_node = 1;   // divides `accelerators`
  std::optional<ScaleUpSpec> scale_up;
  std::optional<NicSpec> nic;
  std::variant<std::monostate, FatTreeSpec, TorusSpec, AllToAllSpec> scale_out;
  std::optional<CollectiveFigures> collectives;  // without: a collective costs what its links cost
};

}  // namespace syncline
