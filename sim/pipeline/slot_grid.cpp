#include "sim/pipeline/slot_grid.hpp"

#include <algorithm>
#include <utility>

namespace syncline::pipeline {
namespace {

std::size_t index(int value) {
  return static_cast<std::size_t>(value);
}
std::size_t index(Slot what) {
  return static_cast<std::size_t>(what);
}

bool is_pass(Slot what) {
  return is_forward(what) || is_gradient(what);
}

/// Where the passes placed so far end, and so how early the next may start.
class Progress {
 public:
  Progress(int ranks, int backward_slots)
      : ranks_(ranks), backward_slots_(backward_slots), gradients_(index(ranks)), weights_(index(ranks)) {
    for (auto& of_pass : ends_) of_pass.resize(index(ranks));
  }

  /// First slot by which the inputs of the next `what` on a rank are there and the one before it is done.
  [[nodiscard]] int ready(int rank, Slot what) const {
    if (is_weight(what)) return weight_ready(rank);
    const auto& own = ends_[index(what)][index(rank)];
    const int after_own = own.empty() ? 0 : own.back();
    const bool goes_down = what == Slot::F0 || what == Slot::B1;
    const int from = goes_down ? rank - 1 : rank + 1;
    const bool turns = from < 0 || from == ranks_;  // the pass before ended on this rank
    if (turns && what == Slot::F0) return after_own;
    const auto& input = turns ? ends_[index(what) - 1][index(rank)] : ends_[index(what)][index(from)];
    return std::max(after_own, input[own.size()]);
  }

  void place(int rank, Slot what, int slot) {
    if (is_weight(what)) return weights_[index(rank)].push_back(slot + 1);
    const int end = slot + (is_gradient(what) ? backward_slots_ : 1);
    ends_[index(what)][index(rank)].push_back(end);
    if (is_gradient(what)) add_gradient(gradients_[index(rank)], end);
  }

 private:
  /// Mostly at the end, as passes are placed in the order of time.
  static void add_gradient(std::vector<int>& ends, int end) {
    ends.push_back(end);
    for (std::size_t k = ends.size() - 1; k > 0 && ends[k - 1] > ends[k]; --k)
      std::swap(ends[k - 1], ends[k]);
  }

  /// The n-th weight gradient of a rank needs n gradients, of either chunk.
  [[nodiscard]] int weight_ready(int rank) const {
    const auto& done = weights_[index(rank)];
    return std::max(gradients_[index(rank)][done.size()], done.empty() ? 0 : done.back());
  }

  int ranks_, backward_slots_;
  std::array<std::vector<std::vector<int>>, 4> ends_;  // by pass, rank, microbatch
  std::vector<std::vector<int>> gradients_;            // by rank: ends of B1 and B0, in the order of time
  std::vector<std::vector<int>> weights_;
};

/// The ends of a grid and what lies between them, in the order of time.
class Phase {
 public:
  enum Name : std::uint8_t { WarmUp, Steady, CoolDown };
  Phase(int ranks, int microbatches) : microbatches_(microbatches), forwards_(index(ranks)) {}

  /// The phase in which the next pass of a rank stands. The two passes that part the phases belong to the
  /// steady one.
  Name of(int rank, Slot what) {
    if (now_ == WarmUp && rank == 0 && what == Slot::B0) now_ = Steady;
    const bool last_forward = what == Slot::F0 && ++forwards_[index(rank)] == microbatches_;
    if (now_ != Steady || !last_forward) return now_;
    now_ = CoolDown;
    return Steady;
  }

