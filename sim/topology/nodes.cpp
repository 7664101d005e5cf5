#include "sim/topology/nodes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace syncline {
namespace {

/// Position of cable (low, high), low < high, when the cables of a full mesh of n are counted row by row.
std::uint32_t mesh_cable(std::uint32_t low, std::uint32_t high, std::uint32_t n) {
  return low * (2 * n - low - 1) / 2 + (high - low - 1);
}

}  // namespace

Nodes::Nodes(Topology& topology, const TopologySpec& spec)
    : per_node_(static_cast<std::uint32_t>(spec.accelerators_per_node)),
      nics_per_node_(spec.nic ? static_cast<std::uint32_t>(spec.nic->per_node) : 0),
      has_nics_(spec.nic.has_value()),
      mesh_(spec.scale_up && spec.scale_up->kind == ScaleUpSpec::Kind::FullMesh) {
  const auto nodes = static_cast<std::uint32_t>(spec.accelerators) / per_node_;
  for (std::uint32_t node = 0; node < nodes; ++node) add_node(topology, spec, node);
  links_per_node_ = static_cast<std::uint32_t>(topology.links().size()) / nodes;
  scale_up_links_per_node_ = links_per_node_ - (has_nics_ ? 2 * per_node_ : 0);
}

void Nodes::add_node(Topology& topology, const TopologySpec& spec, std::uint32_t node) {
  std::vector<VertexId> accelerators;
  for (std::uint32_t i = 0; i < per_node_; ++i) {
    accelerators.push_back(
        topology.add_vertex(VertexKind::Accelerator, fmt::format("node{}.gpu{}", node, i), node));
  }
  const bool connected = spec.scale_up && per_node_ > 1;
  if (connected && spec.scale_up->kind == ScaleUpSpec::Kind::Torus) {
    std::unique_ptr<const Fabric> torus =
        build_torus(topology, torus_of(*spec.scale_up), {accelerators, per_node_}, LinkKind::ScaleUp);
    if (!torus_) torus_ = std::move(torus);
  } else if (connected && mesh_) {
    for (auto low = accelerators.begin(); low != accelerators.end(); ++low) {
      for (auto high = low + 1; high != accelerators.end(); ++high) {
        topology.add_cable(*low, *high, spec.scale_up->link, LinkKind::ScaleUp);
      }
    }
  } else if (connected && spec.scale_up->kind == ScaleUpSpec::Kind::Pcie) {
    add_pcie(topology, *spec.scale_up, accelerators, node);
  } else if (connected) {
    const VertexId hub = topology.add_vertex(VertexKind::Switch, fmt::format("node{}.switch", node), node);
    for (const VertexId accelerator : accelerators) {
      topology.add_cable(accelerator, hub, spec.scale_up->link, LinkKind::ScaleUp);
    }
  }
  if (!has_nics_) {
    endpoints_.insert(endpoints_.end(), accelerators.begin(), accelerators.end());
    return;
  }
  const std::size_t first_nic = endpoints_.size();
  for (std::uint32_t i = 0; i < nics_per_node_; ++i) {
    endpoints_.push_back(topology.add_vertex(VertexKind::Nic, fmt::format("node{}.nic{}", node, i), node));
  }
  for (std::uint32_t i = 0; i < per_node_; ++i) {
    const VertexId nic = endpoints_[first_nic + i * nics_per_node_ / per_node_];
    topology.add_cable(accelerators[i], nic, spec.nic->host_bus, LinkKind::HostBus);
  }
}

/// Accelerators to their switch or socket, switches to their socket, then every two sockets.
void Nodes::add_pcie(Topology& topology, const ScaleUpSpec& scale_up,
                     const std::vector<VertexId>& accelerators, std::uint32_t node) {
  const PcieSpec& pcie = scale_up.pcie;
  pcie_ = Pcie{static_cast<std::uint32_t>(pcie.sockets), static_cast<std::uint32_t>(pcie.switches)};
  std::vector<VertexId> sockets, switches;
  for (int i = 0; i < pcie.sockets; ++i)
    sockets.push_back(topology.add_vertex(VertexKind::Switch, fmt::format("node{}.socket{}", node, i), node));
  for (int i = 0; i < pcie.switches; ++i)
    switches.push_back(topology.add_vertex(VertexKind::Switch, fmt::format("node{}.pcie{}", node, i), node));
  const std::vector<VertexId>& hubs = switches.empty() ? sockets : switches;
  for (std::size_t i = 0; i < accelerators.size(); ++i)
    topology.add_cable(accelerators[i], hubs[i * hubs.size() / accelerators.size()], scale_up.link,
                       LinkKind::ScaleUp);
  for (std::size_t i = 0; i < switches.size(); ++i)
    topology.add_cable(switches[i], sockets[i * sockets.size() / switches.size()], pcie.uplink,
                       LinkKind::ScaleUp);
  for (auto low = sockets.begin(); low != sockets.end(); ++low)
    for (auto high = low + 1; high != sockets.end(); ++high)
      topology.add_cable(*low, *high, pcie.between_sockets, LinkKind::ScaleUp);
}

