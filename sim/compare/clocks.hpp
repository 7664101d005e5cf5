// How the clocks of two timelines differ.
#pragma once

#include <span>
#include <vector>

#include "sim/compare/align.hpp"
#include "sim/timeline/timeline.hpp"

namespace syncline::compare {

struct Clocks {
  /// How much later B's times are than A's for the same moment.
  Seconds offset;
  /// Ranks whose own clock in one of the timelines differs from the others' there, by rank; as `offset`, on top of it.
  struct Differing {
    RankId rank;
    Seconds offset;
  };
  std::vector<Differing> ranks;
};

/// Clocks of ranks among each other are told by what they did together: the members of a communication end together, so
/// that from A to B all their ends have moved alike, however much slower one timeline is, but for the clocks. Of two ranks
/// the median over their communications counts. Ranks that no communication joins are held against each other by how far
/// their starts have moved, in the median. A rank is named when it is off by more than `least` and by more than three times
/// the deviation that nine of ten communications, or starts, keep to.
///
/// Between the timelines the first start is taken to be one moment: later ones drift apart as soon as an op takes longer.
[[nodiscard]] Clocks find_clocks(const Timeline& a, const Timeline& b, std::span<const Pair> pairs,
                                 Seconds least);

/// Takes the differences out of B.
void set_clocks(Timeline& b, const Clocks& clocks);

}  // namespace syncline::compare
