#include "sim/pipeline/search/block_schedule.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace syncline::pipeline::search {

BlockSchedule::BlockSchedule(const Task& task)
    : task_(task), steps_(3 * task.stages), rows_(task.ranks), slots_(steps_, {1, 0}) {
  for (const Task::Step& step : task.path) seconds_.push_back({step.time, step.hop});
  for (int q = task.stages; q < 2 * task.stages; ++q) seconds_.push_back({task.path[q].weight, 0});
}

bool BlockSchedule::make(const BuildingBlock& block, int most_held) {
  const int p = task_.ranks, m = task_.microbatches;
  microbatches_ = std::max(m, 2 * p);  // with fewer there is no steady phase between the ends
  repeat(block, microbatches_, rows_);
  if (!squeeze() || !reorder_warm_up(rows_, microbatches_) || !squeeze()) return false;
  int held = peak(rows_);
  if (m < microbatches_) {
    keep_first(m, rows_);
    microbatches_ = m;
    if (m <= p && 2 * m <= most_held) hold_weights_back(std::min(2 * p, held), rows_);
    if (!squeeze()) return false;
    held = peak(rows_);
  }
  if (held > most_held || !reorder_cool_down(rows_, m, held) || !squeeze()) return false;
  held = peak(rows_);
  if (held > most_held) return false;
  fill_idle_slots(held);
  name_weights(rows_);
  return true;
}

// Every rank's actions in their order, each as soon as the rank is free and its input there; calls
// visit(rank, slot, start, end). False where something stands before its input.
template <class Time, class Visit>
bool BlockSchedule::run(const Steps<Time>& steps, std::vector<Time>& ends, const Visit& visit) {
  ends.resize(static_cast<std::size_t>(steps_) * microbatches_);
  done_.assign(steps_, 0);
  std::vector<Time> now(rows_.size());
  const int slots = align(rows_), ranks = task_.ranks;
  for (int slot = 0; slot < slots; ++slot) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Slot what = rows_[rank][slot];
      if (what == Slot::Idle) continue;
      const int own = step(what, rank), before = input(own), microbatch = done_[own]++;
      const auto& [time, hop] = steps[own];
      Time start = now[rank];
      if (before >= 0) {
        if (done_[before] <= microbatch) return false;
        start = std::max(start, ends[at(before, microbatch)] + hop);
      }
      now[rank] = ends[at(own, microbatch)] = start + time;
      visit(rank, slot, start, now[rank]);
    }
  }
  return true;
}

// Nothing moves to a later slot; where it would have to, the rows were not sound.
bool BlockSchedule::squeeze() {
  bool sound = true;
  int length = 0;
  const bool runs = run(slots_, slot_ends_, [&](int rank, int slot, int start, int end) {
    sound &= start <= slot;
    length = std::max(length, end);
    std::swap(rows_[rank][std::min(start, slot)], rows_[rank][slot]);
  });
  for (Row& row : rows_) row.resize(length, Slot::Idle);
  return runs && sound;
}

// In the order of time, every idle slot takes the first action behind it that can run there and does not
// make the rank hold more than `most_held`.
void BlockSchedule::fill_idle_slots(int most_held) {
  const int slots = align(rows_);
  done_.assign(steps_, 0);
  slot_ends_.resize(done_.size() * microbatches_);
  std::vector<int> held(rows_.size(), 0);
  for (int slot = 0; slot < slots; ++slot) {
    for (int rank = 0; rank < task_.ranks; ++rank) {
      const Slot& what = rows_[rank][slot];
      if (what == Slot::Idle && !fill(rank, slot, most_held - held[rank])) continue;
      const int own = step(what, rank);
      slot_ends_[at(own, done_[own]++)] = slot + 1;
      held[rank] += held_by(what);
    }
  }
}

bool BlockSchedule::fill(int rank, int slot, int room) {
  const auto has_input = [&](int own) {
    const int before = input(own), microbatch = done_[own];
    return before < 0 || (done_[before] > microbatch && slot_ends_[at(before, microbatch)] <= slot);
  };
  Row& row = rows_[rank];
  int kinds_left = 0;
  for (int what = 0; what < index(Slot::Idle); ++what)
    if (done_[step(static_cast<Slot>(what), rank)] < microbatches_) ++kinds_left;
  SlotCounts seen{};
  int held = 0, most = 0;  // more than now, from here to before the action
  for (int from = slot + 1; kinds_left > 0 && from < std::ssize(row); ++from) {
    const Slot what = row[from];
    if (what == Slot::Idle) continue;
    if (seen[index(what)]++ == 0) {
      --kinds_left;
      if ((!is_forward(what) || most < room) && has_input(step(what, rank))) {
        std::swap(row[slot], row[from]);
        return true;
      }
    }
    most = std::max(most, held += held_by(what));
  }
  return false;
}

std::optional<Score> BlockSchedule::score() {
  Score score;
  std::vector<double> first(rows_.size(), -1);
  const bool runs = run(seconds_, second_ends_, [&](int rank, int, double start, double end) {
    if (first[rank] < 0) first[rank] = start;
    score.makespan = std::max(score.makespan, end);
    score.span = std::max(score.span, end - first[rank]);
  });
  return runs ? std::optional(score) : std::nullopt;
}

Order BlockSchedule::order() const {
  Order order{task_.stages, microbatches_, {}};
  for (int rank = 0; rank < task_.ranks; ++rank) {
    RankOrder& blocks = order.ranks.emplace_back();
    SlotCounts next{};
    for (const Slot what : rows_[rank]) {
      if (what == Slot::Idle) continue;
      const bool chunk1 = what == Slot::F1 || what == Slot::B1 || what == Slot::W1;
      const ActionKind kind = is_forward(what)  ? ActionKind::Forward
                              : is_weight(what) ? ActionKind::BackwardWeight
                                                : ActionKind::BackwardInput;
      blocks.emplace_back(Action{kind, chunk1 ? task_.stages - 1 - rank : rank, next[index(what)]++});
    }
  }
  return order;
}

// F0, B1 and W1 are counted down the V, the others up; so each pass follows the one before.
int BlockSchedule::step(Slot what, int rank) const {
  const bool down = index(what) % 2 == 0;
  return index(what) * task_.ranks + (down ? rank : task_.ranks - 1 - rank);
}

// What a step waits for, with the same microbatch; −1: nothing.
int BlockSchedule::input(int step) const {
  return step < 2 * task_.stages ? step - 1 : step - task_.stages;
}

}  // namespace syncline::pipeline::search
