#include "sim/pipeline/search/block_rows.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace syncline::pipeline::search {
namespace {

int peak_of(const Row& row) {
  int held = 0, most = 0;
  for (const Slot what : row) most = std::max(most, held += held_by(what));
  return most;
}

void take(Slot& slot, SlotCounts& taken) {
  ++taken[index(std::exchange(slot, Slot::Idle))];
}

/// Fills a row from a slot on, as long as there is something left to put.
class Filler {
 public:
  Filler(Row& row, int slot, const SlotCounts& left) : row_(row), slot_(slot), left_(left) {}

  /// One of `what` in the next slot, and one less of the quota, unless either is used up; then it stays idle.
  void put_next(Slot what, int& quota) {
    if (quota > 0 && left(what)) {
      --quota, --left_[index(what)];
      free_ &= put(row_, slot_, what);
    }
    ++slot_;
  }
  void put_next(Slot what) {
    int all = std::numeric_limits<int>::max();
    put_next(what, all);
  }
  [[nodiscard]] bool left(Slot what) const { return left_[index(what)] > 0; }
  [[nodiscard]] bool free() const { return free_; }

 private:
  Row& row_;
  int slot_;
  SlotCounts left_;
  bool free_ = true;
};

/// Takes the last gradients out of a row, up to as many of each chunk as given; and the last weight
/// gradients, until there are as many of each and `weights` in all.
SlotCounts take_ends(Row& row, int most_b1, int most_b0, int weights) {
  SlotCounts taken{};
  for (auto at = row.rbegin(); at != row.rend(); ++at)
    if (is_gradient(*at) && taken[index(*at)] < (*at == Slot::B1 ? most_b1 : most_b0)) take(*at, taken);
  const auto enough = [&] {
    const int w1 = taken[index(Slot::W1)], w0 = taken[index(Slot::W0)];
    return w1 >= taken[index(Slot::B1)] && w0 >= taken[index(Slot::B0)] && w1 + w0 >= weights;
  };
  for (auto at = row.rbegin(); at != row.rend() && !enough(); ++at)
    if (is_weight(*at)) take(*at, taken);
  return taken;
}

/// Weight gradients in the idle slots after the last one that stands, and behind the row; chunk 1 first.
void append_weights(Row& row) {
  const auto from = row.rend() - std::find_if(row.rbegin(), row.rend(), is_weight);
  SlotCounts waiting{};
  const auto next = [&] { return waiting[index(Slot::W1)] > 0 ? Slot::W1 : Slot::W0; };
  for (auto at = row.begin(); at != row.end(); ++at) {
    if (is_gradient(*at)) ++waiting[index(weight_of(*at))];
    if (*at == Slot::Idle && at - row.begin() >= from && waiting[index(next())] > 0) *at = next();
    if (is_weight(*at)) --waiting[index(*at)];
  }
  for (const Slot weight : {Slot::W1, Slot::W0})
    row.insert(row.end(), std::max(0, waiting[index(weight)]), weight);
}

}  // namespace

int peak(const Rows& rows) {
  int most = 0;
  for (const Row& row : rows) most = std::max(most, peak_of(row));
  return most;
}

int align(Rows& rows) {
  std::size_t longest = 0;
  for (const Row& row : rows) longest = std::max(longest, row.size());
  for (Row& row : rows) row.resize(longest, Slot::Idle);
  return static_cast<int>(longest);
}

bool put(Row& row, int slot, Slot what) {
  if (slot < 0) return false;
  if (std::ssize(row) <= slot) row.resize(slot + 1, Slot::Idle);
  return std::exchange(row[slot], what) == Slot::Idle;
}

std::array<int, 6> first_slots(const std::array<int, 4>& passes) {
  std::array<int, 6> first{};
  std::array<bool, BlockPeriod> taken{};
  for (int what = 0; what < 6; ++what) {
    int& slot = first[what] = what < 4 ? passes[what] : passes[what - 2];  // W1 after B1, W0 after B0
    while (what >= 4 && taken[slot % BlockPeriod]) ++slot;
    taken[slot % BlockPeriod] = true;
  }
  return first;
}

