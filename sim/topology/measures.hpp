// Figures that describe a topology: computed on the graph, not on the description it was built from.
#pragma once

#include <vector>

#include "sim/topology/topology.hpp"

namespace syncline {

struct Oversubscription {
  int level;  // of the switches, 1 = leaf
  double
      ratio;  // downlink bandwidth ÷ uplink bandwidth of a switch of that level (the worst one); 1 = non-blocking
};

struct Measures {
  int accelerators = 0, nodes = 0, nics = 0, switches = 0, cables = 0;  // a cable is a pair of directed links
  int diameter = 0;         // links on the longest of the shortest paths between accelerators
  Seconds largest_latency;  // along those paths
  double path_diversity =
      0;  // paths of fewest links between the farthest accelerators; of such pairs the least
  /// Least total bandwidth, one way (the narrower one), over any even split of the accelerators that keeps nodes
  /// whole; from the smallest of the splits tried (see the .cpp): exact for the builders' regular fabrics.
  BytesPerSecond bisection;
  BytesPerSecond injection;                        // scale-out (or torus) bandwidth out of one accelerator
  std::vector<Oversubscription> oversubscription;  // fat trees only
};

[[nodiscard]] Measures measure(const Topology& topology);

/// What a cluster is made of, for those who cost it.
struct Parts {
  struct Switches {
    LinkKind network;  // ScaleUp: inside nodes
    int level;         // as Vertex::level
    int ports;         // that have a cable
    int count;
  };
  struct Cables {  // two directed links between the same ends are one
    LinkKind kind;
    VertexKind from, to;       // in the order of VertexKind
    BytesPerSecond bandwidth;  // the data sheet's, one way
    int count;
  };
  int accelerators = 0, nics = 0;
  std::vector<Switches> switches;  // by network, level, ports
  std::vector<Cables> cables;      // by kind, ends, bandwidth
};

[[nodiscard]] Parts parts_of(const Topology& topology);

/// True when every accelerator reaches every other over the graph.
[[nodiscard]] bool is_connected(const Topology& topology);

}  // namespace syncline