/// Up to the first hub that both are below, then down.
void Nodes::route_pcie(std::uint32_t first, std::uint32_t from, std::uint32_t to,
                       std::vector<LinkId>& links) const {
  const std::uint32_t hubs = pcie_->switches > 0 ? pcie_->switches : pcie_->sockets;
  const std::uint32_t hub_from = from * hubs / per_node_, hub_to = to * hubs / per_node_;
  const std::uint32_t uplinks = first + 2 * per_node_;
  links.emplace_back(first + 2 * from);
  if (hub_from != hub_to) {
    if (pcie_->switches > 0) links.emplace_back(uplinks + 2 * hub_from);
    const std::uint32_t socket_from = hub_from * pcie_->sockets / hubs,
                        socket_to = hub_to * pcie_->sockets / hubs;
    if (socket_from != socket_to) {
      const auto [low, high] = std::minmax(socket_from, socket_to);
      const std::uint32_t between = uplinks + 2 * pcie_->switches;
      links.emplace_back(between + 2 * mesh_cable(low, high, pcie_->sockets) +
                         (socket_from > socket_to ? 1 : 0));
    }
    if (pcie_->switches > 0) links.emplace_back(uplinks + 2 * hub_to + 1);
  }
  links.emplace_back(first + 2 * to + 1);
}

std::uint32_t Nodes::endpoint_of(AcceleratorId id) const {
  if (!has_nics_) return id.value();
  return id.value() / per_node_ * nics_per_node_ + id.value() % per_node_ * nics_per_node_ / per_node_;
}

bool Nodes::same_node(AcceleratorId a, AcceleratorId b) const {
  return a.value() / per_node_ == b.value() / per_node_;
}

AcceleratorId Nodes::peer_beside(AcceleratorId source, AcceleratorId target) const {
  return AcceleratorId(source.value() - source.value() % per_node_ + target.value() % per_node_);
}

void Nodes::route_inside(AcceleratorId source, AcceleratorId target, std::vector<LinkId>& links) const {
  if (source == target) return;
  const std::uint32_t first = source.value() / per_node_ * links_per_node_;
  const std::uint32_t from = source.value() % per_node_, to = target.value() % per_node_;
  if (torus_) {
    const std::size_t begin = links.size();
    torus_->route(from, to, links);
    for (std::size_t i = begin; i < links.size(); ++i) links[i] = LinkId(links[i].value() + first);
  } else if (pcie_) {
    route_pcie(first, from, to, links);
  } else if (mesh_) {
    const auto [low, high] = std::minmax(from, to);
    links.emplace_back(first + 2 * mesh_cable(low, high, per_node_) + (from > to ? 1 : 0));
  } else {
    links.emplace_back(first + 2 * from);
    links.emplace_back(first + 2 * to + 1);
  }
}

void Nodes::route_to_endpoint(AcceleratorId source, std::vector<LinkId>& links) const {
  if (!has_nics_) return;
  const std::uint32_t first = source.value() / per_node_ * links_per_node_ + scale_up_links_per_node_;
  links.emplace_back(first + 2 * (source.value() % per_node_));
}

void Nodes::route_from_endpoint(AcceleratorId target, std::vector<LinkId>& links) const {
  if (!has_nics_) return;
  route_to_endpoint(target, links);
  links.back() = LinkId(links.back().value() + 1);  // the other direction of the same bus
}

std::string Nodes::description() const {
  if (!has_scale_up()) return "no scale-up";
  if (torus_) return "inside a node by " + torus_->description();
  if (pcie_) return "inside a node over PCIe";
  return mesh_ ? "inside a node over its direct scale-up link" : "inside a node over the scale-up switch";
}

}  // namespace syncline
