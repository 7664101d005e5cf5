#include "sim/compare/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "sim/compare/names.hpp"
#include "sim/report/metrics.hpp"

namespace syncline::compare {
namespace {

constexpr Seconds MostFloor(10e-6);
constexpr double FloorOfStep = 1e-4;
constexpr Seconds LeastFloor(1e-15);  // times are never divided by 0

// Pairs by a name, in order of first appearance.
class Grouping {
 public:
  void add(std::string_view name, std::uint32_t pair) {
    const auto [place, is_new] = places_.try_emplace(name, names_.size());
    if (is_new) {
      names_.push_back(name);
      members_.emplace_back();
    }
    members_[place->second].push_back(pair);
  }
  [[nodiscard]] std::size_t size() const { return names_.size(); }
  [[nodiscard]] std::string_view name(std::size_t group) const { return names_[group]; }
  [[nodiscard]] const std::vector<std::uint32_t>& members(std::size_t group) const { return members_[group]; }

 private:
  std::map<std::string_view, std::size_t> places_;
  std::vector<std::string_view> names_;
  std::vector<std::vector<std::uint32_t>> members_;
};

Group group_of(std::string name, const std::vector<std::uint32_t>& members, const Comparison& comparison) {
  Group group;
  group.name = std::move(name);
  group.ops = members.size();
  Seconds apart;
  std::vector<double> errors;
  for (const std::uint32_t pair : members) {
    const OpTimes& op = comparison.ops[pair];
    group.work_a += op.work_a;
    group.work_b += op.work_b;
    group.waiting_a += op.waiting_a;
    group.waiting_b += op.waiting_b;
    apart += Seconds(std::abs((op.work_a - op.work_b).si()));
    if (!op.error) continue;
    errors.push_back(std::abs(*op.error));
    if (group.worst && errors.back() <= group.max_absolute) continue;
    group.worst = pair;
    group.max_absolute = errors.back();
  }
  group.counted = errors.size();
  group.error = error_of(group.work_a, group.work_b, comparison.floor);
  if (group.work_b.si() > 0) group.mean_absolute = apart / group.work_b;
  if (errors.empty()) return group;
  std::ranges::sort(errors);
  const std::size_t count = errors.size();  // of ranks: the least that so many are not above
  group.median_absolute = (errors[(count - 1) / 2] + errors[count / 2]) / 2;
  group.p90_absolute = errors[(count * 9 + 9) / 10 - 1];
  return group;
}

OpTimes times_of(const Comparison& comparison, std::uint32_t pair, const std::vector<Seconds>& exposed_a,
                 const std::vector<Seconds>& exposed_b) {
  const Span &a = comparison.span_a(pair), &b = comparison.span_b(pair);
  const TimelineOp &op_a = comparison.a.timeline.ops[a.op], &op_b = comparison.b.timeline.ops[b.op];
  OpTimes times;
  times.work_a = work_of(op_a, a);
  times.work_b = work_of(op_b, b);
  times.waiting_a = waiting_of(op_a, a);
  times.waiting_b = waiting_of(op_b, b);
  times.exposed_a = exposed_a[comparison.alignment.pairs[pair].a];
  times.exposed_b = exposed_b[comparison.alignment.pairs[pair].b];
  times.error = error_of(times.work_a, times.work_b, comparison.floor);
  return times;
}

void compare_groups(Comparison& comparison) {
  Grouping kinds, streams;
  std::map<std::uint32_t, std::vector<std::uint32_t>> ranks;
  std::vector<std::uint32_t> all;
  for (std::uint32_t pair = 0; pair < comparison.ops.size(); ++pair) {
    const Span& span = comparison.span_a(pair);
    const TimelineOp& op = comparison.a.timeline.ops[span.op];
    kinds.add(kind_of(op), pair);
    streams.add(stream_of(comparison.a.timeline, op), pair);
    ranks[span.rank.value()].push_back(pair);
    all.push_back(pair);
  }
  comparison.all = group_of("all ops", all, comparison);
  for (const auto& [grouping, groups] :
       {std::pair(&kinds, &comparison.kinds), std::pair(&streams, &comparison.streams)})
    for (std::size_t i = 0; i < grouping->size(); ++i)
      groups->push_back(group_of(std::string(grouping->name(i)), grouping->members(i), comparison));
  for (const auto& [rank, members] : ranks)
    comparison.ranks.push_back(group_of(fmt::format("rank {}", rank), members, comparison));
}

void compare_starts(Comparison& comparison) {
  std::vector<double> apart;
  for (std::uint32_t pair = 0; pair < comparison.ops.size(); ++pair) {
    apart.push_back(std::abs(comparison.start_difference(pair).si()));
    if (!comparison.worst_start || apart.back() > apart[*comparison.worst_start])
      comparison.worst_start = pair;
  }
  const auto middle = apart.begin() + static_cast<std::ptrdiff_t>(apart.size() / 2);
  std::ranges::nth_element(apart, middle);
  comparison.median_start_difference = Seconds(*middle);
}

void add_overlaps(const Timeline& timeline, const std::vector<Seconds>& exposed, Seconds Overlap::*kernel,
                  Seconds Overlap::*without, std::vector<Overlap>& overlaps) {
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const Span& span = timeline.spans[i];
    const TimelineOp& op = timeline.ops[span.op];
    if (op.kind != SpanKind::Communication) continue;
    const auto [place, is_new] = places.try_emplace(kind_of(op), 0);
    if (is_new) {
      const auto known = std::ranges::find(overlaps, kind_of(op), &Overlap::kind);
      place->second = static_cast<std::size_t>(known - overlaps.begin());
      if (known == overlaps.end()) overlaps.push_back({op.name, {}, {}, {}, {}});
    }
    overlaps[place->second].*kernel += span.end - span.start;
    overlaps[place->second].*without += exposed[i];
  }
}

void measure(Side& side, std::size_t worst) {
  const Metrics metrics = compute_metrics(side.timeline, {}, {});
  side.step_time = metrics.step_time;
  side.exposed = metrics.mean.exposed;
  side.overlap_share = metrics.overlap_share;
  side.waits = find_waits(side.timeline, worst);
}

Seconds step_of(const Timeline& timeline) {
  return compute_metrics(timeline, {}, {}).step_time;
}

}  // namespace

