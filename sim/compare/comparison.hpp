// Two timelines held against each other, op by op: A, usually simulated, against B, usually measured.
//
// Every error is A / B − 1: positive where A takes longer, as in predicted / measured − 1 of a score.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/compare/align.hpp"
#include "sim/compare/clocks.hpp"
#include "sim/compare/waits.hpp"
#include "sim/timeline/timeline.hpp"

namespace syncline::compare {

struct Options {
  /// Shorter times have no error of their own: see error_of(). None: 10 µs, but at most a ten-thousandth of B's step.
  std::optional<Seconds> floor{};
  std::size_t worst = 10;  // how many of the worst communications of each timeline are kept
};

/// A / B − 1; where B is below the floor, of the floor instead of B; nothing where both are below it, so that a kernel of
/// 2 µs that took 4 is no error of 50 %.
[[nodiscard]] std::optional<double> error_of(Seconds a, Seconds b, Seconds floor);

/// One op in both. Work of communication is from when its data moves to its end; waiting is before that.
struct OpTimes {
  Seconds work_a, work_b;
  Seconds waiting_a, waiting_b;
  Seconds exposed_a, exposed_b;  // of communication: without compute on its rank, waiting included
  std::optional<double> error;   // of the work
};

/// Ops in both timelines that have something in common.
struct Group {
  std::string name;         // "backward", "compute", "rank 3"
  std::size_t ops = 0;      // pairs
  std::size_t counted = 0;  // of them, with an error
  Seconds work_a, work_b;   // sums
  Seconds waiting_a, waiting_b;
  std::optional<double> error;          // of the sums; nothing where both are below the floor
  std::optional<double> mean_absolute;  // by time: Σ|A − B| / ΣB; nothing where ΣB is 0
  // Over the errors of `counted` ops; 0 where there are none.
  double median_absolute = 0, p90_absolute = 0, max_absolute = 0;
  std::optional<std::uint32_t> worst{};  // the pair with the largest error
};

/// Communication of one kind under compute and without, in all of each timeline.
struct Overlap {
  std::string kind;
  Seconds kernel_a, kernel_b;    // of the kernels, waiting included
  Seconds exposed_a, exposed_b;  // of that, without compute on the rank
};

/// One of the two.
struct Side {
  Timeline timeline;         // of B with its clocks set to A's
  Seconds step_time;         // first start to last end
  Seconds exposed;           // communication without compute, mean over ranks
  double overlap_share = 0;  // of communication, under compute
  Waits waits;
};

struct Comparison {
  Side a, b;
  Seconds floor;
  Clocks clocks;
  std::optional<double> step_error;
  Alignment alignment;
  std::vector<OpTimes> ops;  // by Alignment::pairs
  Group all;
  std::vector<Group> kinds, streams, ranks;  // in order of first appearance in A; ranks ascending
  // Of starts, with clocks set: how much later A's are.
  Seconds median_start_difference;           // absolute
  std::optional<std::uint32_t> worst_start;  // the pair farthest apart
  std::vector<Moved> moved;
  std::vector<Overlap> overlaps;  // by kind, in order of first appearance in A, then in B

  [[nodiscard]] const Span& span_a(std::uint32_t pair) const {
    return a.timeline.spans[alignment.pairs[pair].a];
  }
  [[nodiscard]] const Span& span_b(std::uint32_t pair) const {
    return b.timeline.spans[alignment.pairs[pair].b];
  }
  [[nodiscard]] Seconds start_difference(std::uint32_t pair) const {
    return span_a(pair).start - span_b(pair).start;
  }
};

/// @param a, b  spans grouped by rank
/// @throws std::invalid_argument  when the two have no op in common
[[nodiscard]] Comparison compare(Timeline a, Timeline b, const Options& options);

inline constexpr double Notable = 1e-6;  // an error that is shown: less is the rounding of times in a file

/// The pairs with an error, the largest first, as far as it is more than `beyond`.
[[nodiscard]] std::vector<std::uint32_t> farthest_off(const Comparison& comparison, double beyond);

inline constexpr double SharesDiffer = 0.1;  // of a kernel's time: less is the same overlap

/// Communications that run under compute in one timeline and without in the other, by SharesDiffer of their time or more
/// and by no less than the floor: pairs, those with the largest difference of exposed time first.
[[nodiscard]] std::vector<std::uint32_t> overlapped_differently(const Comparison& comparison);

}  // namespace syncline::compare
