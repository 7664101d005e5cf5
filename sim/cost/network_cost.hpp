// What a cluster's network costs and draws: its parts, by a list of what such parts are sold for.
//
// The network is what joins nodes: NICs, switches, and cables with what stands at their ends. Links of a torus between
// accelerators belong to it too, also where a node is a slice of one. What is inside a node else (NVLink, PCIe) is paid
// and powered with the node. Racks, cooling, management and installation are not counted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/topology/topology.hpp"

namespace syncline {

/// A part that is sold. A figure that is not known is absent.
struct PricedPart {
  BytesPerSecond rate{};  // of a port, one way; slower links use it too
  int ports = 1;          // of a switch
  std::optional<double> usd{}, usd_low{},
      usd_high{};                // US dollars, of the whole part: typical, and the ends asked
  std::optional<Watts> power{};  // of the whole part, without what is plugged into it
  std::string source{};
};

/// What a cable is made of: copper is one part; optics are a transceiver at each end.
enum class Medium { Copper, Optics };

/// Tori of accelerators whose blocks are joined by optical circuit switches, as TPU v4 pods are: cables that leave a block
/// have a transceiver and a port of such a switch at each end; those inside are copper.
struct OpticalCircuits {
  int dimensions = 3;  // of the tori that are built so
  int block = 4;       // accelerators along each dimension of a block
  PricedPart port;
};

struct PriceList {
  std::string name, source;
  Medium endpoint_to_switch = Medium::Optics, between_switches = Medium::Optics,
         between_endpoints = Medium::Copper;
  std::vector<PricedPart> nics, switches, transceivers, copper;
  std::optional<OpticalCircuits> optical_circuits;
};

struct Price {
  double typical = 0, low = 0, high = 0;  // US dollars
};

struct CostLine {
  std::string part;  // "switch, 64 ports of 400 Gbit/s"
  int count = 0;
  std::optional<Price> price;  // of all of them; absent when unknown
  std::optional<Watts> power;  // likewise
  std::string source;          // of the part's figures; where the list has no such part: that it has none
};

struct NetworkCost {
  std::vector<CostLine> lines;  // NICs, switches by level, then cables
  std::optional<Price> price;   // absent when that of any line is
  std::optional<Watts> power;   // likewise
};

/// A switch is bought whole, the smallest in the list that has the ports and the rate; so is every other part.
[[nodiscard]] NetworkCost network_cost(const Topology& topology, const PriceList& prices);

/// Cables of a torus that leave blocks of `block` accelerators a side: (n − 1) / block of a line of n (rounded down), and
/// one more where the line is closed and no shorter than a block.
[[nodiscard]] int cables_between_blocks(const std::vector<int>& shape, const std::vector<bool>& wrap,
                                        int block);

}  // namespace syncline
