// Pending events by date: a 4-ary min-heap that knows where each item stands, so that a date can be moved.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace syncline {

class EventHeap {
 public:
  static constexpr std::uint32_t Nowhere = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] double first_date() const { return entries_.front().date; }
  [[nodiscard]] std::uint32_t first_item() const { return entries_.front().item; }

  /// Items are small integers; the heap keeps a slot for each up to the largest seen.
  void set(std::uint32_t item, double date) {
    if (item >= where_.size()) where_.resize(item + 1, Nowhere);
    if (where_[item] == Nowhere) {
      where_[item] = static_cast<std::uint32_t>(entries_.size());
      entries_.push_back({date, item});
      sift_up(entries_.size() - 1);
      return;
    }
    const std::size_t at = where_[item];
    const bool earlier = date < entries_[at].date;
    entries_[at].date = date;
    if (earlier)
      sift_up(at);
    else
      sift_down(at);
  }

  void remove(std::uint32_t item) {
    if (item >= where_.size() || where_[item] == Nowhere) return;
    const std::size_t at = where_[item];
    where_[item] = Nowhere;
    const Entry last = entries_.back();
    entries_.pop_back();
    if (at == entries_.size()) return;
    place(at, last);
    sift_up(at);
    sift_down(where_[last.item]);
  }

 private:
  struct Entry {
    double date;
    std::uint32_t item;
  };

  void place(std::size_t at, Entry entry) {
    entries_[at] = entry;
    where_[entry.item] = static_cast<std::uint32_t>(at);
  }

  void sift_up(std::size_t at) {
    const Entry moving = entries_[at];
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (entries_[parent].date <= moving.date) break;
      place(at, entries_[parent]);
      at = parent;
    }
    place(at, moving);
  }

  void sift_down(std::size_t at) {
    const Entry moving = entries_[at];
    for (;;) {
      const std::size_t first = 4 * at + 1;
      if (first >= entries_.size()) break;
      std::size_t least = first;
      for (std::size_t child = first + 1; child < std::min(first + 4, entries_.size()); ++child)
        if (entries_[child].date < entries_[least].date) least = child;
      if (entries_[least].date >= moving.date) break;
      place(at, entries_[least]);
      at = least;
    }
    place(at, moving);
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> where_;  // by item
};

}  // namespace syncline
