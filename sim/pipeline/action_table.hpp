// Where each action of an order stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/pipeline/order.hpp"

namespace syncline::pipeline {

/// A block of a rank; none: the order does not have the action.
struct Where {
  std::int32_t rank = -1;
  std::int32_t block = -1;
  [[nodiscard]] bool none() const { return rank < 0; }
  friend bool operator==(const Where&, const Where&) = default;
};

/// Calls `visit(action)` for the one or two actions of a block.
template <class Visit>
void for_each_action(const Block& block, const Visit& visit) {
  visit(block.first);
  if (block.fused) visit(block.second);
}

class ActionTable {
 public:
  /// @pre every action's stage and microbatch are within the order's counts
  explicit ActionTable(const Order& order);

  [[nodiscard]] Where forward(int stage, int microbatch) const { return forward_[cell(stage, microbatch)]; }
  /// I or B: what hands the gradient on.
  [[nodiscard]] Where gradient(int stage, int microbatch) const { return gradient_[cell(stage, microbatch)]; }

  /// Calls `visit(where)` for every block that must have ended before `action` starts.
  template <class Visit>
  void for_each_input(const Action& action, const Visit& visit) const {
    const int stage = action.stage, microbatch = action.microbatch;
    switch (action.kind) {
      case ActionKind::Forward:
        if (stage > 0) visit(forward(stage - 1, microbatch));
        return;
      case ActionKind::Backward:
      case ActionKind::BackwardInput:
        if (stage + 1 < stages_) visit(gradient(stage + 1, microbatch));
        return visit(forward(stage, microbatch));
      case ActionKind::BackwardWeight: return visit(gradient(stage, microbatch));
    }
  }

 private:
  [[nodiscard]] std::size_t cell(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(microbatches_) +
           static_cast<std::size_t>(microbatch);
  }

  int stages_, microbatches_;
  std::vector<Where> forward_, gradient_;  // by stage and microbatch
};

}  // namespace syncline::pipeline
