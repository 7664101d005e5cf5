// How the rule-made schedules write their orders: a rank at a time, a virtual stage taking its microbatches
// in turn.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>

#include "sim/pipeline/generator.hpp"

namespace syncline::pipeline {

/// A virtual stage on a rank, with the microbatches that are next.
struct Lane {
  explicit Lane(int stage_index, int first_microbatch = 0)
      : stage(stage_index), next_forward(first_microbatch), next_backward(first_microbatch) {}
  int stage;
  int next_forward, next_backward;
};

/// The order of a rank while it is written. Weight gradients wait in a queue from their I until they are
/// asked for.
class RankWriter {
 public:
  void forward(Lane& lane) { order_.emplace_back(F(lane.stage, lane.next_forward++)); }
  void backward(Lane& lane) { order_.emplace_back(B(lane.stage, lane.next_backward++)); }
  void backward_input(Lane& lane) {
    held_.push_back(W(lane.stage, lane.next_backward));
    order_.emplace_back(I(lane.stage, lane.next_backward++));
  }
  /// One block: the next forward of one lane and the next whole backward of another.
  void fused(Lane& forward_lane, Lane& backward_lane) {
    order_.emplace_back(F(forward_lane.stage, forward_lane.next_forward++),
                        B(backward_lane.stage, backward_lane.next_backward++));
  }

  /// The steady phase's two: as one block, or one after the other.
  void both(Lane& lane, bool as_one) {
    if (as_one) return fused(lane, lane);
    forward(lane);
    backward(lane);
  }

  [[nodiscard]] std::size_t held_weights() const { return held_.size(); }
  /// The oldest or newest weight gradient that waits. @pre one does
  void weight(WeightOrder which = WeightOrder::OldestFirst) {
    const auto next = which == WeightOrder::OldestFirst ? held_.begin() : std::prev(held_.end());
    take(next);
  }
  /// The oldest that waits of one virtual stage. @pre one does
  void weight(const Lane& lane) { take(std::ranges::find(held_, lane.stage, &Action::stage)); }
  void all_weights(WeightOrder which = WeightOrder::OldestFirst) {
    while (!held_.empty()) weight(which);
  }

  [[nodiscard]] RankOrder finish() { return std::move(order_); }

 private:
  void take(std::deque<Action>::iterator weight) {
    order_.emplace_back(*weight);
    held_.erase(weight);
  }

  RankOrder order_;
  std::deque<Action> held_;
};

/// Every rank's order by `write(rank)`.
template <class Write>
Order by_rank(int stages, const Request& request, Write write) {
  Order order{stages, request.microbatches, {}};
  for (int rank = 0; rank < request.ranks; ++rank) order.ranks.push_back(write(rank));
  return order;
}

}  // namespace syncline::pipeline