void repeat(const BuildingBlock& block, int microbatches, Rows& rows) {
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const std::array<int, 6> first = first_slots(block[rank]);
    rows[rank].assign(*std::ranges::max_element(first) + microbatches * BlockPeriod, Slot::Idle);
    for (int what = 0; what < 6; ++what)
      for (int i = 0; i < microbatches; ++i)
        rows[rank][first[what] + i * BlockPeriod] = static_cast<Slot>(what);
  }
}

bool reorder_warm_up(Rows& rows, int microbatches) {
  const int p = static_cast<int>(rows.size()), most = std::min(peak(rows), 2 * p);
  bool free = true;
  for (int rank = 0; rank < p; ++rank) {
    Row& row = rows[rank];
    SlotCounts taken{};
    for (auto at = row.begin(); at != row.end() && *at != Slot::B0; ++at) take(*at, taken);
    int up = std::min({rank + 1, most / 2, microbatches});
    int down = std::min(most - up, microbatches);
    Filler filler(row, rank, taken);
    for (int i = 0; i < 2 * (p - 1 - rank); ++i) filler.put_next(Slot::F0, down);
    for (int i = 0; i <= rank; ++i) filler.put_next(Slot::F0, down), filler.put_next(Slot::F1, up);
    const auto any_left = [&] {
      return std::ranges::any_of(std::array{Slot::F0, Slot::F1, Slot::B1, Slot::W1},
                                 [&](Slot what) { return filler.left(what); });
    };
    while (any_left()) {
      filler.put_next(Slot::B1);
      filler.put_next(Slot::W1);
      filler.put_next(filler.left(Slot::F1) ? Slot::F1 : Slot::F0);
    }
    free &= filler.free();
  }
  return free;
}

void keep_first(int microbatches, Rows& rows) {
  for (Row& row : rows) {
    SlotCounts kept{};
    for (Slot& what : row)
      if (kept[index(what)]++ >= microbatches) what = Slot::Idle;
  }
}

void hold_weights_back(int most, Rows& rows) {
  for (Row& row : rows) {
    Row held_back;
    const int own = peak_of(row);
    for (auto at = row.begin(); at != row.end() && own + std::ssize(held_back) < most; ++at)
      if (is_weight(*at)) held_back.push_back(std::exchange(*at, Slot::Idle));
    row.insert(row.end(), held_back.begin(), held_back.end());
  }
}

bool reorder_cool_down(Rows& rows, int microbatches, int held) {
  const int p = static_cast<int>(rows.size());
  const int ups = std::min((held + 1) / 2, microbatches), downs = std::min(held - ups, microbatches);
  const Row& first = rows.front();
  const int turn = static_cast<int>(first.rend() - std::find(first.rbegin(), first.rend(), Slot::F1)) - 1;
  bool free = true;
  for (int rank = 0; rank < p; ++rank) {
    Row& row = rows[rank];
    const SlotCounts taken = take_ends(row, std::min(rank + 1, downs), ups, held);
    for (int k = 0; k < taken[index(Slot::B0)]; ++k) free &= put(row, turn - rank + 2 * (p - k), Slot::B0);
    for (int k = 0; k < taken[index(Slot::B1)]; ++k) free &= put(row, turn + 1 + rank - 2 * k, Slot::B1);
    append_weights(row);
  }
  return free;
}

void name_weights(Rows& rows) {
  for (Row& row : rows) {
    Row gradients;
    std::ranges::copy_if(row, std::back_inserter(gradients), is_gradient);
    auto next = gradients.begin();
    for (Slot& what : row)
      if (is_weight(what)) what = weight_of(*next++);
  }
}

}  // namespace syncline::pipeline::search
