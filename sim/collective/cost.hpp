// What a collective alone on the network is predicted to take, by algorithm and protocol; and so which one
// `auto` takes.
//
// t = call + hops inside · hop inside + hops between · hop between + (1 + own block · own blocks a block
// sent) · the longest of: bytes on the fullest scale-up link / its share, bytes on the fullest link between
// nodes / its share, bytes out of the fullest node / the node's limit.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "sim/collective/bundle_sum.hpp"
#include "sim/collective/collective.hpp"
#include "sim/network/network.hpp"
#include "sim/topology/collective_figures.hpp"

namespace syncline {

/// How a group lies on the cluster.
struct Spread {
  std::size_t members = 1;
  std::size_t nodes = 1;
};
[[nodiscard]] Spread spread_of(std::span<const AcceleratorId> members, const Topology& topology);

/// Hops that follow one another from the first byte to the last arrival.
struct Hops {
  double inside = 0, between = 0;
  double own_blocks = 0;  // that a member copies from its input to its output, for each block that it sends
};

/// With n members on k nodes, g = n/k rounded up, on one node nothing is between:
/// - ring: all-reduce 2(n−1), all-gather, reduce-scatter, broadcast n−1 hops, k of every n of them between
///   nodes;
/// - tree: 2(g−1) inside, 2⌈log2 k⌉ between; in-network: 2 inside, 2⌈log2 k⌉ between;
/// - direct: g−1 inside and n−g between, one for every peer; shift (and send): one.
///
/// Of n blocks of S/n a member copies one, its own, and sends n−1, twice as many in an all-reduce; where
/// everybody moves the whole buffer there are no blocks.
[[nodiscard]] Hops hops_of(CollectiveKind kind, Algorithm algorithm, Spread spread);

/// What a plan puts on the links, in seconds at their usable bandwidth, nothing else being under way.
struct Load {
  Seconds inside;     // fullest scale-up link
  Seconds between;    // fullest of the others
  Bytes out_of_node;  // out of the fullest node
};
[[nodiscard]] Load scaled(const Load& of_byte, Bytes bytes);
/// @param uses   of one action that stands for the whole plan
/// @param bytes  its progress
[[nodiscard]] Load load_of(std::span<const LinkUse> uses, Bytes bytes, const Topology& topology);
/// Calls move(from, to, bytes) for each pair of members between which a plan moves something.
template <class Move>
void for_each_move(const CollectivePlan& plan, std::size_t members, const Move& move) {
  for (const Lane& lane : plan.lanes)
    for (std::size_t i = 0; i < lane.senders(); ++i)
      move(lane.order[i], lane.order[(i + 1) % lane.order.size()], lane.bytes_per_sender());
  for (const Burst& burst : plan.phases)
    for (std::size_t i = 0; i < (burst.pattern == Burst::Pattern::AllPairs ? members : 1); ++i)
      for (std::size_t j = 0; j < members; ++j)
        if (i != j) move(i, j, burst.bytes);
  if (plan.flows)
    for (const Flow& flow : *plan.flows) move(flow.from, flow.to, plan.bytes * flow.share);
  if (plan.tracks)
    for (const Track& track : *plan.tracks)
      for (const Round& round : track)
        for (const Flow& flow : round.flows) move(flow.from, flow.to, plan.bytes * flow.share);
}

/// Adds to each link of a plan what crosses it in all, in bytes.
void add_moves(const CollectivePlan& plan, std::span<const AcceleratorId> members, const Topology& topology,
               BundleSum& sum);
/// Every link of a plan, by id, with what crosses it in all, in bytes, as coefficient.
[[nodiscard]] std::vector<LinkUse> link_uses(const CollectivePlan& plan,
                                             std::span<const AcceleratorId> members,
                                             const Topology& topology);
/// @param sum  scratch
[[nodiscard]] std::vector<LinkUse> link_uses(const CollectivePlan& plan,
                                             std::span<const AcceleratorId> members, const Topology& topology,
                                             BundleSum& sum);
[[nodiscard]] Bytes bytes_between_nodes(const CollectivePlan& plan, std::span<const AcceleratorId> members,
                                        const Topology& topology);

/// Of scale-up links, and of all others: a factor on the bytes that a plan moves.
struct Stretch {
  double inside = 1, between = 1;
};
/// What a protocol puts on the links, and so takes from others: its flags go with the data. Never more than
/// it has time for at its own pace.
[[nodiscard]] Stretch wire_of(const ProtocolFigures& figures);
/// What a collective's bytes take of the links' time, alone: its own pace, which leaves room for others where
/// that is more than wire_of().
[[nodiscard]] Stretch stretch_of(const ProtocolFigures& figures, Hops hops, const Load& load,
                                 std::optional<BytesPerSecond> node_limit);

/// What a call takes beyond its bytes; what these take; and both.
[[nodiscard]] Seconds latency_of(const ProtocolFigures& figures, Hops hops);
[[nodiscard]] Seconds bytes_time(const ProtocolFigures& figures, Hops hops, const Load& load,
                                 std::optional<BytesPerSecond> node_limit);
[[nodiscard]] Seconds predicted_time(const ProtocolFigures& figures, Hops hops, const Load& load,
                                     std::optional<BytesPerSecond> node_limit);

/// The protocols that an algorithm has figures for; of Shift, those of send. Broadcast and reduce have those
/// of rings, scatter and gather those of direct exchanges, as libraries carry them out; algorithms that go in
/// rounds have none.
[[nodiscard]] const std::vector<ProtocolFigures>& protocols_of(const CollectiveFigures& figures,
                                                               CollectiveKind kind, Algorithm algorithm);
/// The algorithms that `auto` chooses from where there are figures: those that carry out the kind, have figures, and fit the group.
[[nodiscard]] std::vector<Algorithm> algorithms_for(const CollectiveFigures& figures, CollectiveKind kind,
                                                    Spread spread);
/// The limit, where the algorithm is bound by it: not direct exchanges, nor sends.
[[nodiscard]] std::optional<BytesPerSecond> node_limit_of(const CollectiveFigures& figures,
                                                          CollectiveKind kind, Algorithm algorithm);

}  // namespace syncline
