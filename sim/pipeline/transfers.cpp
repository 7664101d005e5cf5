#include "sim/pipeline/transfers.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "sim/core/error.hpp"

namespace syncline::pipeline {
namespace {

using AllTimes = std::vector<std::vector<BlockTimes>>;  // by rank and block

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

/// By transfer: the first block of the receiver that needs it or one that the same sender sends it later.
std::vector<std::int32_t> latest_uses(const std::vector<Transfer>& all) {
  std::vector<std::int32_t> uses(all.size());
  std::map<std::pair<int, int>, std::int32_t> first;  // by sender and receiver
  for (std::size_t i = all.size(); i-- > 0;) {
    std::int32_t& use = first.try_emplace({all[i].from.rank, all[i].to.rank}, all[i].to.block).first->second;
    uses[i] = use = std::min(use, all[i].to.block);
  }
  return uses;
}

/// One block ahead of its use; not after a receive of the same sender that was sent later.
void post_ahead(std::vector<Transfer>& all) {
  const std::vector<std::int32_t> uses = latest_uses(all);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].posted = std::max(uses[i] - 1, 0);
}

/// Where two ranks meet for a transfer when compute stands still meanwhile: between blocks `sent` and `sent`
/// + 1 of the sender, and `posted` − 1 and `posted` of the receiver. Both then wait for whoever comes later;
/// so the meeting is placed where, in a replay with free transfers, they come at about the same time
/// (Megatron-LM's interleaved schedule exchanges after a forward and a backward, not after each, for this
/// reason).
///
/// No placement deadlocks: of two blocks one of which then waits for the other, the one waited for starts
/// earlier in the replay.
class Meetings {
 public:
  explicit Meetings(const AllTimes& times) : times_(times) {}

  /// @param latest  block of the receiver before which this one must have come, and those that follow it from
  /// the same
  ///                sender
  void place(Transfer& transfer, std::int32_t latest) {
    const auto& sender = blocks(transfer.from.rank);
    const auto& receiver = blocks(transfer.to.rank);
    Meeting& last = last_[{transfer.from.rank, transfer.to.rank}];  // messages are not overtaken
    const std::int32_t first_sent = std::max(transfer.from.block, last.sent);
    Meeting best{-1, -1};
    double least = std::numeric_limits<double>::infinity();
    for (std::int32_t sent = first_sent; sent < first_sent + MostDelay && sent < size(sender); ++sent) {
      if (at(sender, sent).start >= at(receiver, latest).start) break;
      const auto [from, to] = possible(sender, sent, receiver, last.posted, latest);
      for (std::int32_t posted = from; posted <= to; ++posted) {
        const double lost = waiting(sender, sent, receiver, posted);
        if (lost >= least - Rounding * least) continue;
        least = lost;
        best = {sent, posted};
      }
    }
    SYNCLINE_CHECK(best.sent >= 0, "a place where sender and receiver can meet");
    last = best;
    transfer.sent = best.sent;
    transfer.posted = best.posted;
  }

 private:
  /// Blocks for which a send may be held back: a forward and a backward, with one more of either between.
  static constexpr std::int32_t MostDelay = 4;
  static constexpr double Rounding = 1e-9;
  using Times = std::vector<BlockTimes>;
  struct Meeting {
    std::int32_t sent = 0, posted = 0;
  };

  [[nodiscard]] const Times& blocks(std::int32_t rank) const {
    return times_[static_cast<std::size_t>(rank)];
  }
  static const BlockTimes& at(const Times& times, std::int32_t block) {
    return times[static_cast<std::size_t>(block)];
  }
  static std::int32_t size(const Times& times) { return static_cast<std::int32_t>(times.size()); }
  static Seconds start(const Times& times, std::int32_t block) {
    return block < size(times) ? at(times, block).start : Seconds(std::numeric_limits<double>::infinity());
  }

