#include "sim/topology/measures.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>

#include "sim/topology/graph.hpp"

namespace syncline {
namespace {

// Distances are measured from this many accelerators (fewer on graphs of millions of links, to stay within a
// second or two), spread evenly over all and with the first and the last among them: exact where they are
// all, and on regular fabrics, whose farthest pairs include one of those two (the corners of a mesh) or any
// accelerator at all (everything else that is built here).
std::size_t sources_for(const Topology& topology) {
  constexpr std::size_t Most = 48, Fewest = 4, LinksWalked = 10'000'000;
  const std::size_t affordable = LinksWalked / std::max<std::size_t>(1, topology.links().size());
  return std::min(topology.accelerators().size(), std::clamp(affordable, Fewest, Most));
}

void measure_distances(const Topology& topology, Measures& measures) {
  const Graph graph(topology);
  const auto accelerators = topology.accelerators();
  const std::size_t sources = sources_for(topology);
  for (std::size_t i = 0; i < sources; ++i) {
    const std::size_t at = sources == 1 ? 0 : i * (accelerators.size() - 1) / (sources - 1);
    const Graph::Distances distances = graph.distances_from(accelerators[at]);
    for (const VertexId target : accelerators) {
      const int links = distances.links[target.value()];
      const double paths = distances.paths[target.value()];
      if (links > measures.diameter || measures.path_diversity == 0) measures.path_diversity = paths;
      if (links == measures.diameter) measures.path_diversity = std::min(measures.path_diversity, paths);
      measures.diameter = std::max(measures.diameter, links);
      measures.largest_latency = std::max(measures.largest_latency, distances.latency[target.value()]);
    }
  }
}

/// A split is the set of accelerators on the source's side.
using Split = std::vector<bool>;

Split first_half(std::size_t count, std::size_t unit) {
  Split split(count, false);
  std::fill_n(split.begin(), count / unit / 2 * unit, true);
  return split;
}

/// The lower half along each dimension of even size.
std::vector<Split> halves_of_torus(const Shape& shape, std::size_t count) {
  std::vector<Split> splits;
  std::size_t stride = 1;
  for (const int dimension : shape.torus) {
    const auto size = static_cast<std::size_t>(dimension);
    if (size % 2 == 0) {
      Split split(count);
      for (std::size_t i = 0; i < count; ++i) split[i] = i / stride % size < size / 2;
      splits.push_back(std::move(split));
    }
    stride *= size;
  }
  return splits;
}

bool keeps_nodes_whole(const Split& split, std::size_t per_node) {
  for (std::size_t i = 1; i < split.size(); ++i) {
    if (i % per_node != 0 && split[i] != split[i - 1]) return false;
  }
  return true;
}

/// The halves by order of the accelerators (nodes whole; of a single node, its accelerators), and of tori
/// those across each dimension. The first are the weakest of a fat tree, whose subtrees are filled in order;
/// the second of a torus; in all-to-all fabrics every split is the same.
std::vector<Split> canonical_splits(const Topology& topology) {
  const std::size_t count = topology.accelerators().size();
  const auto per_node = static_cast<std::size_t>(topology.shape().accelerators_per_node);
  const bool several_nodes = count > per_node;
  std::vector<Split> splits = halves_of_torus(topology.shape(), count);
  if (several_nodes)
    std::erase_if(splits, [&](const Split& split) { return !keeps_nodes_whole(split, per_node); });
  splits.push_back(first_half(count, several_nodes ? per_node : 1));
  return splits;
}

/// Every link stands beside its like the other way, as cables do: a cut is then as wide both ways.
bool is_symmetric(const Topology& topology) {
  const auto links = topology.links();
  if (links.size() % 2 != 0) return false;
  for (std::size_t id = 0; id < links.size(); id += 2)
    if (links[id].from != links[id + 1].to || links[id].to != links[id + 1].from ||
        links[id].bandwidth != links[id + 1].bandwidth)
      return false;
  return true;
}

/// The narrower way over the narrowest split.
BytesPerSecond least_cut(const Topology& topology) {
  if (topology.accelerators().size() < 2) return BytesPerSecond(0);
  const bool same_both_ways = is_symmetric(topology);
  std::vector<BytesPerSecond> cuts;
  for (const Split& split : canonical_splits(topology)) {
    std::vector<Side> sides(topology.vertices().size(), Side::Neither);
    for (std::size_t i = 0; i < split.size(); ++i) {
      sides[topology.accelerators()[i].value()] = split[i] ? Side::Source : Side::Target;
    }
    cuts.push_back(largest_flow(topology, sides));
    if (same_both_ways) continue;
    for (Side& side : sides)
      if (side != Side::Neither) side = side == Side::Source ? Side::Target : Side::Source;
    cuts.push_back(largest_flow(topology, sides));
  }
  return *std::min_element(cuts.begin(), cuts.end());
}

/// Of the first accelerator: its own scale-out links, or its share of its NICs' links and no more than its
/// host bus.
BytesPerSecond injection_of_first(const Topology& topology) {
  const VertexId accelerator = topology.accelerators().front();
  BytesPerSecond direct, through_nics;
  for (const Link& bus : topology.links()) {
    if (bus.from != accelerator) continue;
    if (bus.kind == LinkKind::ScaleOut) direct += bus.bandwidth;
    if (bus.kind != LinkKind::HostBus) continue;
    BytesPerSecond out;
    double sharers = 0;
    for (const Link& link : topology.links()) {
      if (link.from == bus.to && link.kind == LinkKind::ScaleOut) out += link.bandwidth;
      if (link.to == bus.to && link.kind == LinkKind::HostBus) ++sharers;
    }
    through_nics += std::min(bus.bandwidth, out / sharers);
  }
  return direct + through_nics;
}

std::vector<Oversubscription> worst_by_level(const Topology& topology) {
  struct Sums {
    BytesPerSecond down, up;
  };
  const auto level_of = [&](VertexId id) { return topology.vertex(id).level; };
  std::vector<Sums> sums(topology.vertices().size());
  for (const Link& link : topology.links()) {
    if (level_of(link.from) == 0) continue;
    Sums& of_switch = sums[link.from.value()];
    (level_of(link.to) > level_of(link.from) ? of_switch.up : of_switch.down) += link.bandwidth;
  }
  std::map<int, double> worst;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].up.si() == 0) continue;  // no switch of a tree, or one of its top level
    double& ratio = worst[topology.vertices()[i].level];
    ratio = std::max(ratio, sums[i].down / sums[i].up);
  }
  std::vector<Oversubscription> levels;
  for (const auto& [level, ratio] : worst) levels.push_back({level, ratio});
  return levels;
}

