#include "sim/report/metrics.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

struct Interval {
  double begin, end;  // s
  [[nodiscard]] double length() const { return end - begin; }
};

// A communication kernel, by its place in the table of traffic.
struct Kernel : Interval {
  std::uint32_t traffic;
};

template <class T>
void sort_by_begin(std::vector<T>& intervals) {
  const auto earlier = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), earlier))
    std::sort(intervals.begin(), intervals.end(), earlier);
}

// Makes `intervals` disjoint and ascending, covering the same time.
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

// Asks, for intervals in ascending order of begin, how much of each lies outside a united cover.
class Outside {
 public:
  explicit Outside(std::span<const Interval> cover) : cover_(cover) {}

  double operator()(const Interval& interval) {
    while (next_ < cover_.size() && cover_[next_].end <= interval.begin) ++next_;
    double outside = 0, from = interval.begin;
    for (std::size_t i = next_; i < cover_.size() && cover_[i].begin < interval.end; ++i) {
      outside += std::max(0.0, cover_[i].begin - from);
      from = cover_[i].end;
    }
    return outside + std::max(0.0, interval.end - from);
  }

 private:
  std::span<const Interval> cover_;
  std::size_t next_ = 0;  // first of the cover that ends after what was asked last
};

// Sums over all kernels of one kind of traffic, s.
struct TrafficSums {
  double transfer = 0, waiting = 0, exposed = 0, resident = 0;
};

class MetricsBuilder {
 public:
  MetricsBuilder(const Timeline& timeline, const GroupSizeOf& group_size, std::span<const RankId> player_of)
      : timeline_(timeline),
        group_size_(group_size),
        player_of_(player_of),
        plays_for_(timeline.ranks, player_of.empty() ? 1 : 0),
        last_row_(timeline.ops.size()) {
    for (const RankId player : player_of) ++plays_for_.at(player.value());
  }

  Metrics build() && {
    metrics_.ranks.resize(timeline_.ranks);
    std::vector<bool> seen(timeline_.ranks, false);
    double first = std::numeric_limits<double>::infinity(), last = -first;
    for (auto begin = timeline_.spans.begin(); begin != timeline_.spans.end();) {
      const RankId rank = begin->rank;
      const auto end =
          std::find_if(begin, timeline_.spans.end(), [&](const Span& span) { return span.rank != rank; });
      SYNCLINE_CHECK(rank.value() < timeline_.ranks && !seen[rank.value()], "spans are not grouped by rank");
      seen[rank.value()] = true;
      const Interval bounds = add_rank(rank, {begin, end});
      first = std::min(first, bounds.begin);
      last = std::max(last, bounds.end);
      begin = end;
    }
    if (last > first) metrics_.step_time = Seconds(last - first);
    for (std::size_t rank = 0; rank < player_of_.size(); ++rank)
      metrics_.ranks[rank] = metrics_.ranks[player_of_[rank].value()];
    summarise_ranks();
    finish_traffic();
    return std::move(metrics_);
  }

 private:
  // Ops with equal name, group, bytes, algorithm and size of group share a row of Metrics::traffic; those of a rank
  // alone have none.
  std::optional<std::uint32_t> traffic_row(const Span& span) {
    const std::size_t size = group_size_ ? group_size_(span.op, span.rank) : 0;
    if (size == 1) return std::nullopt;
    auto& [last_size, row] = last_row_[span.op];
    if (row && last_size == size) return row;
    const TimelineOp& op = timeline_.ops[span.op];
    const auto next = static_cast<std::uint32_t>(rows_.size());
    row = rows_.try_emplace({op.name, op.group, op.bytes, op.algorithm, size}, next).first->second;
    last_size = size;
    if (*row == next) {
      metrics_.traffic.push_back({.op = op.name,
                                  .group = op.group,
                                  .bytes = op.bytes,
                                  .algorithm = op.algorithm,
                                  .group_size = size});
      sums_.emplace_back();
    }
    return row;
  }

  // Returns first start and last end.
  Interval add_rank(RankId rank, std::span<const Span> spans) {
    weight_ = plays_for_[rank.value()];
    compute_.clear();
    communication_.clear();
    moving_.clear();
    kernels_.clear();
    Interval bounds{spans.front().start.si(), spans.front().end.si()};
    for (const Span& span : spans) {
      SYNCLINE_CHECK(span.op < timeline_.ops.size(), "a span names an op that is not in the table");
      const Interval whole{span.start.si(), span.end.si()};
      bounds = {std::min(bounds.begin, whole.begin), std::max(bounds.end, whole.end)};
      switch (timeline_.ops[span.op].kind) {
        case SpanKind::Compute: compute_.push_back(whole); break;
        case SpanKind::Communication:
          communication_.push_back(whole);
          moving_.push_back({span.transfer.si(), whole.end});
          if (const auto row = traffic_row(span)) {
            kernels_.push_back({whole, *row});
            add_traffic(span, *row);
          }
          break;
        case SpanKind::Host: break;
      }
    }
    unite(compute_);
    unite(communication_);
    unite(moving_);
    add_exposure();

    RankMetrics& metrics = metrics_.ranks[rank.value()];
    Outside outside_compute(compute_);
    double exposed = 0;
    for (const Interval& interval : communication_) exposed += outside_compute(interval);
    const double compute = total(compute_), communication = total(communication_), moving = total(moving_);
    metrics.compute = Seconds(compute);
    metrics.communication = Seconds(communication);
    metrics.exposed = Seconds(exposed);
    metrics.overlapped = Seconds(std::max(0.0, communication - exposed));
    metrics.waiting = Seconds(std::max(0.0, communication - moving));
    metrics.span = Seconds(bounds.length());
    metrics.idle = Seconds(std::max(0.0, bounds.length() - compute - exposed));
    return bounds;
  }