  /// Blocks of the receiver before which it can meet: those that start after block `sent` of the sender did,
  /// and whose predecessor starts before the sender's next.
  static std::pair<std::int32_t, std::int32_t> possible(const Times& sender, std::int32_t sent,
                                                        const Times& receiver, std::int32_t least,
                                                        std::int32_t most) {
    const auto first_from = [&receiver](Seconds time, bool at_it) {
      const auto found = at_it ? std::ranges::lower_bound(receiver, time, {}, &BlockTimes::start)
                               : std::ranges::upper_bound(receiver, time, {}, &BlockTimes::start);
      return static_cast<std::int32_t>(found - receiver.begin());
    };
    return {std::max(least, first_from(at(sender, sent).start, false)),
            std::min(most, first_from(start(sender, sent + 1), true))};
  }

  /// By how much the one that comes first is held up.
  static double waiting(const Times& sender, std::int32_t sent, const Times& receiver, std::int32_t posted) {
    const Seconds receiver_free = posted > 0 ? at(receiver, posted - 1).end : Seconds(0);
    const Seconds sender_late = at(sender, sent).end - at(receiver, posted).start;
    const Seconds receiver_late = receiver_free - start(sender, sent + 1);
    return std::max({0.0, sender_late.si(), receiver_late.si()});
  }

  const AllTimes& times_;
  std::map<std::pair<int, int>, Meeting> last_;  // by sender and receiver
};

/// When blocks run if ranks meet so.
/// @param times  at which of any two blocks that wait for each other the one waited for starts earlier
AllTimes run_with_meetings(const Order& order, const Costs& costs, const std::vector<Transfer>& all,
                           const AllTimes& times) {
  std::vector<Where> by_start;
  std::vector<std::vector<std::vector<Where>>> awaited(times.size());  // by rank and block: blocks of others
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    awaited[rank].resize(times[rank].size() + 1);
    for (std::size_t i = 0; i < times[rank].size(); ++i)
      by_start.push_back({static_cast<std::int32_t>(rank), static_cast<std::int32_t>(i)});
  }
  const auto at = [](auto& lists, Where where) -> auto& {
    return lists[static_cast<std::size_t>(where.rank)][static_cast<std::size_t>(where.block)];
  };
  std::ranges::stable_sort(by_start, {}, [&](Where where) { return at(times, where).start; });
  for (const Transfer& transfer : all) {
    const std::int32_t sender = transfer.from.rank, receiver = transfer.to.rank;
    at(awaited, {receiver, transfer.posted}).push_back({sender, transfer.sent});
    if (transfer.posted > 0)
      at(awaited, {sender, transfer.sent + 1}).push_back({receiver, transfer.posted - 1});
  }
  AllTimes result = times;
  for (const Where where : by_start) {
    Seconds start = where.block == 0 ? Seconds(0) : at(result, {where.rank, where.block - 1}).end;
    for (const Where other : at(awaited, where)) start = std::max(start, at(result, other).end);
    at(result, where) = {start, start + costs.of(at(order.ranks, where))};
  }
  return result;
}

Seconds makespan(const AllTimes& times) {
  Seconds end;
  for (const auto& rank : times)
    if (!rank.empty()) end = std::max(end, rank.back().end);
  return end;
}

/// Meeting shifts the ranks against each other, after which they may meet better: a few rounds, the best is
/// kept.
void place_meetings(const Order& order, const Costs& costs, std::vector<Transfer>& all) {
  constexpr int Rounds = 8;  // published schedules settle after two to four
  AllTimes times = replay(order, costs).blocks;
  const std::vector<std::int32_t> latest = latest_uses(all);
  std::vector<Transfer> best;
  Seconds shortest(std::numeric_limits<double>::infinity());
  for (int round = 0; round < Rounds; ++round) {
    Meetings meetings(times);
    for (std::size_t i = 0; i < all.size(); ++i) meetings.place(all[i], latest[i]);
    times = run_with_meetings(order, costs, all, times);
    if (makespan(times) >= shortest) break;
    shortest = makespan(times);
    best = all;
  }
  all = std::move(best);
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
  for (Transfer& transfer : all) transfer.sent = transfer.from.block;
  switch (mode) {
    case TransferMode::Eager:
      for (Transfer& transfer : all) transfer.posted = transfer.to.block;
      break;
    case TransferMode::Overlapped: post_ahead(all); break;
    case TransferMode::Blocking: place_meetings(order, with_times_above_zero(costs), all); break;
  }
  return all;
}

}  // namespace syncline::pipeline
