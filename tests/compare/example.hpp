// Timelines of a made-up job whose every figure follows from a seed, and changes to them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/compare/comparison.hpp"
#include "sim/core/random.hpp"
#include "sim/timeline/timeline.hpp"
#include "tests/timeline/example.hpp"

namespace syncline::compare::test {

/// Each rank runs layer after layer: gathers with all others, then computes while it reduces for the layer before.
/// @param slow  the compute of this layer on this rank takes `factor` times as long; all else follows from it
struct MadeUpJob {
  std::uint32_t ranks = 4;
  int layers = 8;
  std::uint64_t seed = 1;
  struct Slow {
    std::uint32_t rank = 0;
    int layer = 0;
    double factor = 1;
  };
  std::optional<Slow> slow{};

  /// From 1 to 2 ms, the same for the same op.
  [[nodiscard]] double length(std::uint32_t rank, int layer, std::uint64_t what) const {
    const std::uint64_t op = (static_cast<std::uint64_t>(layer) * ranks + rank) * 8 + what;
    const double factor = slow && slow->rank == rank && slow->layer == layer && what == 0 ? slow->factor : 1;
    return (1 + Random(mix(seed, op)).uniform()) * factor;
  }

  [[nodiscard]] Timeline run() const {
    syncline::test::TimelineExample example(ranks);
    std::vector<syncline::test::TimelineExample> by_rank(ranks, example);
    std::vector<double> free(ranks, 0), reduced(ranks, 0);
    for (int layer = 0; layer < layers; ++layer) {
      const Tag tag = syncline::test::tag(Phase::Forward, layer);
      const auto together = [&](const std::vector<double>& arrival, const std::string& name,
                                const std::string& stream, std::uint64_t what) {
        const double transfer = *std::ranges::max_element(arrival), end = transfer + length(0, layer, what);
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
          by_rank[rank].collective(rank, name, arrival[rank], transfer, end, Bytes(1e6), stream, tag);
        return std::vector<double>(ranks, end);
      };
      const std::vector<double> gathered = together(free, "all-gather", "gather", 1);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        free[rank] = gathered[rank] + length(rank, layer, 0);
        by_rank[rank].compute(rank, gathered[rank], free[rank], tag);
        reduced[rank] = std::max(reduced[rank], gathered[rank]);
      }
      reduced = together(reduced, "reduce-scatter", "reduce", 2);
    }
    return joined(by_rank);
  }

 private:
  [[nodiscard]] Timeline joined(std::vector<syncline::test::TimelineExample>& parts) const {
    Timeline all;
    all.source = "made up";
    all.ranks = ranks;
    all.streams = {"gather", "compute", "reduce"};
    for (Timeline& part : parts) {
      const auto first = static_cast<std::uint32_t>(all.ops.size());
      for (TimelineOp op : part.ops) {
        const auto stream = std::ranges::find(all.streams, part.streams[op.stream.value()]);
        op.stream = StreamId(static_cast<std::size_t>(stream - all.streams.begin()));
        all.ops.push_back(op);
      }
      for (Span span : part.spans) {
        span.op += first;
        all.spans.push_back(span);
      }
    }
    return all;
  }
};

/// The position of an op in Timeline::spans.
inline std::uint32_t find(const Timeline& timeline, std::uint32_t rank, const std::string& name, int layer) {
  const auto span = std::ranges::find_if(timeline.spans, [&](const Span& s) {
    const TimelineOp& op = timeline.ops[s.op];
    return s.rank.value() == rank && op.name == name && op.tag.layer == layer;
  });
  return static_cast<std::uint32_t>(span - timeline.spans.begin());
}

inline void shift(Span& span, double ms) {
  for (const auto time : {&Span::start, &Span::transfer, &Span::end}) span.*time += Seconds(ms * 1e-3);
}

/// All ranks, or one.
inline Timeline shifted(Timeline timeline, double ms, std::optional<std::uint32_t> rank = std::nullopt) {
  for (Span& span : timeline.spans)
    if (!rank || span.rank.value() == *rank) shift(span, ms);
  return timeline;
}

inline Timeline without(Timeline timeline, std::uint32_t span) {
  timeline.spans.erase(timeline.spans.begin() + span);
  return timeline;
}

/// The compute of a layer put behind that of a later one on the same rank, lengths kept.
inline Timeline moved(Timeline timeline, std::uint32_t rank, int layer, int behind) {
  const std::uint32_t position = find(timeline, rank, "work", layer);
  const Seconds length = timeline.spans[position].end - timeline.spans[position].start;
  Seconds end;
  for (int later = layer + 1; later <= behind; ++later) {
    Span& span = timeline.spans[find(timeline, rank, "work", later)];
    shift(span, -length.si() * 1e3);
    end = span.end;
  }
  Span& span = timeline.spans[position];
  span.start = span.transfer = end;
  span.end = end + length;
  return timeline;
}

/// The same with tables and spans in another order: only who runs what when is kept.
inline Timeline shuffled(Timeline timeline, std::uint64_t seed) {
  Random random(seed);
  const auto order = [&](std::size_t count) {
    std::vector<std::uint32_t> places(count);
    for (std::uint32_t i = 0; i < count; ++i) places[i] = i;
    for (std::size_t i = count; i > 1; --i) std::swap(places[i - 1], places[random.below(i)]);
    return places;
  };
  Timeline result = timeline;
  const std::vector<std::uint32_t> op_at = order(timeline.ops.size()),
                                   stream_at = order(timeline.streams.size());
  for (std::size_t i = 0; i < timeline.streams.size(); ++i)
    result.streams[stream_at[i]] = timeline.streams[i];
  for (std::size_t i = 0; i < timeline.ops.size(); ++i) {
    TimelineOp& op = result.ops[op_at[i]];
    op = timeline.ops[i];
    op.stream = StreamId(stream_at[op.stream.value()]);
  }
  const std::vector<std::uint32_t> span_at = order(timeline.spans.size());
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    result.spans[span_at[i]] = timeline.spans[i];
    result.spans[span_at[i]].op = op_at[timeline.spans[i].op];
  }
  std::ranges::stable_sort(result.spans, {}, &Span::rank);
  return result;
}

/// What a comparison finds to differ.
struct Found {
  std::size_t ops = 0;  // by more than 1e-9
  std::size_t missing = 0, extra = 0, moved = 0, clocks = 0;
  double offset_ms = 0;
  friend bool operator==(const Found&, const Found&) = default;
};
inline Found found_in(const Comparison& c) {
  return {farthest_off(c, 1e-9).size(), c.alignment.only_a.size(), c.alignment.only_b.size(), c.moved.size(),
          c.clocks.ranks.size(),        c.clocks.offset.si() * 1e3};
}

}  // namespace syncline::compare::test
