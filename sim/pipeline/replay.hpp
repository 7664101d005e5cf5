// An order with times: when each block of each rank runs when transfers take a fixed time and hold nobody up.
//
// A rank runs its blocks in order, one at a time, each as soon as the rank is free and its inputs are there.
// F of a stage needs F of the stage before; B and I need B or I of the stage behind and their own F (the last
// stage only its own F); W needs its own I. What comes from another rank arrives `hop` after its producer
// ended, from the same rank at once. A whole backward hands its gradient on when all of it is done.
#pragma once

#include <optional>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/pipeline/order.hpp"

namespace syncline::pipeline {

/// Times of one virtual stage for one microbatch. A whole backward takes backward_input + backward_weight.
struct StageTimes {
  Seconds forward{1};
  Seconds backward_input{1};
  Seconds backward_weight{1};
  [[nodiscard]] Seconds of(ActionKind kind) const;
  [[nodiscard]] Seconds total() const { return forward + backward_input + backward_weight; }
  friend bool operator==(const StageTimes&, const StageTimes&) = default;
};

struct Costs {
  std::vector<StageTimes> stages;  // by virtual stage
  std::optional<Seconds> fused{};  // of a fused block; without it the sum of its halves
  Seconds hop{};                   // from one rank to another
  [[nodiscard]] Seconds of(const Block& block) const;
};

/// The same for all stages.
[[nodiscard]] Costs uniform_costs(int stages, StageTimes times, Seconds hop = {});

struct BlockTimes {
  Seconds start, end;
};

struct RankReplay {
  Seconds first_start, last_end;
  Seconds busy;
  Seconds internal_idle;     // between first start and last end
  int peak_activations = 0;  // most stage-microbatches held: from the start of F to the end of W or B
  int peak_activations_free_at_input = 0;  // ... to the end of I or B
};

struct Replay {
  Seconds makespan;       // end of the last block, from 0
  Seconds max_rank_span;  // largest last end − first start of a rank: the time of the zero-bubble papers
  double bubble_fraction = 0;  // 1 − sum of busy / (ranks · makespan)
  std::vector<RankReplay> ranks;
  std::vector<std::vector<BlockTimes>> blocks;  // by rank, as in the order
};

/// @pre check_order() finds nothing wrong, and costs.stages has an entry for each stage
/// @throws std::invalid_argument when the order deadlocks; the text names the ranks, the actions and the
/// cycle
[[nodiscard]] Replay replay(const Order& order, const Costs& costs);

/// The cycle of blocks that wait for each other, a line each ("rank 0 waits in 0F1 for 1B0 of rank 1, ...");
/// empty when the order runs to its end.
[[nodiscard]] std::string deadlock(const Order& order);
/// The ranks of that cycle, in the same order.
[[nodiscard]] std::vector<int> deadlocked_ranks(const Order& order);

}  // namespace syncline::pipeline
