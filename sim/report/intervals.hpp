// Times as intervals: what several cover together, and how much of one the others leave free.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace syncline {

struct Interval {
  double begin, end;  // s
  [[nodiscard]] double length() const { return end - begin; }
};

template <class T>
void sort_by_begin(std::vector<T>& intervals) {
  const auto earlier = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), earlier))
    std::sort(intervals.begin(), intervals.end(), earlier);
}

/// Makes `intervals` disjoint and ascending, covering the same time.
void unite(std::vector<Interval>& intervals);

[[nodiscard]] double total(std::span<const Interval> intervals);

/// Asks, for intervals in ascending order of begin, how much of each lies outside a united cover.
class Outside {
 public:
  explicit Outside(std::span<const Interval> cover) : cover_(cover) {}
  [[nodiscard]] double operator()(const Interval& interval);

 private:
  std::span<const Interval> cover_;
  std::size_t next_ = 0;  // first of the cover that ends after what was asked last
};

}  // namespace syncline
