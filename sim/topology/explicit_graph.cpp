// A cluster given vertex by vertex and cable by cable.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "sim/core/error.hpp"
#include "sim/topology/export.hpp"
#include "sim/topology/fabric.hpp"
#include "sim/topology/graph.hpp"
#include "sim/topology/graph_error.hpp"
#include "sim/topology/graph_router.hpp"

namespace syncline {
namespace {

constexpr std::size_t MostVertices = std::size_t{1} << 18, MostEdges = std::size_t{1} << 22;

template <class Kind>
Kind kind_of(std::string_view word, const std::string& of) {
  std::vector<std::string_view> known;
  for (std::uint8_t k = 0; k < 3; ++k) {
    known.push_back(word_of(static_cast<Kind>(k)));
    if (known.back() == word) return static_cast<Kind>(k);
  }
  refuse(fmt::format("{} is of kind \"{}\"; kinds are {}", of, word, fmt::join(known, ", ")));
}

/// A cable between accelerator and NIC is a host bus; one inside a node scale-up; any other scale-out.
LinkKind usual_kind(const Vertex& a, const Vertex& b, bool inside) {
  if (a.kind == VertexKind::Nic || b.kind == VertexKind::Nic)
    return a.kind == VertexKind::Accelerator || b.kind == VertexKind::Accelerator ? LinkKind::HostBus
                                                                                  : LinkKind::ScaleOut;
  return inside ? LinkKind::ScaleUp : LinkKind::ScaleOut;
}

class Builder {
 public:
  explicit Builder(const TopologySpec& spec) : spec_(spec), graph_(*spec.graph) {}

  Topology build() {
    if (graph_.vertices.size() > MostVertices || graph_.edges.size() > MostEdges)
      refuse(fmt::format("a graph of {} vertices and {} edges is larger than the {} and {} that are built",
                         graph_.vertices.size(), graph_.edges.size(), MostVertices, MostEdges));
    number_nodes();
    Topology topology(spec_.name, shape());
    topology.set_collectives(spec_.collectives);
    for (const std::size_t v : in_order_) {
      const GraphSpec::Node& vertex = graph_.vertices[v];
      const VertexKind kind = kind_of<VertexKind>(vertex.kind, fmt::format("vertex \"{}\"", vertex.name));
      const VertexId id =
          topology.add_vertex(kind, vertex.name, kind == VertexKind::Switch ? 0 : node_of_[v]);
      if (!ids_.try_emplace(vertex.name, id).second)
        throw GraphError(fmt::format("two vertices are named \"{}\"", vertex.name), "vertices", v);
    }
    if (topology.accelerators().empty()) refuse("the graph has no accelerator");
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) try {
        add(topology, graph_.edges[e]);
      } catch (const std::invalid_argument& error) {
        throw GraphError(error.what(), "edges", e);
      }
    topology.set_router(graph_router(topology, graph_.routing, graph_.seed));
    check_reach(topology);
    return topology;
  }

 private:
  /// Accelerators stand node by node, as everywhere; nodes in the order in which they are first named.
  void number_nodes() {
    std::map<std::string, std::uint32_t> numbers;
    node_of_.resize(graph_.vertices.size());
    for (std::size_t v = 0; v < graph_.vertices.size(); ++v) {
      const GraphSpec::Node& vertex = graph_.vertices[v];
      if (vertex.kind == "switch") continue;
      const std::string& node = vertex.node.empty() ? vertex.name : vertex.node;
      node_of_[v] = numbers.try_emplace(node, static_cast<std::uint32_t>(numbers.size())).first->second;
      names_.try_emplace(node_of_[v], node);
      if (vertex.kind == "accelerator") ++accelerators_[node_of_[v]];
      if (vertex.kind == "nic") ++nics_[node_of_[v]];
    }
    for (std::size_t v = 0; v < graph_.vertices.size(); ++v) in_order_.push_back(v);
    std::ranges::stable_sort(in_order_, {}, [&](std::size_t v) {
      return graph_.vertices[v].kind == "switch" ? ~std::uint32_t{0} : node_of_[v];
    });
  }

