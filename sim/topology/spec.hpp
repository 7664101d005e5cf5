// What a cluster is built from, as plain values: the content of a topology file.
#pragma once

#include <cstdint>
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

/// PCIe inside a node: accelerators in equal numbers on each switch, switches in equal numbers on each socket.
struct PcieSpec {
  int sockets = 1;
  int switches = 0;          // in all; 0: accelerators hang on the sockets' root ports themselves
  LinkSpec uplink;           // of a switch to its socket
  LinkSpec between_sockets;  // each pair of sockets
};

/// The wrap-around of one dimension of a twisted torus: whoever goes over the end of dimension `of` also moves `by` places
/// along dimension `along` (Cámara et al., "Twisted torus topologies for enhanced interconnection networks", IEEE TPDS 21,
/// 2010).
struct TwistSpec {
  int of = 0, along = 1;
  int by = 0;
};

/// The scale-up domain inside a node: what connects its accelerators directly.
struct ScaleUpSpec {
  enum class Kind {
    Switch,
    FullMesh,
    Torus,
    Pcie
  };  // NVSwitch-like star; a link between every two; a TPU slice; a tree
  Kind kind = Kind::Switch;
  LinkSpec link;  // Switch, Pcie: accelerator to switch (or socket). Else: between two accelerators
  std::vector<int> shape{};  // Torus: as TorusSpec has it
  std::vector<bool> wrap{};
  int dimensions = 3;
  std::vector<TwistSpec> twist{};
  PcieSpec pcie{};  // Pcie
};

/// How a node reaches the scale-out fabric.
struct NicSpec {
  int per_node =
      1;  // divides accelerators_per_node or equals it; accelerator i uses NIC i * per_node / accelerators
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
/// Rail-only: each rail is a fat tree of its own, and nothing joins the rails but the scale-up inside nodes (Wang et al.,
/// "Rail-only: a low-cost high-performance network for training LLMs with trillion parameters", 2023).
/// Routing: D-mod-k; ECMP, where a seeded hash of (source, target) takes one of the equal-cost paths, so that flows can
/// collide; or spraying, where each flow is split evenly over all of them.
enum class FatTreeRouting { DModK, Ecmp, Spray };
struct FatTreeSpec {
  int levels = 0;
  int radix = 64;
  std::vector<double> oversubscription;  // by level from the leaves up; missing entries are 1
  bool rail_optimised = false;
  LinkSpec link;           // every cable: NIC to leaf, switch to switch
  bool rail_only = false;  // implies rail_optimised
  FatTreeRouting routing = FatTreeRouting::DModK;
  std::uint64_t seed = 0;  // of ECMP's hash
};

/// k-ary n-dimensional torus with one endpoint (see TopologySpec) a vertex, the first dimension fastest.
struct TorusSpec {
  std::vector<int> shape;  // e.g. {4, 4, 8}; empty: as near to a cube as the count allows, shortest first
  std::vector<bool> wrap;  // by dimension; empty: all wrapped. A dimension of 2 has one cable, not two
  int dimensions = 3;      // used when shape is empty
  LinkSpec link;           // each of the 2·dimensions links of an accelerator
  std::vector<TwistSpec> twist{};  // none: a plain torus
};

/// Every endpoint reaches every other without shared links but its own.
struct AllToAllSpec {
  enum class Kind { IdealSwitch, FullMesh };
  Kind kind = Kind::IdealSwitch;
  LinkSpec link;  // IdealSwitch: endpoint to switch. FullMesh: between each two endpoints
};

/// Dragonfly (Kim, Dally, Scott and Abts, ISCA 2008): groups of routers, each with endpoints; in a group every two routers
/// are joined, or (dragonfly+; Shpiner et al., 2017) leaves that hold endpoints are joined to each spine, and spines hold the
/// cables between groups. Every two groups are joined by equally many cables.
enum class DragonflyRouting {
  Minimal,
  Valiant
};  // Valiant: by way of a group chosen by a seeded hash of (source, target)
struct DragonflySpec {
  int groups = 0;     // 0: as few as hold all endpoints
  int routers = 0;    // a group; dragonfly+: its leaves
  int spines = 0;     // a group, of a dragonfly+; 0: a dragonfly
  int endpoints = 0;  // a router (leaf)
  int global = 1;     // cables to other groups a router (dragonfly+: a spine)
  DragonflyRouting routing = DragonflyRouting::Minimal;
  std::uint64_t seed = 0;
  LinkSpec link;                        // endpoint to router, and router to router in a group
  std::optional<LinkSpec> global_link;  // between groups; none: as `link`
};

/// A cluster given vertex by vertex and cable by cable, from a list in a file, GraphML, or a SimGrid platform.
enum class GraphRouting {
  Shortest,
  Ecmp,
  Spray
};  // fewest links, ties by order | by seeded hash | split over all
struct GraphSpec {
  struct Node {
    std::string name;
    std::string kind;  // accelerator, nic, switch
    std::string node;  // of accelerators and NICs: whose node they are in; empty: a node of their own
  };
  struct Edge {
    std::string from, to;
    LinkSpec link;
    bool both = true;  // a cable; false: one direction only
    std::string kind;  // scale-up, host-bus, scale-out; empty: by its ends
  };
  std::vector<Node> vertices;
  std::vector<Edge> edges;
  GraphRouting routing = GraphRouting::Shortest;
  std::uint64_t seed = 0;
};

/// A whole cluster. Without `nic`, the fabric's endpoints are the accelerators themselves (tori, all-to-all); with
/// it, they are the NICs. A fat tree needs NICs. `std::monostate`: no scale-out fabric, so one node only.
/// Traffic inside a node takes the scale-up links where there are any, else the fabric.
struct TopologySpec {
  std::string name;
  std::string source;
  int accelerators = 0;           // in all
  int accelerators_per_node = 1;  // divides `accelerators`
  std::optional<ScaleUpSpec> scale_up;
  std::optional<NicSpec> nic;
  std::variant<std::monostate, FatTreeSpec, TorusSpec, AllToAllSpec, DragonflySpec> scale_out;
  std::optional<GraphSpec> graph;                // in place of all of the above but name and source
  std::optional<CollectiveFigures> collectives;  // without: a collective costs what its links cost
};

}  // namespace syncline
