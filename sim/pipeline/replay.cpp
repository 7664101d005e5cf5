#include "sim/pipeline/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sim/core/error.hpp"
#include "sim/pipeline/action_table.hpp"

namespace syncline::pipeline {
namespace {

/// Runs every rank as far as its inputs allow, until nothing moves. A rank that lacks an input is noted at
/// the block it waits for and goes on when that ends: each block is looked at a constant number of times.
class Player {
 public:
  Player(const Order& order, const Costs& costs) : order_(order), costs_(costs), table_(order), result_() {
    const std::size_t ranks = order.ranks.size();
    next_.resize(ranks);
    waiters_.resize(ranks);
    result_.blocks.resize(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      result_.blocks[rank].resize(order.ranks[rank].size());
      waiters_[rank].resize(order.ranks[rank].size());
    }
  }

  bool run() {
    for (std::size_t rank = 0; rank < order_.ranks.size(); ++rank) awake_.push_back(static_cast<int>(rank));
    while (!awake_.empty()) {
      const int rank = awake_.back();
      awake_.pop_back();
      while (step(rank)) {
      }
    }
    for (std::size_t rank = 0; rank < order_.ranks.size(); ++rank)
      if (next_[rank] < order_.ranks[rank].size()) return false;
    return true;
  }

  Replay take() { return std::move(result_); }

  /// Ranks that wait for each other, of a run that came to a halt.
  [[nodiscard]] std::vector<int> cycle_ranks() const {
    std::vector<int> path;
    int rank = 0;
    while (next_[static_cast<std::size_t>(rank)] == order_.ranks[static_cast<std::size_t>(rank)].size())
      ++rank;
    while (std::ranges::find(path, rank) == path.end()) {
      path.push_back(rank);
      rank = missing_input(rank)->rank;
    }
    path.erase(path.begin(), std::ranges::find(path, rank));
    return path;
  }

  [[nodiscard]] std::string cycle() const {
    std::string text;
    for (const int waiting : cycle_ranks()) {
      const Where input = *missing_input(waiting);
      text += fmt::format("{}rank {} waits in {} for {} of rank {}{}", text.empty() ? "" : "\n", waiting,
                          to_text(block_at(next_at(waiting))), to_text(block_at(input)), input.rank,
                          standing(input));
    }
    return text;
  }

 private:
  [[nodiscard]] const Block& block_at(Where where) const {
    return order_.ranks[static_cast<std::size_t>(where.rank)][static_cast<std::size_t>(where.block)];
  }
  [[nodiscard]] Where next_at(int rank) const {
    return {rank, static_cast<std::int32_t>(next_[static_cast<std::size_t>(rank)])};
  }
  [[nodiscard]] bool done(Where where) const {
    return static_cast<std::size_t>(where.block) < next_[static_cast<std::size_t>(where.rank)];
  }
  [[nodiscard]] std::string standing(Where input) const {
    const Where next = next_at(input.rank);
    return next == input ? "" : fmt::format(", which comes after {}", to_text(block_at(next)));
  }

  template <class Visit>
  void for_each_input(const Block& block, const Visit& visit) const {
    for_each_action(block, [&](const Action& action) { table_.for_each_input(action, visit); });
  }

  [[nodiscard]] std::optional<Where> missing_input(int rank) const {
    std::optional<Where> missing;
    for_each_input(block_at(next_at(rank)), [&](Where input) {
      if (!missing && !done(input)) missing = input;
    });
    return missing;
  }