  void add_traffic(const Span& span, std::uint32_t row) {
    metrics_.traffic[row].kernels += weight_;
    sums_[row].transfer += static_cast<double>(weight_) * (span.end - span.transfer).si();
    sums_[row].waiting += static_cast<double>(weight_) * (span.transfer - span.start).si();
  }

  void add_exposure() {
    sort_by_begin(kernels_);
    Outside outside_compute(compute_);
    for (const Kernel& kernel : kernels_) {
      sums_[kernel.traffic].exposed += static_cast<double>(weight_) * outside_compute(kernel);
      sums_[kernel.traffic].resident += static_cast<double>(weight_) * kernel.length();
    }
  }

  void summarise_ranks() {
    if (metrics_.ranks.empty()) return;
    RankMetrics& mean = metrics_.mean;
    static constexpr Seconds RankMetrics::*Fields[] = {
        &RankMetrics::compute, &RankMetrics::communication, &RankMetrics::exposed, &RankMetrics::overlapped,
        &RankMetrics::waiting, &RankMetrics::span,          &RankMetrics::idle};
    const double count = static_cast<double>(metrics_.ranks.size());
    for (std::size_t i = 0; i < metrics_.ranks.size(); ++i) {
      const RankMetrics& rank = metrics_.ranks[i];
      for (const auto field : Fields) mean.*field += rank.*field;
      if (rank.compute > metrics_.ranks[metrics_.slowest.value()].compute) metrics_.slowest = RankId(i);
      if (rank.exposed > metrics_.ranks[metrics_.most_exposed.value()].exposed)
        metrics_.most_exposed = RankId(i);
      if (rank.span.si() > 0) metrics_.bubble_fraction += 1 - rank.compute / rank.span;
    }
    for (const auto field : Fields) mean.*field /= count;
    metrics_.bubble_fraction /= count;
    if (mean.communication.si() > 0) metrics_.overlap_share = mean.overlapped / mean.communication;
  }

  void finish_traffic() {
    std::size_t row = 0;
    for (Traffic& traffic : metrics_.traffic) {
      const TrafficSums& sums = sums_[row++];
      const double count = static_cast<double>(traffic.kernels);
      traffic.mean_transfer = Seconds(sums.transfer / count);
      traffic.mean_waiting = Seconds(sums.waiting / count);
      if (sums.resident > 0) traffic.exposed_share = sums.exposed / sums.resident;
    }
    metrics_.has_communication = !metrics_.traffic.empty();
  }

  const Timeline& timeline_;
  Metrics metrics_;
  const GroupSizeOf& group_size_;
  std::span<const RankId> player_of_;
  std::vector<std::uint64_t> plays_for_;  // by rank: how many ranks
  std::uint64_t weight_ = 1;              // that of the rank at hand
  std::map<std::tuple<std::string_view, std::string_view, Bytes, std::string_view, std::size_t>,
           std::uint32_t>
      rows_;
  std::vector<std::pair<std::size_t, std::optional<std::uint32_t>>>
      last_row_;                                            // by op: size of group, row for it
  std::vector<TrafficSums> sums_;                           // by row of traffic
  std::vector<Interval> compute_, communication_, moving_;  // of the rank at hand; memory is reused
  std::vector<Kernel> kernels_;
};

}  // namespace

std::optional<BytesPerSecond> Traffic::algbw() const {
  if (mean_transfer.si() <= 0) return std::nullopt;
  return bytes / mean_transfer;
}

double bus_factor(CollectiveKind kind, std::size_t ranks) {
  if (ranks == 0) return 0;
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (kind) {
    case CollectiveKind::AllReduce: return 2 * others;
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllToAll:
    case CollectiveKind::Scatter:
    case CollectiveKind::Gather: return others;
    case CollectiveKind::Broadcast:
    case CollectiveKind::Reduce:
    case CollectiveKind::Shift: break;
  }
  return 1;
}

Throughput throughput(const Job& job, Seconds step_time, std::size_t ranks, FlopPerSecond peak) {
  Throughput result;
  if (step_time.si() <= 0 || ranks == 0) return result;
  const double count = static_cast<double>(ranks);
  if (job.tokens > 0) {
    result.tokens_per_s = job.tokens / step_time.si();
    result.tokens_per_s_per_accelerator = *result.tokens_per_s / count;
  }
  if (job.model_flop.si() > 0) result.model_flop_rate = job.model_flop / step_time / count;
  if (peak.si() <= 0) return result;
  const Flop possible = peak * step_time * count;
  if (job.model_flop.si() > 0) result.mfu = job.model_flop / possible;
  if (job.hardware_flop.si() > 0) result.hfu = job.hardware_flop / possible;
  return result;
}

Metrics compute_metrics(const Timeline& timeline, const Job& job, FlopPerSecond peak,
                        const GroupSizeOf& group_size, std::span<const RankId> player_of) {
  Metrics metrics = MetricsBuilder(timeline, group_size, player_of).build();
  const Throughput worth = throughput(job, metrics.step_time, timeline.ranks, peak);
  metrics.tokens_per_s = worth.tokens_per_s;
  metrics.tokens_per_s_per_accelerator = worth.tokens_per_s_per_accelerator;
  metrics.mfu = worth.mfu;
  metrics.hfu = worth.hfu;
  return metrics;
}

}  // namespace syncline
