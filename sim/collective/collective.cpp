#include "sim/collective/collective.hpp"

#include <algorithm>
#include <cmath>

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
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::Reduce:
    case CollectiveKind::Scatter:
    case CollectiveKind::Gather: break;
    case CollectiveKind::AllToAll: lane.shrinking = true; break;
    case CollectiveKind::Shift:
      lane.steps = 1;
      lane.step_bytes = bytes;
      break;
    case CollectiveKind::Broadcast:
      lane.closed = false;
      lane.lag = 0;
      lane.steps = static_cast<int>(std::clamp(std::ceil(bytes / BroadcastChunk), 1.0, MostPieces));
      lane.step_bytes = bytes / lane.steps;
      // The chain begins at the root, whatever the ring's own beginning.
      std::rotate(lane.order.begin(), std::find(lane.order.begin(), lane.order.end(), 0U), lane.order.end());
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
    case CollectiveKind::Reduce:
    case CollectiveKind::Scatter:
    case CollectiveKind::Gather:
    case CollectiveKind::AllToAll: return {exchange};
    case CollectiveKind::Shift: return {{Burst::Pattern::AllPairs, bytes / static_cast<double>(n - 1)}};
  }
  return {};
}

}  // namespace

CollectivePlan plan_collective(CollectiveKind kind, Algorithm algorithm, Bytes bytes,
                               std::span<const std::vector<std::uint32_t>> rings) {
  SYNCLINE_CHECK(!rings.empty() && rings.front().size() >= 2, "a collective of fewer than two members");
  CollectivePlan plan;
  plan.algorithm = algorithm;
  if (algorithm == Algorithm::Direct) {
    plan.phases = direct_phases(kind, bytes, rings.front().size());
    return plan;
  }
  SYNCLINE_CHECK(algorithm == Algorithm::Ring, "the algorithm must be chosen before the plan");
  for (const auto& ring : rings) plan.lanes.push_back(ring_lane(kind, bytes / static_cast<double>(rings.size()), ring));
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
  return total;
}

Algorithm choose_algorithm(CollectiveKind kind) {
  return kind == CollectiveKind::AllToAll ? Algorithm::Direct : Algorithm::Ring;
}

}  // namespace syncline
