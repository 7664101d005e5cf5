// Which op of one timeline is which of another: by rank, stream and what the op is, never by where it stands in a file.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/timeline/timeline.hpp"

namespace syncline::compare {

/// One op on one rank that both timelines have: positions in their Timeline::spans.
struct Pair {
  std::uint32_t a = 0, b = 0;
  friend bool operator==(const Pair&, const Pair&) = default;
};

struct Alignment {
  std::vector<Pair> pairs;                    // ascending in `a`
  std::vector<std::uint32_t> only_a, only_b;  // positions, ascending
};

/// Pairs spans of equal rank, stream (by name), tag, name, kind and group, the first with the first by start. Where one
/// timeline has more such equals than the other, those are paired, in order, whose places among the other ops of the stream
/// differ least; the rest is in one timeline only.
///
/// Bytes, FLOP and algorithm may differ, and so may op numbers and the order of streams.
[[nodiscard]] Alignment align(const Timeline& a, const Timeline& b);

/// An op that a stream of A has at another place than B.
struct Moved {
  std::uint32_t pair = 0;  // position in Alignment::pairs
  /// The op before it that has not moved, in either timeline; Alignment::pairs.size(): none, it is the first.
  std::uint32_t after_in_a = 0, after_in_b = 0;
};

/// The smallest set of pairs without which each rank and stream has the others in one order of starts, by rank, stream
/// and start in A. What starts at one time has no order.
[[nodiscard]] std::vector<Moved> find_moved(const Timeline& a, const Timeline& b,
                                            std::span<const Pair> pairs);

}  // namespace syncline::compare
