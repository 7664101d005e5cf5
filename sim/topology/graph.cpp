#include "sim/topology/graph.hpp"

#include <algorithm>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/strong_components.hpp>
#include <cstdint>
#include <utility>

namespace syncline {
namespace {

struct EdgeLink {
  std::uint32_t link;
};
using Csr = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, EdgeLink,
                                               boost::no_property, std::uint32_t, std::uint32_t>;

Csr make_csr(const Topology& topology) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;
  std::vector<EdgeLink> links;
  ends.reserve(topology.links().size());
  links.reserve(topology.links().size());
  for (const Link& link : topology.links()) {
    ends.emplace_back(link.from.value(), link.to.value());
    links.push_back({static_cast<std::uint32_t>(links.size())});
  }
  return Csr(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), links.begin(),
             static_cast<std::uint32_t>(topology.vertices().size()));
}

/// Breadth first, so a vertex is examined only after all that are nearer: its latency is final by then.
class MeasureDistances : public boost::default_bfs_visitor {
 public:
  MeasureDistances(const std::vector<Seconds>& latencies, Graph::Distances& distances)
      : latencies_(latencies), distances_(distances) {}

  template <class Edge>
  void examine_edge(const Edge& edge, const Csr& graph) {
    const auto from = source(edge, graph), to = target(edge, graph);
    const int links = distances_.links[from] + 1;
    const Seconds latency = distances_.latency[from] + latencies_[graph[edge].link];
    int& found = distances_.links[to];
    if (found == -1 || found == links) distances_.paths[to] += distances_.paths[from];
    if (found == -1 || (found == links && latency < distances_.latency[to])) {
      found = links;
      distances_.latency[to] = latency;
    }
  }

 private:
  const std::vector<Seconds>& latencies_;
  Graph::Distances& distances_;
};

template <class Visitor>
void search(const Csr& graph, VertexId from, Visitor visitor) {
  std::vector<boost::default_color_type> colours(num_vertices(graph));
  boost::breadth_first_search(graph, from.value(),
                              boost::visitor(visitor).color_map(boost::make_iterator_property_map(
                                  colours.begin(), get(boost::vertex_index, graph))));
}

}  // namespace

struct Graph::Impl {
  Csr csr;
  std::vector<Seconds> latencies;  // by link
};

Graph::Graph(const Topology& topology) : impl_(std::make_unique<Impl>(Impl{make_csr(topology), {}})) {
  for (const Link& link : topology.links()) {
    impl_->latencies.push_back(link.latency);
  }
}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

Graph::Distances Graph::distances_from(VertexId source) const {
  const std::size_t count = num_vertices(impl_->csr);
  Distances distances{std::vector<int>(count, -1), std::vector<Seconds>(count), std::vector<double>(count)};
  distances.links[source.value()] = 0;
  distances.paths[source.value()] = 1;
  search(impl_->csr, source, MeasureDistances(impl_->latencies, distances));
  return distances;
}

bool Graph::connects(std::span<const VertexId> vertices) const {
  std::vector<std::uint32_t> component(num_vertices(impl_->csr));
  boost::strong_components(
      impl_->csr, boost::make_iterator_property_map(component.begin(), get(boost::vertex_index, impl_->csr)));
  return std::all_of(vertices.begin(), vertices.end(), [&](VertexId vertex) {
    return component[vertex.value()] == component[vertices.front().value()];
  });
}

}  // namespace syncline
