#include "sim/collective/cost.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace syncline {

Spread spread_of(std::span<const AcceleratorId> members, const Topology& topology) {
  std::set<std::uint32_t> nodes;
  for (const AcceleratorId member : members) nodes.insert(topology.node_of(member));
  return {members.size(), nodes.size()};
}

Hops hops_of(CollectiveKind kind, Algorithm algorithm, Spread spread) {
  const auto n = static_cast<double>(spread.members), k = static_cast<double>(spread.nodes);
  const std::size_t per_node = (spread.members + spread.nodes - 1) / spread.nodes;
  const auto g = static_cast<double>(per_node);
  const double up_and_down = 2.0 * std::bit_width(spread.nodes - 1);  // 2⌈log2 k⌉
  const bool blocks = kind != CollectiveKind::Broadcast && kind != CollectiveKind::Reduce;
  const double own = blocks ? 1 / (n - 1) : 0;
  if (kind == CollectiveKind::Shift) return spread.nodes == 1 ? Hops{1, 0} : Hops{0, 1};
  switch (algorithm) {
    case Algorithm::Tree: return {2 * (g - 1), up_and_down};
    case Algorithm::InNetwork: return {2, up_and_down};
    case Algorithm::Direct: return {g - 1, n - g, own};
    default: break;  // rings
  }
  const double passes = kind == CollectiveKind::AllReduce ? 2 : 1;
  const double steps = (n - 1) * passes;
  const double between = spread.nodes == 1 ? 0 : steps * k / n;
  return {steps - between, between, own / passes};
}

Load scaled(const Load& of_byte, Bytes bytes) {
  return {of_byte.inside * bytes.si(), of_byte.between * bytes.si(), of_byte.out_of_node * bytes.si()};
}

Load load_of(std::span<const LinkUse> uses, Bytes bytes, const Topology& topology) {
  Load load;
  std::map<std::uint32_t, double> out;  // by node
  for (const LinkUse& use : uses) {
    const Link& link = topology.link(use.link);
    Seconds& fullest = link.kind == LinkKind::ScaleUp ? load.inside : load.between;
    fullest = std::max(fullest, bytes * use.coefficient / link.bandwidth);
    const Vertex& from = topology.vertex(link.from);
    if (link.kind != LinkKind::ScaleUp && from.kind == VertexKind::Accelerator)
      out[from.node] += use.coefficient;
  }
  for (const auto& [node, coefficient] : out)
    load.out_of_node = std::max(load.out_of_node, bytes * coefficient);
  return load;
}

void add_moves(const CollectivePlan& plan, std::span<const AcceleratorId> members, const Topology& topology,
               BundleSum& sum) {
  std::vector<LinkUse> way;
  for_each_move(plan, members.size(), [&](std::size_t from, std::size_t to, Bytes bytes) {
    way.clear();
    topology.router().load(members[from], members[to], way);
    sum.add(way, bytes.si());
  });
}

std::vector<LinkUse> link_uses(const CollectivePlan& plan, std::span<const AcceleratorId> members,
                               const Topology& topology, BundleSum& sum) {
  add_moves(plan, members, topology, sum);
  return sum.take();
}

std::vector<LinkUse> link_uses(const CollectivePlan& plan, std::span<const AcceleratorId> members,
                               const Topology& topology) {
  BundleSum sum(topology.links().size());
  return link_uses(plan, members, topology, sum);
}

Bytes bytes_between_nodes(const CollectivePlan& plan, std::span<const AcceleratorId> members,
                          const Topology& topology) {
  Bytes total;
  for_each_move(plan, members.size(), [&](std::size_t from, std::size_t to, Bytes bytes) {
    if (topology.node_of(members[from]) != topology.node_of(members[to])) total += bytes;
  });
  return total;
}

Stretch wire_of(const ProtocolFigures& figures) {
  return {std::min(figures.wire, 1 / figures.share_inside),
          std::min(figures.wire, 1 / figures.share_between)};
}

Stretch stretch_of(const ProtocolFigures& figures, Hops hops, const Load& load,
                   std::optional<BytesPerSecond> node_limit) {
  Stretch stretch{1 / figures.share_inside, 1 / figures.share_between};
  if (node_limit && load.between > Seconds(0))
    stretch.between = std::max(stretch.between, load.out_of_node / *node_limit / load.between);
  const double with_own = 1 + figures.own_block * hops.own_blocks;
  return {stretch.inside * with_own, stretch.between * with_own};
}

Seconds latency_of(const ProtocolFigures& figures, Hops hops) {
  return figures.call + figures.hop_inside * hops.inside + figures.hop_between * hops.between;
}

Seconds bytes_time(const ProtocolFigures& figures, Hops hops, const Load& load,
                   std::optional<BytesPerSecond> node_limit) {
  const Stretch stretch = stretch_of(figures, hops, load, node_limit);
  return std::max(load.inside * stretch.inside, load.between * stretch.between);
}

Seconds predicted_time(const ProtocolFigures& figures, Hops hops, const Load& load,
                       std::optional<BytesPerSecond> node_limit) {
  return latency_of(figures, hops) + bytes_time(figures, hops, load, node_limit);
}

namespace {

const std::vector<ProtocolFigures>& ring_protocols_of(const CollectiveFigures& figures, CollectiveKind kind) {
  const auto own = [&](const std::vector<ProtocolFigures>& list) -> const auto& {
    return list.empty() ? figures.ring : list;
  };
  switch (kind) {
    case CollectiveKind::AllReduce: return own(figures.ring_all_reduce);
    case CollectiveKind::ReduceScatter: return own(figures.ring_reduce_scatter);
    case CollectiveKind::Broadcast: return own(figures.ring_broadcast);
    case CollectiveKind::Reduce: return own(figures.ring_reduce);
    default: return figures.ring;
  }
}

}  // namespace

const std::vector<ProtocolFigures>& protocols_of(const CollectiveFigures& figures, CollectiveKind kind,
                                                 Algorithm algorithm) {
  static const std::vector<ProtocolFigures> none;
  using enum CollectiveKind;
  if (kind == Shift) return figures.send;
  if ((kind == Broadcast || kind == Reduce) && algorithm != Algorithm::Ring) return none;
  switch (algorithm) {
    case Algorithm::Ring: return ring_protocols_of(figures, kind);
    case Algorithm::Tree: return figures.tree;
    case Algorithm::InNetwork: return figures.in_network;
    case Algorithm::Direct: return figures.direct;
    default: return none;
  }
}

std::vector<Algorithm> algorithms_for(const CollectiveFigures& figures, CollectiveKind kind, Spread spread) {
  switch (kind) {
    case CollectiveKind::AllReduce: break;
    case CollectiveKind::AllToAll:
    case CollectiveKind::Scatter:
    case CollectiveKind::Gather: return {Algorithm::Direct};
    default: return {Algorithm::Ring};
  }
  std::vector<Algorithm> algorithms{Algorithm::Ring};
  if (spread.nodes > 1 && !figures.tree.empty()) algorithms.push_back(Algorithm::Tree);
  if (spread.members > spread.nodes && !figures.in_network.empty())
    algorithms.push_back(Algorithm::InNetwork);
  return algorithms;
}

std::optional<BytesPerSecond> node_limit_of(const CollectiveFigures& figures, CollectiveKind kind,
                                            Algorithm algorithm) {
  const bool bound = kind != CollectiveKind::Shift && algorithm != Algorithm::Direct;
  return bound ? figures.node_limit : std::nullopt;
}

}  // namespace syncline
