// Communication of one timeline: what it cost, who waited, and for whom.
//
// A communication kernel is resident from its own start, but moves data only when the last member has come. The same
// call is therefore long on one rank and short on another, and none of that is the network's doing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/timeline/timeline.hpp"

namespace syncline::compare {

/// The spans of communications, as far as a timeline tells: of collectives those of equal name, group family and tag whose
/// data moves from one and the same time; of messages those of equal phase and microbatch, likewise. Groups that move in
/// step with each other cannot be told apart and count as one. What has no partner is left out: eager messages, and
/// members of which the file has no others.
/// @returns positions in Timeline::spans, each list by rank
[[nodiscard]] std::vector<std::vector<std::uint32_t>> meetings_of(const Timeline& timeline);

/// One communication.
struct Meeting {
  std::vector<std::uint32_t> spans;  // of its members, by rank; at least two
  Seconds cost;                      // of the shortest: moving the data took no longer than that
  Seconds kernel_time;               // of all members together, waiting included
  Seconds waiting;                   // of all members together
  std::uint32_t last = 0;            // the span of the member that came last (of several the lowest rank)
  /// The span on the last one's rank that ended latest before it came; none: it is the first there.
  std::optional<std::uint32_t> before{};
};

/// Communications of one kind together.
struct WaitsOfKind {
  std::string kind;         // "all-reduce", "recv"
  std::size_t kernels = 0;  // one a member
  std::size_t alone = 0;    // of them, without a partner
  Seconds kernel_time{};
  Seconds waiting{};
};

struct Waits {
  std::vector<WaitsOfKind> kinds;  // in order of first appearance
  WaitsOfKind all;
  std::vector<Seconds> by_rank;  // waiting
  std::vector<Meeting> worst;    // those with most waiting, most first; only those with any
};

/// @param worst  how many meetings are kept
[[nodiscard]] Waits find_waits(const Timeline& timeline, std::size_t worst);

}  // namespace syncline::compare
