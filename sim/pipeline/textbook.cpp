// A pipeline as in a textbook: blocks of fixed time.
#include <fmt/format.h>

#include <map>
#include <span>

#include "sim/pipeline/action_table.hpp"
#include "sim/pipeline/lower.hpp"

namespace syncline::pipeline {
namespace {

class Textbook {
 public:
  Textbook(const Order& order, const Costs& costs, Bytes activation)
      : order_(order), costs_(costs), activation_(activation) {}

  Lowered run(TransferMode transfers, Bytes boundary) {
    Lowering lowering;
    lowering.name = "pipeline";
    lowering.mesh = Mesh("dense", {{"pp", static_cast<int>(order_.ranks.size())}});
    lowering.transfers = transfers;
    lowering.boundary = boundary;
    lowering.costs = costs_;
    lowering.works = works();
    Step one;
    lowering.steps = [this, &one](int, const Block& block) {
      one = step(block);
      return std::span<const Step>(&one, 1);
    };
    return lower(order_, lowering);
  }

 private:
  /// Blocks of the same kind and stages share their work.
  struct Kind {
    ActionKind first, second;
    int first_stage, second_stage;
    bool fused;
    auto operator<=>(const Kind&) const = default;
  };
  static Kind kind_of(const Block& block) {
    return {block.first.kind, block.second.kind, block.first.stage, block.second.stage, block.fused};
  }

  std::vector<Work> works() {
    std::vector<Work> all;
    for (const RankOrder& rank : order_.ranks)
      for (const Block& block : rank) {
        if (!work_of_.try_emplace(kind_of(block), WorkId(all.size())).second) continue;
        Kernel kernel;
        kernel.kind = KernelClass::Fixed;
        kernel.fixed = costs_.of(block);
        all.push_back({name_of_work(block), {kernel}});
      }
    return all;
  }

  static std::string name_of_work(const Block& block) {
    const auto part = [](const Action& action) {
      return fmt::format("{}{}", action.stage, letter_of(action.kind));
    };
    return block.fused ? part(block.first) + ";" + part(block.second) : part(block.first);
  }

  [[nodiscard]] Step step(const Block& block) const {
    Step step;
    step.body = Compute{work_of_.at(kind_of(block))};
    step.tag.phase = block.fused ? Phase::ForwardBackward : phase_of(block.first.kind);
    step.tag.name = fmt::format("stage{}", block.first.stage);
    if (block.fused) step.tag.name += fmt::format(";{}", to_text(block.second));
    if (activation_ > Bytes(0)) hold(block, step);
    return step;
  }

  void hold(const Block& block, Step& step) const {
    for_each_action(block, [&](const Action& action) {
      if (action.kind == ActionKind::Forward)
        step.memory.push_back({MemoryCategory::Activations, activation_});
      if (action.kind == ActionKind::Backward || action.kind == ActionKind::BackwardWeight)
        step.memory.push_back({MemoryCategory::Activations, -activation_});
    });
  }

  static Phase phase_of(ActionKind kind) {
    switch (kind) {
      case ActionKind::Forward: return Phase::Forward;
      case ActionKind::Backward: return Phase::Backward;
      case ActionKind::BackwardInput: return Phase::BackwardInput;
      case ActionKind::BackwardWeight: return Phase::BackwardWeight;
    }
    return Phase::Other;
  }

  const Order& order_;
  const Costs& costs_;
  const Bytes activation_;
  std::map<Kind, WorkId> work_of_;
};

}  // namespace

Lowered lower_textbook(const Order& order, const Costs& costs, TransferMode transfers, Bytes boundary,
                       Bytes activation) {
  return Textbook(order, costs, activation).run(transfers, boundary);
}

}  // namespace syncline::pipeline