  [[nodiscard]] Shape shape() const {
    Shape shape;
    if (!accelerators_.empty()) shape.accelerators_per_node = accelerators_.begin()->second;
    if (!nics_.empty()) shape.nics_per_node = nics_.begin()->second;
    for (const auto& [node, count] : accelerators_)
      if (count != shape.accelerators_per_node)
        refuse(fmt::format("nodes of a graph need equally many accelerators, but \"{}\" has {} and \"{}\" {}",
                           names_.at(accelerators_.begin()->first), shape.accelerators_per_node,
                           names_.at(node), count));
    return shape;
  }

  [[nodiscard]] VertexId find(const std::string& name, const GraphSpec::Edge& edge) const {
    const auto found = ids_.find(name);
    if (found != ids_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [id, vertex] : ids_) known.push_back(id);
    const std::string near = nearest_name(name, known);
    refuse(fmt::format("the edge from \"{}\" to \"{}\" ends at \"{}\", which is no vertex; {}", edge.from,
                       edge.to, name,
                       near.empty() ? "add it to vertices" : fmt::format("the nearest is \"{}\"", near)));
  }

  /// All reach each other where the first reaches all, and all reach it.
  void check_reach(const Topology& topology) const {
    const auto accelerators = topology.accelerators();
    const auto refuse_way = [&](VertexId from, VertexId to) {
      throw GraphError(fmt::format("\"{}\" cannot reach \"{}\": no edges lead there",
                                   topology.vertex(from).name, topology.vertex(to).name),
                       "edges", graph_.edges.size());
    };
    const std::vector<int> links = Graph(topology).distances_from(accelerators.front()).links;
    for (std::size_t i = 1; i < accelerators.size(); ++i) {
      if (links[accelerators[i].value()] == -1) refuse_way(accelerators.front(), accelerators[i]);
      if (topology.route(AcceleratorId(i), AcceleratorId(0)).empty())
        refuse_way(accelerators[i], accelerators.front());
    }
  }

  void add(Topology& topology, const GraphSpec::Edge& edge) const {
    const VertexId from = find(edge.from, edge), to = find(edge.to, edge);
    const std::string where = fmt::format("the edge from \"{}\" to \"{}\"", edge.from, edge.to);
    if (from == to) refuse(where + " joins a vertex with itself");
    if (!(edge.link.bandwidth > BytesPerSecond(0)))
      refuse(where + " has a bandwidth of 0; leave the edge out, or give it one");
    if (!(edge.link.efficiency > 0 && edge.link.efficiency <= 1))
      refuse(
          fmt::format("{}: efficiency must be above 0 and at most 1, not {}", where, edge.link.efficiency));
    const Vertex& a = topology.vertex(from);
    const Vertex& b = topology.vertex(to);
    const bool inside = a.kind != VertexKind::Switch && b.kind != VertexKind::Switch && a.node == b.node;
    const LinkKind kind = edge.kind.empty() ? usual_kind(a, b, inside) : kind_of<LinkKind>(edge.kind, where);
    if (edge.both)
      topology.add_cable(from, to, edge.link, kind);
    else
      topology.add_link(from, to, edge.link, kind);
  }

  const TopologySpec& spec_;
  const GraphSpec& graph_;
  std::vector<std::uint32_t> node_of_;                // by vertex
  std::vector<std::size_t> in_order_;                 // vertices, node by node, switches last
  std::map<std::uint32_t, std::string> names_;        // of nodes
  std::map<std::uint32_t, int> accelerators_, nics_;  // by node
  std::map<std::string, VertexId> ids_;
};

}  // namespace

Topology build_graph(const TopologySpec& spec) {
  return Builder(spec).build();
}

}  // namespace syncline