int count_of(const Topology& topology, VertexKind kind) {
  const auto vertices = topology.vertices();
  return static_cast<int>(std::count_if(vertices.begin(), vertices.end(),
                                        [&](const Vertex& vertex) { return vertex.kind == kind; }));
}

}  // namespace

Measures measure(const Topology& topology) {
  Measures measures;
  measures.accelerators = count_of(topology, VertexKind::Accelerator);
  measures.nodes = measures.accelerators / topology.shape().accelerators_per_node;
  measures.nics = count_of(topology, VertexKind::Nic);
  measures.switches = count_of(topology, VertexKind::Switch);
  measures.cables = static_cast<int>(topology.links().size() / 2);
  measure_distances(topology, measures);
  measures.bisection = least_cut(topology);
  measures.injection = injection_of_first(topology);
  measures.oversubscription = worst_by_level(topology);
  return measures;
}

Parts parts_of(const Topology& topology) {
  Parts parts{count_of(topology, VertexKind::Accelerator), count_of(topology, VertexKind::Nic), {}, {}};
  struct Hub {
    LinkKind network = LinkKind::ScaleUp;
    int ports = 0;
  };
  std::vector<Hub> hubs(topology.vertices().size());
  std::map<std::tuple<LinkKind, VertexKind, VertexKind, BytesPerSecond>, int> directed;
  for (const Link& link : topology.links()) {
    Hub& hub = hubs[link.from.value()];
    hub.network = std::max(hub.network, link.kind);
    ++hub.ports;
    const auto [from, to] = std::minmax(topology.vertex(link.from).kind, topology.vertex(link.to).kind);
    ++directed[{link.kind, from, to, link.nominal}];
  }
  std::map<std::tuple<LinkKind, int, int>, int> switches;
  for (std::size_t i = 0; i < hubs.size(); ++i) {
    const Vertex& vertex = topology.vertices()[i];
    if (vertex.kind == VertexKind::Switch) ++switches[{hubs[i].network, vertex.level, hubs[i].ports}];
  }
  for (const auto& [of, count] : switches)
    parts.switches.push_back({std::get<0>(of), std::get<1>(of), std::get<2>(of), count});
  for (const auto& [of, count] : directed)
    parts.cables.push_back(
        {std::get<0>(of), std::get<1>(of), std::get<2>(of), std::get<3>(of), (count + 1) / 2});
  return parts;
}

bool is_connected(const Topology& topology) {
  return Graph(topology).connects(topology.accelerators());
}

}  // namespace syncline
