#include "sim/report/pipeline_metrics.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

constexpr Seconds Never{std::numeric_limits<double>::infinity()};

bool in_pipeline(const Op& op) {
  return std::holds_alternative<Compute>(op.body) && op.tag.phase != Phase::Optimizer &&
         op.tag.phase != Phase::Other;
}

std::size_t pipeline_length(const Schedule& schedule) {
  for (const Mesh& mesh : schedule.meshes)
    if (const int axis = mesh.find_axis("pp"); axis >= 0) return static_cast<std::size_t>(mesh.size(axis));
  return 0;
}

struct Interval {
  Seconds start, end;
};

/// One rank's program beside when it ran.
class RankView {
 public:
  RankView(RankId rank, const Role& role, std::span<const Span> spans)
      : rank_(rank), program_(role.program), spans_(spans) {
    SYNCLINE_CHECK(program_.size() == spans.size(), "a span for every op");
    for (std::size_t i = 0; i < program_.size(); ++i) {
      if (!in_pipeline(program_[i])) continue;
      blocks_.push_back(i);
      if (program_[i].tag.phase == Phase::Forward)
        last_forward_end_ = spans[i].end;
      else
        first_backward_ = std::min(first_backward_, spans[i].start);
      if (program_[i].tag.phase == Phase::ForwardBackward) last_forward_end_ = spans[i].end;
    }
  }

  [[nodiscard]] RankId rank() const { return rank_; }
  [[nodiscard]] bool empty() const { return blocks_.empty(); }
  [[nodiscard]] Seconds first_start() const { return spans_[blocks_.front()].start; }
  [[nodiscard]] Seconds last_end() const { return spans_[blocks_.back()].end; }
  /// A microbatch of a chunk is held from its first forward op to its last op that has the weights' gradient.
  [[nodiscard]] int peak_activations() const {
    struct Run {  // ops one after another of one phase of one microbatch of a chunk
      Phase phase;
      std::pair<int, int> of;
      bool operator==(const Run&) const = default;
    };
    std::vector<Run> runs;
    for (const std::size_t op : blocks_) {
      const Tag& tag = program_[op].tag;
      const Run run{tag.phase, {tag.chunk, tag.microbatch}};
      if (runs.empty() || runs.back() != run) runs.push_back(run);
    }
    std::map<std::pair<int, int>, std::size_t> last;
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (runs[i].phase == Phase::Backward || runs[i].phase == Phase::BackwardWeight) last[runs[i].of] = i;
    std::set<std::pair<int, int>> begun;
    int held = 0, peak = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const bool both = runs[i].phase == Phase::ForwardBackward;
      if ((both || runs[i].phase == Phase::Forward) && begun.insert(runs[i].of).second)
        peak = std::max(peak, ++held);
      const auto end = last.find(runs[i].of);
      if (both || (end != last.end() && end->second == i)) --held;
    }
    return peak;
  }

  /// What it does with the time `whole` of all ranks.
  [[nodiscard]] PipelineRank usage(Interval whole) const {
    PipelineRank rank;
    rank.first_start = first_start();
    rank.last_end = last_end();
    rank.peak_activations = peak_activations();
    Seconds free = whole.start;
    Waits waits;
    for (const std::size_t op : blocks_) {
      if (spans_[op].start > free) add_gap({free, spans_[op].start}, op, rank, waits);
      rank.busy += spans_[op].end - spans_[op].start;
      free = std::max(free, spans_[op].end);
    }
    split(rank, {free, whole.end}, &Idle::neighbour);
    rank.internal_idle = rank.last_end - rank.first_start - rank.busy;
    return rank;
  }

 private:
  /// What stands before an op; kept from gap to gap for its memory.
  struct Waits {
    std::vector<OpIndex> awaited;
    std::vector<Interval> own, moving;
  };

  /// Before the compute op `next`: its own collectives count as busy; data that it (or such a collective)
  /// waits for, or that must be sent first, may be on its way; the rest is waiting for a neighbour.
  void add_gap(Interval gap, std::size_t next, PipelineRank& rank, Waits& waits) const {
    auto& [awaited, own, moving] = waits;
    own.clear();
    moving.clear();
    Seconds ready = gap.start;  // when all it waits for was there
    awaited.assign(program_[next].after.begin(), program_[next].after.end());
    while (!awaited.empty()) {
      const Op& op = program_[awaited.back().value()];
      const Span& span = spans_[awaited.back().value()];
      awaited.pop_back();
      ready = std::max(ready, span.end);
      if (span.end <= gap.start) continue;
      if (std::holds_alternative<Collective>(op.body)) {
        own.push_back({span.start, span.end});
        awaited.insert(awaited.end(), op.after.begin(), op.after.end());  // what held it up
      } else if (op.communicates()) {
        moving.push_back({span.transfer, span.end});
      }
    }
    Seconds at = gap.start;
    const Seconds until = std::min(ready, gap.end);
    while (at < until) {
      const auto [cause, end] = piece(at, until, own, moving);
      if (cause == Cause::OwnCollective)
        rank.busy += end - at;
      else
        split(rank, {at, end}, cause == Cause::Transfer ? &Idle::transfer : &Idle::neighbour);
      at = end;
    }
    if (until < gap.end) split(rank, {until, gap.end}, &Idle::other);
  }

  enum class Cause { OwnCollective, Transfer, Neighbour };

  /// What the time from `at` on is, and to when.
  static std::pair<Cause, Seconds> piece(Seconds at, Seconds until, const std::vector<Interval>& own,
                                         const std::vector<Interval>& moving) {
    Seconds next = until;
    for (const auto& [list, cause] :
         {std::pair(&own, Cause::OwnCollective), std::pair(&moving, Cause::Transfer)}) {
      for (const Interval& interval : *list) {
        if (interval.start <= at && at < interval.end) return {cause, std::min(next, interval.end)};
        if (interval.start > at) next = std::min(next, interval.start);
      }
    }
    return {Cause::Neighbour, next};
  }

  /// Adds an interval, cut where the rank's phases change.
  void split(PipelineRank& rank, Interval part, Seconds Idle::*kind) const {
    const Seconds cool = std::max(last_forward_end_, std::min(first_backward_, part.end));
    const Seconds warm_end = std::clamp(first_backward_, part.start, part.end);
    const Seconds cool_start = std::clamp(cool, warm_end, part.end);
    rank.idle[static_cast<std::size_t>(PipelinePhase::WarmUp)].*kind += warm_end - part.start;
    rank.idle[static_cast<std::size_t>(PipelinePhase::Steady)].*kind += cool_start - warm_end;
    rank.idle[static_cast<std::size_t>(PipelinePhase::CoolDown)].*kind += part.end - cool_start;
  }

  RankId rank_;
  const std::vector<Op>& program_;
  std::span<const Span> spans_;
  std::vector<std::size_t> blocks_;  // compute of the pipeline, in order
  Seconds first_backward_ = Never, last_forward_end_;
};