  /// Runs the next block of a rank if it can.
  bool step(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (next_[r] == order_.ranks[r].size()) return false;
    if (const std::optional<Where> missing = missing_input(rank)) {
      // Two ranks at most wait for one block: that of the next stage, and the block's own.
      waiters_[static_cast<std::size_t>(missing->rank)][static_cast<std::size_t>(missing->block)].push_back(
          rank);
      return false;
    }
    const Block& block = order_.ranks[r][next_[r]];
    Seconds start = next_[r] == 0 ? Seconds(0) : result_.blocks[r][next_[r] - 1].end;
    for_each_input(block, [&](Where input) {
      const Seconds ended =
          result_.blocks[static_cast<std::size_t>(input.rank)][static_cast<std::size_t>(input.block)].end;
      start = std::max(start, input.rank == rank ? ended : ended + costs_.hop);
    });
    result_.blocks[r][next_[r]] = {start, start + costs_.of(block)};
    for (const int waiter : waiters_[r][next_[r]]) awake_.push_back(waiter);
    ++next_[r];
    return true;
  }

  const Order& order_;
  const Costs& costs_;
  const ActionTable table_;
  std::vector<std::size_t> next_;                       // by rank: blocks that have run
  std::vector<std::vector<std::vector<int>>> waiters_;  // by rank and block: ranks that wait for it
  std::vector<int> awake_;
  Replay result_;
};

RankReplay rank_replay(const RankOrder& rank, const std::vector<BlockTimes>& times) {
  RankReplay result;
  if (times.empty()) return result;
  result.first_start = times.front().start;
  result.last_end = times.back().end;
  int held = 0, held_free_at_input = 0;
  for (std::size_t i = 0; i < rank.size(); ++i) {
    result.busy += times[i].end - times[i].start;
    for_each_action(rank[i], [&](const Action& action) {
      switch (action.kind) {
        case ActionKind::Forward:
          result.peak_activations = std::max(result.peak_activations, ++held);
          result.peak_activations_free_at_input =
              std::max(result.peak_activations_free_at_input, ++held_free_at_input);
          break;
        case ActionKind::Backward:
          --held;
          --held_free_at_input;
          break;
        case ActionKind::BackwardInput: --held_free_at_input; break;
        case ActionKind::BackwardWeight: --held; break;
      }
    });
  }
  result.internal_idle = result.last_end - result.first_start - result.busy;
  return result;
}

}  // namespace

Seconds StageTimes::of(ActionKind kind) const {
  switch (kind) {
    case ActionKind::Forward: return forward;
    case ActionKind::Backward: return backward_input + backward_weight;
    case ActionKind::BackwardInput: return backward_input;
    case ActionKind::BackwardWeight: return backward_weight;
  }
  return {};
}

Seconds Costs::of(const Block& block) const {
  const auto time = [this](const Action& action) {
    return stages[static_cast<std::size_t>(action.stage)].of(action.kind);
  };
  if (!block.fused) return time(block.first);
  return fused ? *fused : time(block.first) + time(block.second);
}

Costs uniform_costs(int stages, StageTimes times, Seconds hop) {
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(stages), times);
  costs.hop = hop;
  return costs;
}

Replay replay(const Order& order, const Costs& costs) {
  SYNCLINE_CHECK(costs.stages.size() == static_cast<std::size_t>(order.stages), "times for every stage");
  Player player(order, costs);
  if (!player.run()) throw std::invalid_argument(player.cycle());
  Replay result = player.take();
  Seconds busy;
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    const RankReplay& one = result.ranks.emplace_back(rank_replay(order.ranks[rank], result.blocks[rank]));
    result.makespan = std::max(result.makespan, one.last_end);
    result.max_rank_span = std::max(result.max_rank_span, one.last_end - one.first_start);
    busy += one.busy;
  }
  const double capacity = static_cast<double>(order.ranks.size()) * result.makespan.si();
  result.bubble_fraction = capacity > 0 ? 1 - busy.si() / capacity : 0;
  return result;
}

std::string deadlock(const Order& order) {
  const Costs costs = uniform_costs(order.stages, {});
  Player player(order, costs);
  return player.run() ? "" : player.cycle();
}

std::vector<int> deadlocked_ranks(const Order& order) {
  const Costs costs = uniform_costs(order.stages, {});
  Player player(order, costs);
  return player.run() ? std::vector<int>{} : player.cycle_ranks();
}

}  // namespace syncline::pipeline
