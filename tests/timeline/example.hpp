// Small timelines by hand, for tests of everything that reads one.
#pragma once

#include <string>
#include <utility>

#include "sim/timeline/timeline.hpp"

namespace syncline::test {

inline Tag tag(Phase phase, int layer = -1) {
  Tag result;
  result.phase = phase;
  result.layer = layer;
  return result;
}

/// Adds spans in milliseconds; ops and streams are entered in the tables as they come.
class TimelineExample {
 public:
  explicit TimelineExample(std::uint32_t ranks = 1) {
    timeline_.source = "by hand";
    timeline_.ranks = ranks;
  }

  TimelineExample& compute(std::size_t rank, double start, double end, Tag tag = {}) {
    return add(
        rank, {.kind = SpanKind::Compute, .stream = stream("compute"), .tag = std::move(tag), .name = "work"},
        start, start, end);
  }
  /// A collective of `bytes` in the group family "dp".
  TimelineExample& collective(std::size_t rank, const std::string& name, double start, double transfer,
                              double end, Bytes bytes = Bytes(1e6), const std::string& on = "gather",
                              Tag tag = {}) {
    return add(rank,
               {.kind = SpanKind::Communication,
                .stream = stream(on),
                .tag = std::move(tag),
                .name = name,
                .bytes = bytes,
                .group = "dp",
                .algorithm = "ring"},
               start, transfer, end);
  }
  TimelineExample& host(std::size_t rank, double start, double end) {
    return add(rank, {.kind = SpanKind::Host, .name = "host-work"}, start, start, end);
  }
  TimelineExample& add(std::size_t rank, TimelineOp op, double start, double transfer, double end) {
    const auto index = static_cast<std::uint32_t>(timeline_.ops.size());
    timeline_.ops.push_back(std::move(op));
    timeline_.spans.push_back(
        {RankId(rank), index, Seconds(start * 1e-3), Seconds(transfer * 1e-3), Seconds(end * 1e-3)});
    return *this;
  }
  StreamId stream(const std::string& name) {
    for (std::size_t i = 0; i < timeline_.streams.size(); ++i)
      if (timeline_.streams[i] == name) return StreamId(i);
    timeline_.streams.push_back(name);
    return StreamId(timeline_.streams.size() - 1);
  }

  operator Timeline&() { return timeline_; }

 private:
  Timeline timeline_;
};

}  // namespace syncline::test
