#include "sim/pipeline/order.hpp"

#include <fmt/format.h>

#include "sim/pipeline/action_table.hpp"

namespace syncline::pipeline {
namespace {

/// What a stage and microbatch have been seen to do.
struct Passage {
  int rank = -1;  // that runs it
  bool forward = false, gradient = false, input_only = false, weight = false;
};

class OrderCheck {
 public:
  explicit OrderCheck(const Order& order) : order_(order) {}

  std::vector<std::string> run() {
    if (order_.ranks.empty() || order_.stages < 1 || order_.microbatches < 1) return {"the order is empty"};
    if (!numbers_in_range() || !as_many_as_named()) return std::move(wrong_);
    passages_.resize(static_cast<std::size_t>(order_.stages) * static_cast<std::size_t>(order_.microbatches));
    for (rank_ = 0; rank_ < static_cast<int>(order_.ranks.size()); ++rank_)
      for (const Block& block : order_.ranks[static_cast<std::size_t>(rank_)]) {
        check_fused(block);
        for_each_action(block, [this](const Action& action) { see(action); });
      }
    find_missing();
    return std::move(wrong_);
  }

 private:
  static constexpr std::size_t MostReported = 20;

  template <class... Parts>
  void report(fmt::format_string<Parts...> text, Parts&&... parts) {
    if (wrong_.size() < MostReported) wrong_.push_back(fmt::format(text, std::forward<Parts>(parts)...));
  }

  bool numbers_in_range() {
    int rank = 0;
    for (const RankOrder& blocks : order_.ranks) {
      for (const Block& block : blocks)
        for_each_action(block, [&](const Action& action) {
          if (action.stage < 0 || action.stage >= order_.stages || action.microbatch < 0 ||
              action.microbatch >= order_.microbatches)
            report("rank {}: {} is outside {} stages and {} microbatches", rank, to_text(action),
                   order_.stages, order_.microbatches);
        });
      ++rank;
    }
    return wrong_.empty();
  }

  /// Before anything is allocated by stage and microbatch, which a stray large number could make huge.
  bool as_many_as_named() {
    double actions = 0;
    for (const RankOrder& blocks : order_.ranks)
      for (const Block& block : blocks) actions += block.fused ? 2 : 1;
    const double passages = static_cast<double>(order_.stages) * order_.microbatches;
    if (actions < 2 * passages)
      report(
          "{} stages and {} microbatches need {} forwards and as many backwards, but there are {} actions in "
          "all",
          order_.stages, order_.microbatches, passages, actions);
    return wrong_.empty();
  }

  void check_fused(const Block& block) {
    if (block.fused && (block.first.kind != ActionKind::Forward || block.second.kind != ActionKind::Backward))
      report("rank {}: {} must fuse a forward F with a whole backward B", rank_, to_text(block));
  }

  void see(const Action& action) {
    Passage& passage =
        passages_[static_cast<std::size_t>(action.stage) * static_cast<std::size_t>(order_.microbatches) +
                  static_cast<std::size_t>(action.microbatch)];
    if (passage.rank >= 0 && passage.rank != rank_)
      return report(
          "rank {}: {} is on another rank than the rest of stage {} microbatch {}, which rank {} runs", rank_,
          to_text(action), action.stage, action.microbatch, passage.rank);
    passage.rank = rank_;
    switch (action.kind) {
      case ActionKind::Forward:
        return once(passage.forward, action);
      case ActionKind::Backward:
      case ActionKind::BackwardInput:
        if (!passage.forward) return too_early(action, ActionKind::Forward);
        passage.input_only = action.kind == ActionKind::BackwardInput;
        return once(passage.gradient, action);
      case ActionKind::BackwardWeight:
        if (!passage.gradient) return too_early(action, ActionKind::BackwardInput);
        if (!passage.input_only)
          return report("rank {}: {} after a whole backward {}, which has it in it", rank_, to_text(action),
                        to_text(B(action.stage, action.microbatch)));
        return once(passage.weight, action);
    }
  }

  void once(bool& seen, const Action& action) {
    if (seen) report("rank {}: {} stands twice", rank_, to_text(action));
    seen = true;
  }

  void too_early(const Action& action, ActionKind needed) {
    report("rank {}: {} before its {}", rank_, to_text(action),
           to_text(Action{needed, action.stage, action.microbatch}));
  }

  void find_missing() {
    if (!wrong_.empty()) return;
    for (int stage = 0; stage < order_.stages; ++stage)
      for (int microbatch = 0; microbatch < order_.microbatches; ++microbatch) {
        const Passage& passage =
            passages_[static_cast<std::size_t>(stage) * static_cast<std::size_t>(order_.microbatches) +
                      static_cast<std::size_t>(microbatch)];
        if (!passage.forward)
          report("{} is missing", to_text(F(stage, microbatch)));
        else if (!passage.gradient)
          report("{} is missing, or {}", to_text(B(stage, microbatch)), to_text(I(stage, microbatch)));
        else if (passage.input_only && !passage.weight)
          report("{} is missing", to_text(W(stage, microbatch)));
      }
  }

  const Order& order_;
  int rank_ = 0;  // being looked at
  std::vector<Passage> passages_;
  std::vector<std::string> wrong_;
};

}  // namespace

std::vector<std::string> check_order(const Order& order) {
  return OrderCheck(order).run();
}

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
