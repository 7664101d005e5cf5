// The order of ops in each stream, held against that in another timeline.
#include <algorithm>
#include <string_view>
#include <tuple>

#include "sim/compare/align.hpp"
#include "sim/compare/names.hpp"

namespace syncline::compare {
namespace {

struct Step {
  std::uint32_t rank = 0;
  std::string_view stream;
  double a = 0, b = 0;  // starts, s
  std::uint32_t pair = 0;
  bool moved = false;
  std::size_t place = 0;  // of one that has moved, in the result
  [[nodiscard]] bool same_track(const Step& other) const {
    return rank == other.rank && stream == other.stream;
  }
};

// Marks as moved what is in no longest subsequence that never goes back in B. By patience sorting: ends[n] is the
// earliest way that a subsequence of n + 1 steps can end.
void mark_moved(std::span<Step> steps) {
  const auto earlier = [](const Step& x, const Step& y) { return x.b < y.b; };
  if (std::ranges::is_sorted(steps, earlier)) return;
  std::vector<std::size_t> ends, before(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto end =
        std::ranges::upper_bound(ends, steps[i].b, {}, [&](std::size_t step) { return steps[step].b; });
    before[i] = end == ends.begin() ? steps.size() : *(end - 1);
    if (end == ends.end())
      ends.push_back(i);
    else
      *end = i;
  }
  for (Step& step : steps) step.moved = true;
  for (std::size_t i = ends.back(); i != steps.size(); i = before[i]) steps[i].moved = false;
}

// Of each moved step the one before it that has not moved, as the steps now stand.
void find_predecessors(std::span<const Step> steps, std::uint32_t none, std::uint32_t Moved::*after,
                       std::vector<Moved>& moved) {
  std::uint32_t last = none;
  for (const Step& step : steps) {
    if (step.moved)
      moved[step.place].*after = last;
    else
      last = step.pair;
  }
}

}  // namespace

std::vector<Moved> find_moved(const Timeline& a, const Timeline& b, std::span<const Pair> pairs) {
  std::vector<Step> steps;
  steps.reserve(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Span& span = a.spans[pairs[i].a];
    steps.push_back({span.rank.value(), stream_of(a, a.ops[span.op]), span.start.si(),
                     b.spans[pairs[i].b].start.si(), static_cast<std::uint32_t>(i)});
  }
  std::ranges::sort(steps, {}, [](const Step& step) {
    return std::tuple(step.rank, step.stream, step.a, step.b, step.pair);
  });

  const auto none = static_cast<std::uint32_t>(pairs.size());
  std::vector<Moved> all;
  for (std::span<Step> rest(steps); !rest.empty();) {
    const auto end =
        std::ranges::find_if(rest, [&](const Step& step) { return !step.same_track(rest.front()); });
    const std::span<Step> track = rest.first(static_cast<std::size_t>(end - rest.begin()));
    rest = rest.subspan(track.size());
    mark_moved(track);
    const std::size_t moved_before = all.size();
    for (Step& step : track) {
      if (!step.moved) continue;
      step.place = all.size();
      all.push_back({step.pair, none, none});
    }
    if (all.size() == moved_before) continue;
    find_predecessors(track, none, &Moved::after_in_a, all);
    std::ranges::stable_sort(track, {}, &Step::b);
    find_predecessors(track, none, &Moved::after_in_b, all);
  }
  return all;
}

}  // namespace syncline::compare
