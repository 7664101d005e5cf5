// What a collective alone on the network is predicted to take by latency and bandwidth of the links: where there are no
// figures of a communication library.
#pragma once

#include <span>

#include "sim/collective/bundle_sum.hpp"
#include "sim/collective/collective.hpp"

namespace syncline {

/// latency + S · seconds_per_byte; of a chain, which passes pieces on: (pieces + hops − 1) times that of a piece.
struct LinkCost {
  Seconds latency;
  double seconds_per_byte = 0;
  int chain_hops = 0;  // 0: no chain

  [[nodiscard]] Seconds time(Bytes bytes) const;
};

/// - lanes: steps · (slowest hop's latency + step / pace of the fullest link);
/// - bursts: a phase takes its longest latency and all at the fullest link;
/// - flows: hops_of() times the longest latency inside and between nodes, then all at the fullest link;
/// - rounds: those of equal number in all tracks are taken to run at the same time.
/// Exact where ways are alike; never less than bytes on the fullest link.
/// @param plan  of 1 byte; in one chunk
/// @param sum   scratch
[[nodiscard]] LinkCost link_cost(CollectiveKind kind, const CollectivePlan& plan, const GroupShape& shape,
                                 std::span<const AcceleratorId> members, const Topology& topology, BundleSum& sum);

}  // namespace syncline
