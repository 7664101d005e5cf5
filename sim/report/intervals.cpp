#include "sim/report/intervals.hpp"

namespace syncline {

void unite(std::vector<Interval>& intervals) {
  sort_by_begin(intervals);
  std::size_t kept = 0;
  for (const Interval& next : intervals) {
    if (kept > 0 && next.begin <= intervals[kept - 1].end)
      intervals[kept - 1].end = std::max(intervals[kept - 1].end, next.end);
    else
      intervals[kept++] = next;
  }
  intervals.resize(kept);
}

double total(std::span<const Interval> intervals) {
  double sum = 0;
  for (const Interval& interval : intervals) sum += interval.length();
  return sum;
}

double Outside::operator()(const Interval& interval) {
  while (next_ < cover_.size() && cover_[next_].end <= interval.begin) ++next_;
  double outside = 0, from = interval.begin;
  for (std::size_t i = next_; i < cover_.size() && cover_[i].begin < interval.end; ++i) {
    outside += std::max(0.0, cover_[i].begin - from);
    from = cover_[i].end;
  }
  return outside + std::max(0.0, interval.end - from);
}

}  // namespace syncline
