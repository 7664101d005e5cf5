// Collectives as pure functions: from (kind, size, algorithm) to the transfers that carry them out.
//
// Members are positions 0..n-1 in their group. Every algorithm here is one of two patterns:
//   Lane   — positions in a ring or chain, each sending to the next step after step (ring algorithms, one a channel);
//   Burst  — every listed pair at once, one after another phase (direct algorithms).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/topology/topology.hpp"

namespace syncline {

/// order[i] sends to order[i+1]; closed: the last sends to the first. In step s position i sends `bytes_of(s)`; it may
/// do so when its own step s−1 has arrived and, unless s < lead, the previous position's step s − lag has arrived here.
struct Lane {
  std::vector<std::uint32_t> order;  // group positions
  bool closed = true;
  int steps = 0;
  int lag = 1;                       // 1: ring (forwards what came in the step before); 0: pipelined chain (same chunk)
  Bytes step_bytes;                  // of every step, unless `shrinking`
  bool shrinking = false;            // all-to-all by ring: step s carries (steps − s) blocks of step_bytes
  [[nodiscard]] Bytes bytes_of(int step) const {
    return shrinking ? step_bytes * static_cast<double>(steps - step) : step_bytes;
  }
};

/// All transfers start together; the phase ends when the last has arrived.
struct Burst {
  enum class Pattern : std::uint8_t { AllPairs, FromFirst };  // each to all others; position 0 to all others
  Pattern pattern = Pattern::AllPairs;
  Bytes bytes;                        // of each transfer
};

struct CollectivePlan {
  Algorithm algorithm = Algorithm::Ring;
  std::vector<Lane> lanes;    // run side by side, or
  std::vector<Burst> phases;  // run one after another
};

/// Ring orders of a group, one a channel: each is a permutation of 0..n-1 that follows the topology (inside a node
/// before across, each channel leaving by another NIC; on a torus, one a dimension order and direction).
[[nodiscard]] std::vector<std::vector<std::uint32_t>> ring_orders(const std::vector<AcceleratorId>& members,
                                                                  const Topology& topology);

/// The plan of a collective of `bytes` (nccl-tests' size S) among n members.
/// Ring all-reduce: 2(n−1) steps of S/n; all-gather and reduce-scatter: n−1 steps of S/n; broadcast: a chain in chunks;
/// all-to-all: n−1 shrinking steps. With c channels each carries 1/c. Direct: every pair at once, all-reduce as
/// reduce-scatter then all-gather.
/// @param algorithm  not Auto
[[nodiscard]] CollectivePlan plan_collective(CollectiveKind kind, Algorithm algorithm, Bytes bytes,
                                             const std::vector<std::vector<std::uint32_t>>& rings);

/// Bytes that the members send in all; for conservation checks.
[[nodiscard]] Bytes bytes_sent(const CollectivePlan& plan, std::size_t members);

/// Ring for the bandwidth-bound kinds, direct for all-to-all.
[[nodiscard]] Algorithm choose_algorithm(CollectiveKind kind);

/// busbw ÷ algbw as nccl-tests defines it.
[[nodiscard]] double bus_factor(CollectiveKind kind, std::size_t members);

}  // namespace syncline
