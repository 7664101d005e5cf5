#include "sim/pipeline/action_table.hpp"

namespace syncline::pipeline {

ActionTable::ActionTable(const Order& order) : stages_(order.stages), microbatches_(order.microbatches) {
  const std::size_t cells = static_cast<std::size_t>(stages_) * static_cast<std::size_t>(microbatches_);
  forward_.resize(cells);
  gradient_.resize(cells);
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < order.ranks[rank].size(); ++i) {
      const Where where{static_cast<std::int32_t>(rank), static_cast<std::int32_t>(i)};
      for_each_action(order.ranks[rank][i], [&](const Action& action) {
        if (action.kind == ActionKind::BackwardWeight) return;
        (action.kind == ActionKind::Forward ? forward_ : gradient_)[cell(action.stage, action.microbatch)] =
            where;
      });
    }
  }
}

}  // namespace syncline::pipeline