 private:
  int microbatches_;
  std::vector<int> forwards_;  // F0 by rank
  Name now_ = WarmUp;
};

/// Walks through the grid in the order of time and moves what stands in a phase that `moves(phase)` to where
/// `choose(rank, slot, earliest)` says: a free place between earliest and slot.
template <class Moves, class Choose>
void squeeze(SlotGrid& grid, Backward backward, Moves moves, Choose choose) {
  const int backward_slots = backward == Backward::Whole ? 2 : 1;
  Progress progress(grid.ranks(), backward_slots);
  Phase phase(grid.ranks(), grid.microbatches());
  const int length = grid.length();
  for (int slot = 0; slot < length; ++slot) {
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      const Slot what = grid.at(rank, slot);
      if (what == Slot::Idle || (backward == Backward::Whole && is_weight(what))) continue;
      const bool movable = moves(phase.of(rank, what));
      const int to = movable ? choose(rank, slot, progress.ready(rank, what)) : slot;
      if (to != slot) {
        const bool whole = backward == Backward::Whole && is_gradient(what);
        grid.put(rank, slot, Slot::Idle);
        grid.put(rank, to, what);
        if (whole) grid.put(rank, slot + 1, Slot::Idle);
        if (whole) grid.put(rank, to + 1, weight_of(what));
      }
      progress.place(rank, what, to);
    }
  }
}

/// Activations that a rank holds after each slot: more from an F on, fewer from a W on.
std::vector<int> held_after(const std::vector<Slot>& row) {
  std::vector<int> held;
  int now = 0;
  held.reserve(row.size());
  for (const Slot what : row) held.push_back(now += is_forward(what) ? 1 : is_weight(what) ? -1 : 0);
  return held;
}

int first_free(const std::vector<Slot>& row, int from, int before, int width) {
  for (int slot = from; slot + width <= before; ++slot)
    if (std::all_of(row.begin() + slot, row.begin() + slot + width, [](Slot s) { return s == Slot::Idle; }))
      return slot;
  return before;
}

/// A rank whose weight gradients run in the first idle slots: what it holds and has waiting before each slot.
class GreedyWeights {
 public:
  explicit GreedyWeights(const std::vector<Slot>& row) : before_(row.size() + 1) { settle(row, 0); }

  /// The most held from a slot on, if the row were as given from there.
  [[nodiscard]] int peak(const std::vector<Slot>& row, int from) const {
    State state = before_[index(from)];
    int most = 0;
    for (std::size_t slot = index(from); slot < row.size(); ++slot) {
      state.step(row[slot]);
      most = std::max(most, state.held);
    }
    return most;
  }
  void settle(const std::vector<Slot>& row, int from) {
    for (std::size_t slot = index(from); slot < row.size(); ++slot) {
      before_[slot + 1] = before_[slot];
      before_[slot + 1].step(row[slot]);
    }
  }

 private:
  struct State {
    int held = 0, waiting = 0;
    void step(Slot what) {
      if (is_forward(what)) ++held;
      if (is_gradient(what)) ++waiting;
      if (what == Slot::Idle && waiting > 0) --waiting, --held;
    }
  };
  std::vector<State> before_;
};

}  // namespace

int SlotGrid::length() const {
  std::size_t longest = 0;
  for (const auto& row : rows_) longest = std::max(longest, row.size());
  return static_cast<int>(longest);
}

Slot SlotGrid::at(int rank, int slot) const {
  const auto& cells = row(rank);
  return index(slot) < cells.size() ? cells[index(slot)] : Slot::Idle;
}

void SlotGrid::put(int rank, int slot, Slot what) {
  auto& cells = row(rank);
  if (cells.size() <= index(slot)) cells.resize(index(slot) + 1, Slot::Idle);
  cells[index(slot)] = what;
}

SlotGrid repeated(const BuildingBlock& block, int microbatches, Backward backward) {
  SlotGrid grid(static_cast<int>(block.size()), microbatches);
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    for (const Slot pass : {Slot::F0, Slot::F1, Slot::B1, Slot::B0}) {
      for (int k = 0; k < microbatches; ++k) {
        const int slot = block[index(rank)][index(pass)] + k * BlockPeriod;
        grid.put(rank, slot, pass);
        if (backward == Backward::Whole && is_gradient(pass)) grid.put(rank, slot + 1, weight_of(pass));
      }
    }
  }
  return grid;
}

