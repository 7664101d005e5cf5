#include "sim/pipeline/order.hpp"

#include <fmt/format.h>

#include <algorithm>

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

  std::vector<OrderFault> run() {
    if (order_.ranks.empty() || order_.stages < 1 || order_.microbatches < 1)
      return {{-1, "the order is empty"}};
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
  void report(int rank, fmt::format_string<Parts...> text, Parts&&... parts) {
    if (wrong_.size() >= MostReported) return;
    wrong_.push_back({rank, fmt::format(text, std::forward<Parts>(parts)...)});
  }
  /// Of the rank being looked at.
  template <class... Parts>
  void report_here(fmt::format_string<Parts...> text, Parts&&... parts) {
    report(rank_, "rank {}: {}", rank_, fmt::format(text, std::forward<Parts>(parts)...));
  }

  bool numbers_in_range() {
    for (rank_ = 0; rank_ < static_cast<int>(order_.ranks.size()); ++rank_)
      for (const Block& block : order_.ranks[static_cast<std::size_t>(rank_)])
        for_each_action(block, [&](const Action& action) {
          if (action.stage < 0 || action.stage >= order_.stages || action.microbatch < 0 ||
              action.microbatch >= order_.microbatches)
            report_here("{} is outside {} stages and {} microbatches", to_text(action), order_.stages,
                        order_.microbatches);
        });
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
          -1,
          "{} stages and {} microbatches need {} forwards and as many backwards, but there are {} actions in "
          "all",
          order_.stages, order_.microbatches, passages, actions);
    return wrong_.empty();
  }

  void check_fused(const Block& block) {
    if (block.fused && (block.first.kind != ActionKind::Forward || block.second.kind != ActionKind::Backward))
      report_here("{} must fuse a forward F with a whole backward B", to_text(block));
  }

  void see(const Action& action) {
    Passage& passage =
        passages_[static_cast<std::size_t>(action.stage) * static_cast<std::size_t>(order_.microbatches) +
                  static_cast<std::size_t>(action.microbatch)];
    if (passage.rank >= 0 && passage.rank != rank_)
      return report_here("{} is on another rank than the rest of stage {} microbatch {}, which rank {} runs",
                         to_text(action), action.stage, action.microbatch, passage.rank);
    passage.rank = rank_;
    switch (action.kind) {
      case ActionKind::Forward: return once(passage.forward, action);
      case ActionKind::Backward:
      case ActionKind::BackwardInput:
        if (!passage.forward) return too_early(action, ActionKind::Forward);
        passage.input_only = action.kind == ActionKind::BackwardInput;
        return once(passage.gradient, action);
      case ActionKind::BackwardWeight:
        if (!passage.gradient) return too_early(action, ActionKind::BackwardInput);
        if (!passage.input_only)
          return report_here("{} after a whole backward {}, which has it in it", to_text(action),
                             to_text(B(action.stage, action.microbatch)));
        return once(passage.weight, action);
    }
  }

  void once(bool& seen, const Action& action) {
    if (seen) report_here("{} stands twice", to_text(action));
    seen = true;
  }

  void too_early(const Action& action, ActionKind needed) {
    report_here("{} before its {}", to_text(action),
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
          report(passage.rank, "{} is missing", to_text(F(stage, microbatch)));
        else if (!passage.gradient)
          report(passage.rank, "{} is missing, or {}", to_text(B(stage, microbatch)),
                 to_text(I(stage, microbatch)));
        else if (passage.input_only && !passage.weight)
          report(passage.rank, "{} is missing", to_text(W(stage, microbatch)));
      }
  }

  const Order& order_;
  int rank_ = 0;  // being looked at
  std::vector<Passage> passages_;
  std::vector<OrderFault> wrong_;
};

}  // namespace

bool has_fused_block(const Order& order) {
  return std::ranges::any_of(order.ranks,
                             [](const RankOrder& rank) { return std::ranges::any_of(rank, &Block::fused); });
}

std::vector<OrderFault> order_faults(const Order& order) {
  return OrderCheck(order).run();
}

std::vector<std::string> check_order(const Order& order) {
  std::vector<std::string> sentences;
  for (OrderFault& fault : order_faults(order)) sentences.push_back(std::move(fault.message));
  return sentences;
}

}  // namespace syncline::pipeline
