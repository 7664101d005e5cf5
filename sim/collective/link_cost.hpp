// What a collective alone on the network is predicted to take by latency and bandwidth of the links: where there are no
// figures of a communication library.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/collective/bundle_sum.hpp"
#include "sim/collective/collective.hpp"

namespace syncline {

/// latency + bytes · seconds_per_byte.
struct LinearCost {
  Seconds latency;
  double seconds_per_byte = 0;

  [[nodiscard]] Seconds of(Bytes bytes) const { return latency + Seconds(bytes.si() * seconds_per_byte); }
  friend auto operator<=>(const LinearCost&, const LinearCost&) = default;
};

/// What something takes at least and at most.
struct CostBounds {
  Seconds least, most;
};

/// Chains side by side, each passing on its part in pieces.
class ChainCost {
 public:
  struct Hop {
    Seconds latency;
    std::vector<LinkUse> uses;  // coefficient: seconds that a byte takes, alone
  };

  /// @param chains  as many hops in each
  explicit ChainCost(std::vector<std::vector<Hop>> chains);
  /// Least: each alone on all hops, or the fullest link. Most: in step i the first piece of each goes over
  /// its hop i, while as many pieces as there are, at most i, are on the hops behind, and who crosses a link
  /// shares it all the time; the other pieces follow at the slowest of these paces. Equal where chains do not
  /// meet.
  /// @param bytes  of all chains together
  [[nodiscard]] CostBounds bounds(Bytes bytes) const;
  /// Sends of pieces over a hop, in all.
  [[nodiscard]] double sends(Bytes bytes) const;

 private:
  std::vector<std::vector<Hop>> chains_;
  std::uint32_t links_ = 0;      // their ids are less
  double seconds_per_byte_ = 0;  // of all chains together at the fullest link
};

/// Of a plan: of each phase the longest of what may decide it, one phase after another; or of chains.
struct LinkCost {
  std::vector<std::vector<LinearCost>> phases;
  std::optional<ChainCost> chains{};
  /// Where the phases are an estimate.
  struct Range {
    std::vector<LinearCost> least;  // it does not end before any of these
    LinearCost most;
    double sends = 0;  // in all
  };
  std::optional<Range> range{};

  /// Whether it is known; else it lies between bounds, and takes a rehearsal of so many sends to be told.
  [[nodiscard]] bool exact() const { return !chains && !range; }
  [[nodiscard]] CostBounds bounds(Bytes bytes) const;
  [[nodiscard]] double sends(Bytes bytes) const;

  /// Of chains half-way between their bounds.
  [[nodiscard]] Seconds time(Bytes bytes) const;
  /// What it takes beyond its bytes.
  [[nodiscard]] Seconds latency() const { return time(Bytes(0)); }
};

/// - lanes: steps · (slowest hop's latency + step / pace of the fullest link); chains as above;
/// - bursts: near transfers are served while the first bytes are on their way to the far ones, so a phase
///   takes its mean latency and all at the fullest link, or its longest latency and what a member sends last.
///   Where latencies differ that is an estimate, between the longest latency or the fullest link and both;
/// - flows: hops_of() times the longest latency inside and between nodes, then all at the fullest link;
/// - rounds: those of equal number run at the same time in all tracks where they take as many steps in each, and
///   take their longest latency and all at the fullest link, or less where latencies differ within a round.
///   Elsewhere the longest track alone, or what is on the fullest link, is the least, and all tracks one after
///   another the most.
///
/// Exact where ways are alike; never less than bytes on the fullest link.
/// @param plan  of 1 byte; in one chunk
/// @param sum   scratch
[[nodiscard]] LinkCost link_cost(CollectiveKind kind, const CollectivePlan& plan, const GroupShape& shape,
                                 std::span<const AcceleratorId> members, const Topology& topology,
                                 BundleSum& sum);

}  // namespace syncline
