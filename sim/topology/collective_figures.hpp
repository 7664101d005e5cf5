// What a communication library makes of the links: the cost of its algorithms by protocol, fitted to measurements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/quantity.hpp"

namespace syncline {

/// One way to carry out a collective. A hop is a step of data from one member to the next; how many there are is the
/// algorithm's affair (sim/collective/cost.hpp). The shares are of the links' usable bandwidth, in (0, 1].
struct ProtocolFigures {
  std::string protocol;      // the library's name for it: "LL", "LL128", "Simple"
  Seconds call;              // of every call, whatever its size
  Seconds hop_inside;        // of a hop within a node
  Seconds hop_between;       // of a hop between nodes
  double share_inside = 1;   // of scale-up links
  double share_between = 1;  // of what joins nodes: host bus and scale-out
  double own_block = 0;  // what a rank's own block, which it copies, takes of the time of one that it sends
  double wire = 1;       // bytes on the links for a byte moved: flags go with the data
};

/// By algorithm; an empty list: the library does not use it here. `auto` takes what is predicted to end first.
struct CollectiveFigures {
  std::string name, source;  // of a library in a file of its own
  std::vector<ProtocolFigures> ring;
  // Rings of one kind, where it differs from the others (a processor adds up slower than it copies); empty: as `ring`.
  std::vector<ProtocolFigures> ring_all_reduce, ring_reduce_scatter, ring_broadcast, ring_reduce;
  std::vector<ProtocolFigures> tree;  // all-reduce: double binary tree across nodes, a chain inside each
  std::vector<ProtocolFigures>
      in_network;                       // all-reduce: the scale-up switch adds up (NVLS); across nodes a tree
  std::vector<ProtocolFigures> direct;  // all-to-all
  std::vector<ProtocolFigures> send;    // send and receive, and the shift of a ring exchange
  /// Most that rings, trees and in-network reductions move out of one node together, whatever its NICs could.
  std::optional<BytesPerSecond> node_limit;
};

}  // namespace syncline
