#include "sim/collective/collective.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

using namespace literals;

// A broadcast's chain forwards pieces of this size: NCCL's buffer of a channel, NCCL_BUFFSIZE (default 4 MiB, NCCL
// user guide, "Environment variables"), is used in 8 slots.
constexpr Bytes BroadcastChunk = 512_KiB;
constexpr double MostPieces = 1 << 16;  // of a chain; a larger buffer goes in larger pieces

Lane ring_lane(CollectiveKind kind, Bytes bytes, const std::vector<std::uint32_t>& order) {
  const auto n = static_cast<int>(order.size());
  Lane lane;
  lane.order = order;
  lane.steps = n - 1;
  lane.step_bytes = bytes / n;
  switch (kind) {
    case CollectiveKind::AllReduce: lane.steps = 2 * (n - 1); break;
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter: break;
    case CollectiveKind::AllToAll: lane.shrinking = true; break;
    case CollectiveKind::Shift:
      lane.steps = 1;
      lane.step_bytes = bytes;
      break;
    case CollectiveKind::Scatter:
    case CollectiveKind::Gather: SYNCLINE_CHECK(false, "scatter and gather do not go by ring"); break;
    case CollectiveKind::Broadcast:
    case CollectiveKind::Reduce:
      lane.closed = false;
      lane.lag = 0;
      lane.steps = chain_pieces(bytes);
      lane.step_bytes = bytes / lane.steps;
      // The chain begins at the root, whatever the ring's own beginning.
      std::rotate(lane.order.begin(), std::find(lane.order.begin(), lane.order.end(), 0U), lane.order.end());
      if (kind == CollectiveKind::Reduce) std::reverse(lane.order.begin(), lane.order.end());
      break;
  }
  return lane;
}

std::vector<Burst> direct_phases(CollectiveKind kind, Bytes bytes, std::size_t n) {
  const Burst exchange{Burst::Pattern::AllPairs, bytes / static_cast<double>(n)};
  switch (kind) {
    case CollectiveKind::AllReduce: return {exchange, exchange};
    case CollectiveKind::Broadcast: return {{Burst::Pattern::FromFirst, bytes}};
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllToAll: return {exchange};
    case CollectiveKind::Reduce:
    case CollectiveKind::Scatter:
    case CollectiveKind::Gather:
    case CollectiveKind::Shift: break;
  }
  return {};
}

}  // namespace

int chain_pieces(Bytes bytes) {
  return static_cast<int>(std::clamp(std::ceil(bytes / BroadcastChunk), 1.0, MostPieces));
}

CollectivePlan plan_collective(CollectiveKind kind, Algorithm algorithm, Bytes bytes,
                               std::span<const std::vector<std::uint32_t>> rings) {
  SYNCLINE_CHECK(!rings.empty() && rings.front().size() >= 2, "a collective of fewer than two members");
  CollectivePlan plan;
  plan.algorithm = algorithm;
  plan.bytes = bytes;
  if (algorithm == Algorithm::Direct) {
    plan.phases = direct_phases(kind, bytes, rings.front().size());
    return plan;
  }
  SYNCLINE_CHECK(algorithm == Algorithm::Ring, "the algorithm must be chosen before the plan");
  if (kind == CollectiveKind::Shift) {  // to the next of the group, wherever channels go
    std::vector<std::uint32_t> in_order(rings.front().size());
    std::iota(in_order.begin(), in_order.end(), 0U);
    plan.lanes.push_back(ring_lane(kind, bytes, in_order));
    return plan;
  }
  for (const auto& ring : rings)
    plan.lanes.push_back(ring_lane(kind, bytes / static_cast<double>(rings.size()), ring));
  return plan;
}

