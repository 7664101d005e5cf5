// The topology graph: accelerators, NICs and switches as vertices, directed links with bandwidth and latency as edges;
// and the routes that traffic takes over it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/core/link_use.hpp"
#include "sim/core/quantity.hpp"
#include "sim/topology/spec.hpp"

namespace syncline {

enum class VertexKind : std::uint8_t { Accelerator, Nic, Switch };
enum class LinkKind : std::uint8_t { ScaleUp, HostBus, ScaleOut };

struct Vertex {
  VertexKind kind;
  std::uint8_t level;  // of a switch in a fat tree: 1 leaf, 2 spine...; 0 elsewhere
  std::uint32_t node;  // of accelerators and NICs: the node that holds them
  std::string name;    // "node3.gpu5", "node3.nic5", "node3.switch", "leaf2", "spine0", "core7", "fabric"
};

/// A directed link. `bandwidth` is what the simulation shares (LinkSpec::usable), `nominal` the data sheet's figure.
struct Link {
  VertexId from;
  VertexId to;
  BytesPerSecond bandwidth;
  BytesPerSecond nominal;
  Seconds latency;
  LinkKind kind;
};

class Topology;

/// Decides the path, or the paths, between two accelerators. Deterministic: the same pair always takes the same.
class Router {
 public:
  virtual ~Router() = default;
  /// Appends the links from `source` to `target` in order; nothing when they are equal.
  virtual void route(AcceleratorId source, AcceleratorId target, std::vector<LinkId>& links) const = 0;
  /// Appends what a transfer loads: each link of its route once, or, where traffic is split over several paths (packet
  /// spraying), each link of each with the share of the bytes that crosses it. No link stands in it twice.
  virtual void load(AcceleratorId source, AcceleratorId target, std::vector<LinkUse>& uses) const;
  /// One line for the report: "D-mod-k up, then down; cross-rail traffic moves inside the node first".
  [[nodiscard]] virtual std::string description() const = 0;
};

/// What collective algorithms want to know of the shape, so that their rings follow it.
struct Shape {
  int accelerators_per_node = 1;
  int nics_per_node = 0;  // 0: no NICs
  std::vector<int>
      torus;  // dimensions, first is fastest, of a torus with one accelerator a vertex: each node's
              // own scale-up, or the whole fabric; else empty
  std::vector<bool> torus_wrap;
};

class Topology {
 public:
  Topology(std::string name, Shape shape) : name_(std::move(name)), shape_(std::move(shape)) {}

  // Building.
  VertexId add_vertex(VertexKind kind, std::string name, std::uint32_t node = 0, std::uint8_t level = 0);
  LinkId add_link(VertexId from, VertexId to, const LinkSpec& spec, LinkKind kind);
  /// Both directions; returns the forward one, the backward one is the next id.
  LinkId add_cable(VertexId a, VertexId b, const LinkSpec& spec, LinkKind kind);
  void set_collectives(std::optional<CollectiveFigures> figures) { collectives_ = std::move(figures); }
  void set_router(std::shared_ptr<const Router> router) { router_ = std::move(router); }
  /// Leaves a share in (0, 1] of a link's bandwidth.
  void limit(LinkId link, double share) { links_[link.value()].bandwidth *= share; }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::span<const Vertex> vertices() const { return vertices_; }
  [[nodiscard]] std::span<const Link> links() const { return links_; }
  [[nodiscard]] const Link& link(LinkId id) const { return links_[id.value()]; }
  [[nodiscard]] const Vertex& vertex(VertexId id) const { return vertices_[id.value()]; }
  /// In order of AcceleratorId: node by node.
  [[nodiscard]] std::span<const VertexId> accelerators() const { return accelerators_; }
  [[nodiscard]] std::uint32_t node_of(AcceleratorId id) const {
    return vertex(accelerators_[id.value()]).node;
  }
  /// "leaf2 → spine0"; of parallel cables "leaf2 → spine0 #3", counted from 0.
  [[nodiscard]] std::string link_name(LinkId id) const;
  /// What the communication library makes of the links, where that is known; else nullptr.
  [[nodiscard]] const CollectiveFigures* collectives() const {
    return collectives_ ? &*collectives_ : nullptr;
  }
  [[nodiscard]] const Router& router() const { return *router_; }
  [[nodiscard]] std::shared_ptr<const Router> shared_router() const { return router_; }

  /// Links from `source` to `target`, and the sum of their latencies.
  [[nodiscard]] std::vector<LinkId> route(AcceleratorId source, AcceleratorId target) const;
  [[nodiscard]] Seconds latency(std::span<const LinkId> route) const;
  /// Of what a transfer loads: the mean over its paths, weighted by their shares.
  [[nodiscard]] Seconds latency(std::span<const LinkUse> uses) const;
  /// What a byte of progress takes at the fullest of the links, nothing else being under way.
  [[nodiscard]] double seconds_per_byte(std::span<const LinkUse> uses) const;

 private:
  std::string name_;
  Shape shape_;
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
  std::vector<VertexId> accelerators_;
  std::optional<CollectiveFigures> collectives_;
  std::shared_ptr<const Router> router_;  // knows ids only, so copies of the topology share it
};

/// Builds the graph and its router from a description.
/// @throws std::invalid_argument with a one-sentence reason (counts that do not divide, a shape whose product is not
///         the count, a fabric too small, a cluster that would be disconnected); the reader of the file adds the place.
///         Fields are named as in the file ("accelerators-per-node").
[[nodiscard]] Topology build_topology(const TopologySpec& spec);

}  // namespace syncline