SlotGrid squeezed(SlotGrid grid, Backward backward) {
  std::vector<std::vector<int>> held;
  int most = 0;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    held.push_back(held_after(grid.row(rank)));
    most = std::max(most, *std::ranges::max_element(held.back()));
  }
  const auto moves = [&](Phase::Name phase) { return backward == Backward::Whole || phase != Phase::Steady; };
  squeeze(grid, backward, moves, [&](int rank, int slot, int earliest) {
    const auto& row = grid.row(rank);
    auto& own = held[index(rank)];
    const Slot what = row[index(slot)];
    if (is_forward(what)) {
      int from = slot;
      while (from > earliest && own[index(from) - 1] < most) --from;
      const int to = first_free(row, from, slot, 1);
      for (int between = to; between < slot; ++between) ++own[index(between)];
      return to;
    }
    const bool whole = backward == Backward::Whole;
    const int to = first_free(row, earliest, slot, whole ? 2 : 1);
    const int freed = whole ? 1 : 0;  // slots from the move's start to its W
    if (whole || is_weight(what))
      for (int between = to + freed; between < slot + freed; ++between) --own[index(between)];
    return to;
  });
  return grid;
}

SlotGrid cool_down_squeezed(SlotGrid grid) {
  std::vector<GreedyWeights> weights;
  int most = 0;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    weights.emplace_back(grid.row(rank));
    most = std::max(most, weights.back().peak(grid.row(rank), 0));
  }
  const auto moves = [](Phase::Name phase) { return phase == Phase::CoolDown; };
  squeeze(grid, Backward::Split, moves, [&](int rank, int slot, int earliest) {
    auto& row = grid.row(rank);
    GreedyWeights& own = weights[index(rank)];
    for (int to = first_free(row, earliest, slot, 1); to < slot; to = first_free(row, to + 1, slot, 1)) {
      std::swap(row[index(to)], row[index(slot)]);  // try it
      const bool fits = own.peak(row, to) <= most;
      if (fits) own.settle(row, to);
      std::swap(row[index(to)], row[index(slot)]);
      if (fits) return to;
    }
    return slot;
  });
  return grid;
}

SlotGrid with_weights(SlotGrid grid) {
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    auto& row = grid.row(rank);
    while (row.back() == Slot::Idle) row.pop_back();
    int waiting1 = 0, waiting0 = 0;
    for (Slot& what : row) {
      if (what == Slot::B1) ++waiting1;
      if (what == Slot::B0) ++waiting0;
      if (what != Slot::Idle) continue;
      if (waiting1 > 0)
        --waiting1, what = Slot::W1;
      else if (waiting0 > 0)
        --waiting0, what = Slot::W0;
    }
    row.insert(row.end(), index(waiting1), Slot::W1);
    row.insert(row.end(), index(waiting0), Slot::W0);
  }
  return grid;
}

SlotGrid without_weights(SlotGrid grid) {
  for (int rank = 0; rank < grid.ranks(); ++rank)
    std::ranges::replace_if(grid.row(rank), is_weight, Slot::Idle);
  return grid;
}

SlotGrid packed(const SlotGrid& grid) {
  SlotGrid early(grid.ranks(), grid.microbatches());
  Progress progress(grid.ranks(), 1);
  const int length = grid.length();
  for (int slot = 0; slot < length; ++slot) {
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      const Slot what = grid.at(rank, slot);
      if (what == Slot::Idle) continue;
      const int after_last = static_cast<int>(early.row(rank).size());
      const int start = is_pass(what) ? std::max(after_last, progress.ready(rank, what)) : after_last;
      early.put(rank, start, what);
      progress.place(rank, what, start);
    }
  }
  return early;
}

Order order_of(const SlotGrid& grid, Backward backward) {
  Order order{2 * grid.ranks(), grid.microbatches(), {}};
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    RankOrder& blocks = order.ranks.emplace_back();
    blocks.reserve(6 * index(grid.microbatches()));
    std::array<int, 6> next{};
    for (const Slot what : grid.row(rank)) {
      if (what == Slot::Idle || (backward == Backward::Whole && is_weight(what))) continue;
      const bool chunk1 = what == Slot::F1 || what == Slot::B1 || what == Slot::W1;
      const ActionKind kind = is_forward(what)              ? ActionKind::Forward
                              : is_weight(what)             ? ActionKind::BackwardWeight
                              : backward == Backward::Whole ? ActionKind::Backward
                                                            : ActionKind::BackwardInput;
      blocks.emplace_back(Action{kind, chunk1 ? 2 * grid.ranks() - 1 - rank : rank, next[index(what)]++});
    }
  }
  return order;
}

}  // namespace syncline::pipeline
