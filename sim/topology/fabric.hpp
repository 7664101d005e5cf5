// Inside of the topology library: what a scale-out fabric is to the rest, and the builders of the fabrics.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/topology/topology.hpp"

namespace syncline {

/// What a fabric connects, node by node: the NICs, or the accelerators where there are none.
struct Endpoints {
  std::span<const VertexId> vertices;
  std::uint32_t per_node = 1;
};

/// Knows the paths between endpoints (by position in Endpoints::vertices) by arithmetic on link ids: no
/// tables, no allocation, time proportional to the length of the path.
class Fabric {
 public:
  virtual ~Fabric() = default;
  /// Appends the links from one endpoint to another; nothing when they are equal.
  virtual void route(std::uint32_t source, std::uint32_t target, std::vector<LinkId>& links) const = 0;
  /// Appends what a transfer loads: its route, or, where traffic is split, every path with its share (Router::load).
  virtual void load(std::uint32_t source, std::uint32_t target, std::vector<LinkUse>& uses) const;
  [[nodiscard]] virtual std::string description() const = 0;
  /// True when endpoints of equal index in their nodes are nearer to each other than to others.
  [[nodiscard]] virtual bool has_rails() const { return false; }
};

// Each adds the fabric's switches and links to the topology.
// @throws std::invalid_argument when the fabric cannot hold the endpoints, with the reason
[[nodiscard]] std::unique_ptr<const Fabric> build_fat_tree(Topology& topology, const FatTreeSpec& spec,
                                                           const Endpoints& endpoints);
[[nodiscard]] std::unique_ptr<const Fabric> build_torus(Topology& topology, const TorusSpec& spec,
                                                        const Endpoints& endpoints,
                                                        LinkKind kind = LinkKind::ScaleOut);
[[nodiscard]] std::unique_ptr<const Fabric> build_all_to_all(Topology& topology, const AllToAllSpec& spec,
                                                             const Endpoints& endpoints);

[[nodiscard]] std::unique_ptr<const Fabric> build_dragonfly(Topology& topology, const DragonflySpec& spec,
                                                            const Endpoints& endpoints);

/// The whole cluster of TopologySpec::graph.
[[nodiscard]] Topology build_graph(const TopologySpec& spec);

/// A number that looks random and depends on nothing but the arguments: which of several equal paths a flow takes.
[[nodiscard]] std::uint64_t flow_hash(std::uint64_t seed, std::uint32_t source, std::uint32_t target,
                                      std::uint32_t salt);

/// Directed links of full meshes that are built at most: 2,048 endpoints, some 170 MB.
inline constexpr std::size_t MostMeshLinks = std::size_t{1} << 22;

/// The torus that a node's scale-up is.
[[nodiscard]] TorusSpec torus_of(const ScaleUpSpec& scale_up);

/// The spec with its shape and wrap filled in.
/// @throws std::invalid_argument when the product of the shape is not `endpoints`
[[nodiscard]] TorusSpec resolve_torus(const TorusSpec& spec, int endpoints);

/// @throws std::invalid_argument naming the first field that makes no sense alone or together with others
void check_spec(const TopologySpec& spec);

/// @throws std::invalid_argument
[[noreturn]] void refuse(const std::string& reason);

}  // namespace syncline
