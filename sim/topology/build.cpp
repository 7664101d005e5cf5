// From a description to a topology with its router: the nodes, then the fabric between them.
#include <fmt/format.h>

#include <optional>

#include "sim/core/random.hpp"
#include "sim/topology/fabric.hpp"
#include "sim/topology/measures.hpp"
#include "sim/topology/nodes.hpp"

namespace syncline {

void Fabric::load(std::uint32_t source, std::uint32_t target, std::vector<LinkUse>& uses) const {
  std::vector<LinkId> links;
  links.reserve(8);  // most ways; asked for by the million
  route(source, target, links);
  add_plain(links, uses);
}

std::uint64_t flow_hash(std::uint64_t seed, std::uint32_t source, std::uint32_t target, std::uint32_t salt) {
  return mix(mix(seed, std::uint64_t{source} << 32 | target), salt);
}

namespace {

/// Inside a node over the scale-up links; else to the own NIC, over the fabric, and from the target's NIC.
/// On a rail-optimised fabric, traffic to another rail first moves inside the node to the accelerator on the
/// target's rail, and so crosses no spine that its own rail would not (as NCCL's PXN does;
/// developer.nvidia.com/blog, "Doubling all2all performance with NCCL 2.12", 2022).
class ClusterRouter : public Router {
 public:
  ClusterRouter(Nodes nodes, std::unique_ptr<const Fabric> fabric)
      : nodes_(std::move(nodes)),
        fabric_(std::move(fabric)),
        moves_to_rail_(fabric_ && fabric_->has_rails() && nodes_.has_scale_up()) {}

  void route(AcceleratorId source, AcceleratorId target, std::vector<LinkId>& links) const override {
    const std::optional<Ends> ends = begin(source, target, links);
    if (!ends) return;
    if (fabric_) fabric_->route(ends->source, ends->target, links);
    nodes_.route_from_endpoint(target, links);
  }

  void load(AcceleratorId source, AcceleratorId target, std::vector<LinkUse>& uses) const override {
    std::vector<LinkId> links;
    links.reserve(4);  // most ways
    const std::optional<Ends> ends = begin(source, target, links);
    add_plain(links, uses);
    if (!ends) return;
    if (fabric_) fabric_->load(ends->source, ends->target, uses);
    links.clear();
    nodes_.route_from_endpoint(target, links);
    add_plain(links, uses);
  }

  [[nodiscard]] std::string description() const override {
    std::string text = nodes_.description();
    if (fabric_) text += "; between nodes " + fabric_->description();
    if (moves_to_rail_) text += "; traffic to another rail first moves inside the node";
    return text;
  }

 private:
  struct Ends {  // endpoints of the fabric
    std::uint32_t source, target;
  };

  /// Appends the way up to the fabric; nothing more is to come where it ends inside the node.
  std::optional<Ends> begin(AcceleratorId source, AcceleratorId target, std::vector<LinkId>& links) const {
    if (source == target) return std::nullopt;
    if (nodes_.has_scale_up() && nodes_.same_node(source, target)) {
      nodes_.route_inside(source, target, links);
      return std::nullopt;
    }
    if (moves_to_rail_ && !on_same_rail(source, target)) {
      const AcceleratorId peer = nodes_.peer_beside(source, target);
      nodes_.route_inside(source, peer, links);
      source = peer;
    }
    nodes_.route_to_endpoint(source, links);
    return Ends{nodes_.endpoint_of(source), nodes_.endpoint_of(target)};
  }

  [[nodiscard]] bool on_same_rail(AcceleratorId a, AcceleratorId b) const {
    const std::uint32_t rails = nodes_.endpoints().per_node;
    return nodes_.endpoint_of(a) % rails == nodes_.endpoint_of(b) % rails;
  }

  Nodes nodes_;
  std::unique_ptr<const Fabric> fabric_;
  bool moves_to_rail_;
};

struct BuildFabric {
  Topology& topology;
  const Endpoints& endpoints;

  std::unique_ptr<const Fabric> operator()(std::monostate) const { return nullptr; }
  std::unique_ptr<const Fabric> operator()(const FatTreeSpec& spec) const {
    return build_fat_tree(topology, spec, endpoints);
  }
  std::unique_ptr<const Fabric> operator()(const TorusSpec& spec) const {
    return build_torus(topology, spec, endpoints);
  }
  std::unique_ptr<const Fabric> operator()(const DragonflySpec& spec) const {
    return build_dragonfly(topology, spec, endpoints);
  }
  std::unique_ptr<const Fabric> operator()(const AllToAllSpec& spec) const {
    return build_all_to_all(topology, spec, endpoints);
  }
};

Shape shape_of(const TopologySpec& spec) {
  Shape shape{spec.accelerators_per_node, spec.nic ? spec.nic->per_node : 0, {}, {}};
  const auto* torus = std::get_if<TorusSpec>(&spec.scale_out);
  const bool inside = spec.scale_up && spec.scale_up->kind == ScaleUpSpec::Kind::Torus;
  if (inside || (torus && (!spec.nic || spec.nic->per_node == spec.accelerators_per_node))) {
    const TorusSpec resolved = inside ? resolve_torus(torus_of(*spec.scale_up), spec.accelerators_per_node)
                                      : resolve_torus(*torus, spec.accelerators);
    shape.torus = resolved.shape;
    shape.torus_wrap = resolved.wrap;
  }
  return shape;
}

}  // namespace

Topology build_topology(const TopologySpec& spec) {
  if (spec.graph) return build_graph(spec);
  check_spec(spec);
  Topology topology(spec.name, shape_of(spec));
  topology.set_collectives(spec.collectives);
  Nodes nodes(topology, spec);
  std::unique_ptr<const Fabric> fabric = std::visit(BuildFabric{topology, nodes.endpoints()}, spec.scale_out);
  topology.set_router(std::make_unique<ClusterRouter>(std::move(nodes), std::move(fabric)));
  if (!is_connected(topology)) {
    refuse(fmt::format(
        "the {} accelerators of the node would be disconnected: no scale-up, no scale-out, and no NIC "
        "that all share; add scale-up",
        spec.accelerators));
  }
  return topology;
}

}  // namespace syncline