Bytes bytes_sent(const CollectivePlan& plan, std::size_t members) {
  Bytes total;
  for (const Lane& lane : plan.lanes) total += lane.bytes_per_sender() * static_cast<double>(lane.senders());
  for (const Burst& burst : plan.phases) {
    const bool all = burst.pattern == Burst::Pattern::AllPairs;
    total += burst.bytes * static_cast<double>((all ? members : 1) * (members - 1));
  }
  if (plan.flows)
    for (const Flow& flow : *plan.flows) total += plan.bytes * flow.share;
  if (plan.tracks)
    for (const Track& track : *plan.tracks)
      for (const Round& round : track)
        for (const Flow& flow : round.flows) total += plan.bytes * flow.share;
  return total;
}

GroupShape shape_of(std::span<const AcceleratorId> members, const Topology& topology) {
  GroupShape shape{ring_orders(members, topology), layout_of(members, topology), {}};
  shape.node_of.resize(members.size());
  for (std::uint32_t node = 0; node < shape.layout.nodes.size(); ++node)
    for (const std::uint32_t position : shape.layout.nodes[node]) shape.node_of[position] = node;
  return shape;
}

std::span<const Algorithm> algorithms_of(CollectiveKind kind) {
  using enum Algorithm;
  static constexpr std::array AllReduces{Ring, Tree, InNetwork, Bucket, Hierarchical, Recursive, Direct};
  static constexpr std::array Halves{Ring, Bucket, Hierarchical, Recursive,
                                     Direct};  // all-gather, reduce-scatter
  static constexpr std::array Broadcasts{Ring, Tree, Hierarchical, Recursive, Direct};
  static constexpr std::array Reduces{Ring, Tree, Recursive, Direct};
  static constexpr std::array Parts{Direct, Recursive};  // scatter, gather
  static constexpr std::array Exchanges{Direct, Pairwise, TwoHop, Hierarchical, Ring};
  static constexpr std::array Shifts{Ring};
  switch (kind) {
    case CollectiveKind::AllReduce: return AllReduces;
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter: return Halves;
    case CollectiveKind::Broadcast: return Broadcasts;
    case CollectiveKind::Reduce: return Reduces;
    case CollectiveKind::Scatter:
    case CollectiveKind::Gather: return Parts;
    case CollectiveKind::AllToAll: return Exchanges;
    case CollectiveKind::Shift: break;
  }
  return Shifts;
}

std::optional<std::string> refusal_of(CollectiveKind kind, Algorithm algorithm, const Layout& layout) {
  const std::span<const Algorithm> all = algorithms_of(kind);
  if (std::ranges::find(all, algorithm) == all.end()) {
    std::vector<std::string_view> names;
    for (const Algorithm one : all) names.push_back(name_of(one));
    return fmt::format("{} cannot go by {}; it goes by {}", name_of(kind), name_of(algorithm),
                       fmt::join(names, ", "));
  }
  if (algorithm == Algorithm::Bucket && !layout.box)
    return "bucket goes along the dimensions of a torus, and these ranks fill no box of one; try ring";
  const bool by_node = algorithm == Algorithm::Hierarchical || algorithm == Algorithm::TwoHop;
  if (by_node && !layout.equal_nodes())
    return fmt::format("{} needs equally many ranks on every node; try {}", name_of(algorithm),
                       name_of(all.front()));
  return std::nullopt;
}

CollectivePlan plan_collective(CollectiveKind kind, Algorithm algorithm, Bytes bytes,
                               const GroupShape& shape) {
  CollectivePlan plan;
  plan.algorithm = algorithm;
  plan.bytes = bytes;
  if (goes_in_rounds(kind, algorithm))
    plan.tracks = std::make_shared<const std::vector<Track>>(rounds_of(kind, algorithm, shape.layout));
  else if (algorithm == Algorithm::Tree)
    plan.flows = std::make_shared<const std::vector<Flow>>(tree_flows(kind, shape.rings, shape.node_of));
  else if (algorithm == Algorithm::InNetwork)
    plan.flows = std::make_shared<const std::vector<Flow>>(in_network_flows(shape.rings, shape.node_of));
  else
    return plan_collective(kind, algorithm, bytes, std::span<const std::vector<std::uint32_t>>(shape.rings));
  return plan;
}

}  // namespace syncline
