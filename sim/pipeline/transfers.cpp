#include "sim/pipeline/transfers.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace syncline::pipeline {
namespace {

std::vector<Transfer> find_transfers(const Order& order) {
  const ActionTable table(order);
  std::vector<Transfer> all;
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < order.ranks[rank].size(); ++i) {
      const Where from{static_cast<std::int32_t>(rank), static_cast<std::int32_t>(i)};
      for_each_action(order.ranks[rank][i], [&](const Action& action) {
        if (action.kind == ActionKind::BackwardWeight) return;
        const bool gradient = action.kind != ActionKind::Forward;
        const int next = action.stage + (gradient ? -1 : 1);
        if (next < 0 || next >= order.stages) return;
        const Where to =
            gradient ? table.gradient(next, action.microbatch) : table.forward(next, action.microbatch);
        if (to.rank != from.rank) all.push_back({from, to, gradient, action.stage, action.microbatch});
      });
    }
  }
  return all;
}

/// Messages of one boundary and direction share a number where both ends take the microbatches in the same
/// order, and are numbered one by one where they do not.
void number_messages(const Order& order, std::vector<Transfer>& all) {
  struct Boundary {
    std::vector<const Transfer*> sent;
    bool in_order = true;
  };
  std::map<std::pair<int, bool>, Boundary> boundaries;
  for (const Transfer& transfer : all)
    boundaries[{transfer.stage, transfer.gradient}].sent.push_back(&transfer);
  for (auto& [key, boundary] : boundaries) {
    std::map<std::pair<int, int>, std::int32_t>
        used;  // by sender and receiver: the last block that needs one
    for (const Transfer* one : boundary.sent) {
      auto [last, first_time] = used.try_emplace({one->from.rank, one->to.rank}, one->to.block);
      if (!first_time && one->to.block <= last->second) boundary.in_order = false;
      last->second = one->to.block;
    }
  }
  for (Transfer& transfer : all) {
    const int shared = 2 * transfer.stage + (transfer.gradient ? 1 : 0);
    const bool in_order = boundaries.at({transfer.stage, transfer.gradient}).in_order;
    transfer.message =
        in_order ? shared : 2 * order.stages + shared * order.microbatches + transfer.microbatch;
  }
}

/// One block ahead of its use; not after a receive of the same sender that was sent later.
void post_ahead(std::vector<Transfer>& all) {
  std::map<std::pair<int, int>, std::int32_t> earliest;  // by sender and receiver
  for (auto transfer = all.rbegin(); transfer != all.rend(); ++transfer) {
    std::int32_t& bound =
        earliest
            .try_emplace({transfer->from.rank, transfer->to.rank}, std::numeric_limits<std::int32_t>::max())
            .first->second;
    transfer->posted = bound = std::min(bound, std::max(transfer->to.block - 1, 0));
  }
}

/// Before the first block that starts when the sender has ended, or later. Of any two blocks one of which
/// then waits for the other, the one waited for starts earlier in this replay: so there is no cycle.
void post_when_sent(const Order& order, const Costs& costs, std::vector<Transfer>& all) {
  const Replay reference = replay(order, costs);
  const auto of_rank = [&](Where where) -> const std::vector<BlockTimes>& {
    return reference.blocks[static_cast<std::size_t>(where.rank)];
  };
  for (Transfer& transfer : all) {
    const Seconds sent = of_rank(transfer.from)[static_cast<std::size_t>(transfer.from.block)].end;
    const std::vector<BlockTimes>& receiver = of_rank(transfer.to);
    const auto first = std::ranges::lower_bound(receiver, sent, {}, &BlockTimes::start);
    transfer.posted = static_cast<std::int32_t>(first - receiver.begin());
  }
}

/// No block of the reference takes no time, or it would not tell what comes first.
Costs with_times_above_zero(Costs costs) {
  Seconds largest(0);
  for (const StageTimes& stage : costs.stages) largest = std::max(largest, stage.total());
  const Seconds least = largest > Seconds(0) ? largest * 1e-6 : Seconds(1);
  for (StageTimes& stage : costs.stages)
    for (Seconds* time : {&stage.forward, &stage.backward_input, &stage.backward_weight})
      *time = std::max(*time, least);
  if (costs.fused) costs.fused = std::max(*costs.fused, least);
  costs.hop = Seconds(0);
  return costs;
}

}  // namespace

std::vector<Transfer> transfers_of(const Order& order, TransferMode mode, const Costs& costs) {
  std::vector<Transfer> all = find_transfers(order);
  number_messages(order, all);
  switch (mode) {
    case TransferMode::Eager:
      for (Transfer& transfer : all) transfer.posted = transfer.to.block;
      break;
    case TransferMode::Overlapped:
      post_ahead(all);
      break;
    case TransferMode::Blocking:
      post_when_sent(order, with_times_above_zero(costs), all);
      break;
  }
  return all;
}

}  // namespace syncline::pipeline
