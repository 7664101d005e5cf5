// List scheduling after a guide: of the steps that a rank could run next, the one that is due first.
//
// A guide says when each step of microbatch 0 is due and after which period the same step of the next
// microbatch is: a building block, repeated. Times are the task's own; so the block squeezes itself together
// in warm-up and cool-down, and stretches where a stage is slow.
#pragma once

#include <limits>
#include <vector>

#include "sim/pipeline/search/plan.hpp"

namespace syncline::pipeline::search {

struct Guide {
  static constexpr double Never = std::numeric_limits<double>::infinity();
  std::vector<double> due;    // by step: of microbatch 0 [s]
  double period = 0;          // [s]; 0: steps are ranked, whatever the microbatch
  double window = Never;      // a step may overtake one that is due this much earlier [s]; 0: none
  double weight_due = Never;  // of a weight gradient, after its backward [s]; never: only to fill idle time
  std::vector<int>
      most_in_flight{};         // by stage, between forward and backward; empty: as many as the limit allows
  bool fill_small_idle = true;  // a weight gradient also where it delays what is to come
};

/// Does not deadlock on a limit that refuse_memory() accepts: forwards leave room for those of a rank's later
/// stages. Method: Giffler and Thompson, Operations Research 8 (1960): the earliest possible end of a step
/// names the rank, the guide chooses among the steps that could start there before that.
[[nodiscard]] Plan list_schedule(const Task& task, const Guide& guide);

/// One microbatch after another: slow, and within every limit that refuse_memory() accepts.
[[nodiscard]] Guide one_at_a_time(const Task& task);

}  // namespace syncline::pipeline::search
