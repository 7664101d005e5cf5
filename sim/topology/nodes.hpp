// Inside of the topology library: the nodes, with their accelerators, scale-up links, NICs and host buses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/topology/fabric.hpp"

namespace syncline {

/// Adds the nodes to a topology, and knows the ids of their links by arithmetic.
class Nodes {
 public:
  Nodes(Topology& topology, const TopologySpec& spec);

  [[nodiscard]] Endpoints endpoints() const { return {endpoints_, has_nics_ ? nics_per_node_ : per_node_}; }
  [[nodiscard]] std::uint32_t endpoint_of(AcceleratorId id) const;

  [[nodiscard]] bool has_scale_up() const { return scale_up_links_per_node_ > 0; }
  [[nodiscard]] bool same_node(AcceleratorId a, AcceleratorId b) const;
  /// The accelerator beside `source` that has the same index in its node as `target`, and so the same NIC
  /// index.
  [[nodiscard]] AcceleratorId peer_beside(AcceleratorId source, AcceleratorId target) const;

  /// Appends the scale-up links between two accelerators of one node; nothing when they are equal.
  void route_inside(AcceleratorId source, AcceleratorId target, std::vector<LinkId>& links) const;
  /// Appends the host bus to the NIC, or back; nothing when accelerators are the endpoints.
  void route_to_endpoint(AcceleratorId source, std::vector<LinkId>& links) const;
  void route_from_endpoint(AcceleratorId target, std::vector<LinkId>& links) const;

  /// "over the scale-up switch"
  [[nodiscard]] std::string description() const;

 private:
  struct Pcie {
    std::uint32_t sockets, switches;
  };
  void add_pcie(Topology& topology, const ScaleUpSpec& scale_up, const std::vector<VertexId>& accelerators,
                std::uint32_t node);
  void route_pcie(std::uint32_t first, std::uint32_t from, std::uint32_t to,
                  std::vector<LinkId>& links) const;
  void add_node(Topology& topology, const TopologySpec& spec, std::uint32_t node);

  std::uint32_t per_node_ = 1;
  std::uint32_t nics_per_node_ = 0;
  bool has_nics_ = false;
  bool mesh_ = false;
  std::optional<Pcie> pcie_;
  std::unique_ptr<const Fabric> torus_;  // of the first node; the others' links have the same order
  std::uint32_t scale_up_links_per_node_ = 0;
  std::uint32_t links_per_node_ = 0;  // scale-up first, then a host-bus cable an accelerator
  std::vector<VertexId> endpoints_;
};

}  // namespace syncline
