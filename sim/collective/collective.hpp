// Collectives as pure functions: from (kind, size, algorithm) to the transfers that carry them out.
//
// Members are positions 0..n-1 in their group. Every algorithm is one of four patterns:
//   Lane   — positions in a ring or chain, each sending to the next step after step (ring algorithms, one a channel);
//   Burst  — every listed pair at once, one after another phase (direct algorithms);
//   Flow   — pairs that stream side by side, each its share of the buffer (trees, reduction in the network);
//   Track  — rounds of flows, one after another (rounds.hpp: recursive, pairwise, hierarchical, bucket, two-hop).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/collective/rounds.hpp"
#include "sim/core/quantity.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/topology/topology.hpp"

namespace syncline {

/// order[i] sends to order[i+1]; closed: the last sends to the first. Step s of a position begins when its own step
/// s − 1 has arrived and step s − lag of the position before it has arrived here (the first `lag` steps wait for
/// nobody; the head of an open lane never does).
struct Lane {
  std::vector<std::uint32_t> order;  // group positions
  bool closed = true;
  int steps = 0;
  int lag = 1;  // 1: ring, forwards what came in the step before; 0: pipelined chain, forwards the same chunk
  Bytes step_bytes;        // of every step, unless `shrinking`
  bool shrinking = false;  // all-to-all by ring: step s carries (steps − s) blocks of step_bytes

  [[nodiscard]] std::size_t senders() const { return closed ? order.size() : order.size() - 1; }
  [[nodiscard]] Bytes bytes_of(int step) const {
    return shrinking ? step_bytes * static_cast<double>(steps - step) : step_bytes;
  }
  /// What one sender sends over all steps.
  [[nodiscard]] Bytes bytes_per_sender() const {
    return step_bytes * (shrinking ? 0.5 * steps * (steps + 1) : static_cast<double>(steps));
  }
};

/// All transfers start together; the phase ends when the last has arrived.
struct Burst {
  enum class Pattern : std::uint8_t { AllPairs, FromFirst };  // each to all others; position 0 to all others
  Pattern pattern = Pattern::AllPairs;
  Bytes bytes;  // of each transfer
};

struct CollectivePlan {
  Algorithm algorithm = Algorithm::Ring;
  std::vector<Lane> lanes;    // run side by side, or
  std::vector<Burst> phases;  // run one after another, or
  std::shared_ptr<const std::vector<Flow>>
      flows;    // run side by side, at rates in proportion to their shares,
  Bytes bytes;  // of S = bytes; or
  std::shared_ptr<const std::vector<Track>> tracks;  // run side by side, round after round, in shares of S
};

/// Ring orders of a group, one a channel: each is a permutation of 0..n−1 that follows the topology.
/// - Within one switched scale-up domain: one ring. In a fully meshed one: n − 1 rings that take every
///   link once, where such are found, else one for every stride prime to n.
/// - Across nodes: members node by node; as many channels as the members of a node have NICs between them, channel c
///   entering every node at the first member of its c-th NIC. Channels through a meshed node share no link.
/// - All of a torus, or of a box of one (a row, a plane): walks from neighbour to neighbour, each dimension the
///   fastest in turn, both ways, from up to 8
///   places: together they load every link nearly alike (exactly on 8 × 8, within 1.25 of the mean on 4 × 4 × 4, 1.75 on
///   lopsided shapes). Without wrap-around in some dimension a walk's closing hop is long.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> ring_orders(std::span<const AcceleratorId> members,
                                                                  const Topology& topology);

/// Whether every two members have a link of their own.
[[nodiscard]] bool fully_meshed(std::span<const AcceleratorId> members, const Topology& topology);

/// The plan of a collective of `bytes` (S of nccl-tests) among the n members of each ring.
/// - Ring all-reduce: 2(n−1) steps of S/n; all-gather and reduce-scatter: n−1 steps of S/n (Patarasuk and Yuan, J.
///   Parallel Distrib. Comput. 69, 2009). Broadcast: a chain from the first member, in chunks; reduce: to it.
///   All-to-all: n−1 steps, forwarding n−1, n−2, ... blocks of S/n. With c rings each carries 1/c.
/// - Direct: every pair at once with S/n each; all-reduce as reduce-scatter then all-gather; broadcast: S to each.
/// @param algorithm  not Auto
/// @param rings      at least one, all of the same n ≥ 2; direct uses only n
[[nodiscard]] CollectivePlan plan_collective(CollectiveKind kind, Algorithm algorithm, Bytes bytes,
                                             std::span<const std::vector<std::uint32_t>> rings);

/// A double binary tree across nodes and a chain inside each: of every channel (ring) half of the data goes by one tree,
/// half by the other; each node is a leaf of one of the two at least (Sanders, Speck and Träff, Parallel Computing 35, 2009;
/// as NCCL has it since 2.4). All-reduce: up and down again. Broadcast (down) and reduce (up): trees of all nodes but that
/// of the first member, which sends to, or receives from, the root of each. Within one node only the chain is left.
/// @param rings    as ring_orders() gives them: members of a node stand together
/// @param node_of  by group position
[[nodiscard]] std::vector<Flow> tree_flows(CollectiveKind kind,
                                           std::span<const std::vector<std::uint32_t>> rings,
                                           std::span<const std::uint32_t> node_of);

/// In how many pieces a chain passes on so many bytes.
[[nodiscard]] int chain_pieces(Bytes bytes);

/// All-reduce that the scale-up switch adds up: of g members in a node each sends and receives (1 + 1/g) S (its own
/// buffer to be reduced, its part of the sum back to all; NVLink SHARP). Across nodes the parts go through the trees above.
[[nodiscard]] std::vector<Flow> in_network_flows(std::span<const std::vector<std::uint32_t>> rings,
                                                 std::span<const std::uint32_t> node_of);

/// What plans want to know of how a group lies on the cluster.
struct GroupShape {
  std::vector<std::vector<std::uint32_t>> rings;
  Layout layout;
  std::vector<std::uint32_t> node_of;  // by group position: its place in layout.nodes
};
[[nodiscard]] GroupShape shape_of(std::span<const AcceleratorId> members, const Topology& topology);

/// Those that carry out a kind; the first of equally fast ones is preferred.
[[nodiscard]] std::span<const Algorithm> algorithms_of(CollectiveKind kind);
/// Why the algorithm cannot carry out the kind in such a group; nothing when it can.
[[nodiscard]] std::optional<std::string> refusal_of(CollectiveKind kind, Algorithm algorithm,
                                                    const Layout& layout);

/// The plan by any algorithm.
/// @pre refusal_of() finds nothing
[[nodiscard]] CollectivePlan plan_collective(CollectiveKind kind, Algorithm algorithm, Bytes bytes,
                                             const GroupShape& shape);

/// Bytes that all members send together; for conservation checks.
[[nodiscard]] Bytes bytes_sent(const CollectivePlan& plan, std::size_t members);

}  // namespace syncline