void add_mean(std::array<Idle, PipelinePhaseCount>& sum, const std::array<Idle, PipelinePhaseCount>& one,
              double share) {
  for (std::size_t phase = 0; phase < PipelinePhaseCount; ++phase)
    for (Seconds Idle::*kind : {&Idle::neighbour, &Idle::transfer, &Idle::other})
      sum[phase].*kind += one[phase].*kind * share;
}

/// One for each rank that was played.
std::vector<RankView> views_of(const Schedule& schedule, const Timeline& timeline) {
  std::vector<RankView> views;
  for (std::size_t first = 0; first < timeline.spans.size();) {
    const RankId rank = timeline.spans[first].rank;
    const Role& role = schedule.role(rank);
    SYNCLINE_CHECK(!role.program.empty() && first + role.program.size() <= timeline.spans.size(),
                   "the spans of every rank");
    views.emplace_back(rank, role, std::span(timeline.spans).subspan(first, role.program.size()));
    first += role.program.size();
  }
  return views;
}

/// By rank: its view, or that of the first rank of its role. Nothing when there is none.
std::optional<std::vector<std::size_t>> view_of_rank(const Schedule& schedule,
                                                     const std::vector<RankView>& views) {
  constexpr std::size_t None = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> own(schedule.world_size(), None), of_role(schedule.roles.size(), None);
  for (std::size_t i = views.size(); i-- > 0;) {
    own[views[i].rank().value()] = i;
    of_role[schedule.role_of[views[i].rank().value()].value()] = i;
  }
  for (std::size_t rank = 0; rank < own.size(); ++rank)
    if (own[rank] == None) own[rank] = of_role[schedule.role_of[rank].value()];
  if (std::ranges::find(own, None) != own.end()) return std::nullopt;
  return own;
}

}  // namespace

std::optional<PipelineMetrics> pipeline_metrics(const Schedule& schedule, const Timeline& timeline) {
  PipelineMetrics metrics;
  metrics.stages = pipeline_length(schedule);
  if (metrics.stages == 0 || timeline.spans.empty()) return std::nullopt;
  const std::vector<RankView> views = views_of(schedule, timeline);
  const auto view_of = view_of_rank(schedule, views);
  if (!view_of || std::ranges::any_of(views, &RankView::empty)) return std::nullopt;

  Interval whole{Never, -Never};
  for (const RankView& view : views)
    whole = {std::min(whole.start, view.first_start()), std::max(whole.end, view.last_end())};
  std::vector<PipelineRank> usages;
  for (const RankView& view : views) usages.push_back(view.usage(whole));
  const double share = 1 / static_cast<double>(schedule.world_size());
  for (const std::size_t view : *view_of) {
    const PipelineRank& rank = usages[view];
    const Seconds span = rank.last_end - rank.first_start;
    metrics.max_rank_span = std::max(metrics.max_rank_span, span);
    metrics.mean_busy += rank.busy * share;
    add_mean(metrics.idle, rank.idle, share);
    metrics.ranks.push_back(rank);
  }
  metrics.makespan = whole.end - whole.start;
  if (metrics.mean_busy <= Seconds(0)) return std::nullopt;
  for (const Role& role : schedule.roles)
    for (const Op& op : role.program) metrics.chunks = std::max(metrics.chunks, op.tag.chunk + 1);
  metrics.bubble_of_total = 1 - metrics.mean_busy / metrics.makespan;
  metrics.bubble_of_ideal = metrics.bubble() / metrics.mean_busy;
  metrics.bubble_of_span = 1 - metrics.mean_busy / metrics.max_rank_span;
  return metrics;
}

}  // namespace syncline
