#include "sim/collective/link_cost.hpp"

#include <algorithm>

#include "sim/collective/cost.hpp"

namespace syncline {
namespace {

/// Follows ways, and adds up what they load.
class Pricer {
 public:
  Pricer(std::span<const AcceleratorId> members, const Topology& topology, BundleSum& sum)
      : members_(members), topology_(topology), sum_(sum) {}

  /// The latency of the way.
  Seconds add(std::uint32_t from, std::uint32_t to, double bytes) {
    way_.clear();
    topology_.router().load(members_[from], members_[to], way_);
    sum_.add(way_, bytes);
    return topology_.latency(std::span<const LinkUse>(way_));
  }
  /// Seconds that what has been added takes at the fullest link; begins anew.
  double take() { return topology_.seconds_per_byte(sum_.take()); }

 private:
  std::span<const AcceleratorId> members_;
  const Topology& topology_;
  BundleSum& sum_;
  std::vector<LinkUse> way_;
};

LinkCost cost_of_lanes(const CollectivePlan& plan, Pricer& pricer) {
  LinkCost cost;
  const Lane& first = plan.lanes.front();
  for (const Lane& lane : plan.lanes)
    for (std::size_t i = 0; i < lane.senders(); ++i)
      cost.latency = std::max(cost.latency, pricer.add(lane.order[i], lane.order[(i + 1) % lane.order.size()],
                                                       lane.bytes_per_sender().si()));
  cost.seconds_per_byte = pricer.take();
  if (first.closed)
    cost.latency = cost.latency * static_cast<double>(first.steps);
  else
    cost.chain_hops = static_cast<int>(first.senders());
  return cost;
}

LinkCost cost_of_bursts(const CollectivePlan& plan, std::size_t members, Pricer& pricer) {
  LinkCost cost;
  for (const Burst& burst : plan.phases) {
    Seconds longest;
    const std::size_t sources = burst.pattern == Burst::Pattern::AllPairs ? members : 1;
    for (std::uint32_t i = 0; i < sources; ++i)
      for (std::uint32_t j = 0; j < members; ++j)
        if (i != j) longest = std::max(longest, pricer.add(i, j, burst.bytes.si()));
    cost.latency += longest;
    cost.seconds_per_byte += pricer.take();
  }
  return cost;
}

LinkCost cost_of_flows(CollectiveKind kind, const CollectivePlan& plan, const GroupShape& shape, Pricer& pricer) {
  Seconds inside, between;
  for (const Flow& flow : *plan.flows) {
    Seconds& longest = shape.node_of[flow.from] == shape.node_of[flow.to] ? inside : between;
    longest = std::max(longest, pricer.add(flow.from, flow.to, flow.share));
  }
  const Hops hops = hops_of(kind, plan.algorithm, {shape.layout.members, shape.layout.nodes.size()});
  return {inside * hops.inside + between * hops.between, pricer.take()};
}

LinkCost cost_of_rounds(const CollectivePlan& plan, Pricer& pricer) {
  LinkCost cost;
  std::size_t rounds = 0;
  for (const Track& track : *plan.tracks) rounds = std::max(rounds, track.size());
  for (std::size_t r = 0; r < rounds; ++r) {
    Seconds longest;
    for (const Track& track : *plan.tracks) {
      if (r >= track.size()) continue;
      for (const Flow& flow : track[r].flows)
        longest = std::max(longest, pricer.add(flow.from, flow.to, flow.share) * static_cast<double>(track[r].repeat));
    }
    cost.latency += longest;
    cost.seconds_per_byte += pricer.take();
  }
  return cost;
}

}  // namespace

Seconds LinkCost::time(Bytes bytes) const {
  if (chain_hops == 0) return latency + Seconds(bytes.si() * seconds_per_byte);
  const double pieces = chain_pieces(bytes);
  return (latency + Seconds(bytes.si() / pieces * seconds_per_byte)) * (pieces + chain_hops - 1);
}

LinkCost link_cost(CollectiveKind kind, const CollectivePlan& plan, const GroupShape& shape,
                   std::span<const AcceleratorId> members, const Topology& topology, BundleSum& sum) {
  Pricer pricer(members, topology, sum);
  if (plan.tracks) return cost_of_rounds(plan, pricer);
  if (plan.flows) return cost_of_flows(kind, plan, shape, pricer);
  if (!plan.phases.empty()) return cost_of_bursts(plan, members.size(), pricer);
  return cost_of_lanes(plan, pricer);
}

}  // namespace syncline
