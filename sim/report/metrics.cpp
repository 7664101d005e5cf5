#include "sim/report/metrics.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "sim/core/error.hpp"
#include "sim/report/intervals.hpp"

namespace syncline {
namespace {

// A communication kernel, by its place in the table of traffic.
struct Kernel : Interval {
  std::uint32_t traffic;
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

std::vector<Seconds> exposed_times(const Timeline& timeline) {
  std::vector<Seconds> exposed(timeline.spans.size());
  struct Resident : Interval {
    std::size_t span;
  };
  for (std::size_t begin = 0, end = 0; begin < timeline.spans.size(); begin = end) {
    std::vector<Interval> compute;
    std::vector<Resident> kernels;
    for (; end < timeline.spans.size() && timeline.spans[end].rank == timeline.spans[begin].rank; ++end) {
      const Span& span = timeline.spans[end];
      const Interval whole{span.start.si(), span.end.si()};
      const SpanKind kind = timeline.ops.at(span.op).kind;
      if (kind == SpanKind::Compute) compute.push_back(whole);
      if (kind == SpanKind::Communication) kernels.push_back({whole, end});
    }
    unite(compute);
    sort_by_begin(kernels);
    Outside outside_compute(compute);
    for (const Resident& kernel : kernels) exposed[kernel.span] = Seconds(outside_compute(kernel));
  }
  return exposed;
}

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