std::optional<double> error_of(Seconds a, Seconds b, Seconds floor) {
  if (a < floor && b < floor) return std::nullopt;
  return (a - b) / std::max(b, floor);
}

Comparison compare(Timeline a, Timeline b, const Options& options) {
  Comparison result;
  result.floor = std::max(LeastFloor, options.floor.value_or(std::min(MostFloor, step_of(b) * FloorOfStep)));
  result.alignment = align(a, b);
  if (result.alignment.pairs.empty()) throw std::invalid_argument("the two timelines have no op in common");
  result.clocks = find_clocks(a, b, result.alignment.pairs, result.floor);
  set_clocks(b, result.clocks);
  result.a.timeline = std::move(a);
  result.b.timeline = std::move(b);
  for (Side* side : {&result.a, &result.b}) measure(*side, options.worst);
  result.step_error = error_of(result.a.step_time, result.b.step_time, LeastFloor);

  const std::vector<Seconds> exposed_a = exposed_times(result.a.timeline),
                             exposed_b = exposed_times(result.b.timeline);
  result.ops.reserve(result.alignment.pairs.size());
  for (std::uint32_t pair = 0; pair < result.alignment.pairs.size(); ++pair)
    result.ops.push_back(times_of(result, pair, exposed_a, exposed_b));
  compare_groups(result);
  compare_starts(result);
  result.moved = find_moved(result.a.timeline, result.b.timeline, result.alignment.pairs);
  add_overlaps(result.a.timeline, exposed_a, &Overlap::kernel_a, &Overlap::exposed_a, result.overlaps);
  add_overlaps(result.b.timeline, exposed_b, &Overlap::kernel_b, &Overlap::exposed_b, result.overlaps);
  return result;
}

std::vector<std::uint32_t> farthest_off(const Comparison& comparison, double beyond) {
  std::vector<std::uint32_t> pairs;
  for (std::uint32_t pair = 0; pair < comparison.ops.size(); ++pair) {
    const std::optional<double>& error = comparison.ops[pair].error;
    if (error && std::abs(*error) > beyond) pairs.push_back(pair);
  }
  std::ranges::stable_sort(pairs, {},
                           [&](std::uint32_t pair) { return -std::abs(*comparison.ops[pair].error); });
  return pairs;
}

std::vector<std::uint32_t> overlapped_differently(const Comparison& comparison) {
  const auto share = [](Seconds exposed, Seconds work, Seconds waiting) {
    return (work + waiting).si() > 0 ? exposed / (work + waiting) : 0;
  };
  const auto apart = [&](std::uint32_t pair) {
    const OpTimes& op = comparison.ops[pair];
    return std::abs((op.exposed_a - op.exposed_b).si());
  };
  std::vector<std::uint32_t> pairs;
  for (std::uint32_t pair = 0; pair < comparison.ops.size(); ++pair) {
    const OpTimes& op = comparison.ops[pair];
    const double shares_apart =
        std::abs(share(op.exposed_a, op.work_a, op.waiting_a) - share(op.exposed_b, op.work_b, op.waiting_b));
    if (apart(pair) >= comparison.floor.si() && shares_apart > SharesDiffer) pairs.push_back(pair);
  }
  std::ranges::stable_sort(pairs, {}, [&](std::uint32_t pair) { return -apart(pair); });
  return pairs;
}

}  // namespace syncline::compare
