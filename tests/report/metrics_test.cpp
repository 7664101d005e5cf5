#include "sim/report/metrics.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "tests/timeline/example.hpp"

using namespace syncline;
using doctest::Approx;
using syncline::test::TimelineExample;

namespace {

constexpr FlopPerSecond UnknownPeak;

double ms(Seconds time) {
  return time.si() * 1e3;
}

struct Times {
  double compute, communication, exposed, waiting, span, idle;  // ms
};

void check_rank(const RankMetrics& rank, const Times& expected) {
  CHECK(ms(rank.compute) == Approx(expected.compute));
  CHECK(ms(rank.communication) == Approx(expected.communication));
  CHECK(ms(rank.exposed) == Approx(expected.exposed));
  CHECK(ms(rank.overlapped) == Approx(expected.communication - expected.exposed));
  CHECK(ms(rank.waiting) == Approx(expected.waiting));
  CHECK(ms(rank.span) == Approx(expected.span));
  CHECK(ms(rank.idle) == Approx(expected.idle));
  CHECK(ms(rank.compute + rank.exposed + rank.idle) == Approx(expected.span));
}

}  // namespace

TEST_CASE("times of one rank are unions of intervals") {
  struct Row {
    const char* name;
    Timeline timeline;
    Times expected;
  };
  const Row rows[] = {
      {"compute alone", TimelineExample().compute(0, 0, 5).compute(0, 5, 10), {10, 0, 0, 0, 10, 0}},
      {"a hole between two computes",
       TimelineExample().compute(0, 0, 4).compute(0, 6, 10),
       {8, 0, 0, 0, 10, 2}},
      {"communication alone", TimelineExample().collective(0, "all-gather", 1, 2, 5), {0, 4, 4, 1, 4, 0}},
      // [0,5] and [6,9] computing, [3,7] communicating: the second between 5 and 6 is exposed
      {"communication across a hole",
       TimelineExample().compute(0, 0, 5).compute(0, 6, 9).collective(0, "all-gather", 3, 3, 7),
       {8, 4, 1, 0, 9, 0}},
      // [2,8] and [4,6] cover 6 ms, not 8; compute [0,5] hides 3 of them
      {"nested communication counts once",
       TimelineExample()
           .compute(0, 0, 5)
           .collective(0, "all-gather", 2, 2, 8)
           .collective(0, "reduce-scatter", 4, 4, 6),
       {5, 6, 3, 0, 8, 0}},
      // [1,4] and [3,6] cover [1,6]; compute [0,2] hides [1,2]
      {"overlapping communication counts once",
       TimelineExample()
           .compute(0, 0, 2)
           .collective(0, "all-gather", 1, 1, 4)
           .collective(0, "reduce-scatter", 3, 3, 6),
       {2, 5, 4, 0, 6, 0}},
      // one waits on [0,6], the other moves on [2,5]: nothing moves on [0,2] and [5,6]
      {"waiting is the time in which no kernel moves data",
       TimelineExample().collective(0, "all-gather", 0, 6, 7).collective(0, "reduce-scatter", 1, 2, 5),
       {0, 7, 7, 3, 7, 0}},
      {"spans out of order of time",
       TimelineExample()
           .collective(0, "all-gather", 6, 6, 8)
           .collective(0, "all-gather", 0, 0, 3)
           .compute(0, 2, 7),
       {5, 5, 3, 0, 8, 0}},
      {"a span of no length",
       TimelineExample().compute(0, 0, 2).compute(0, 3, 3).collective(0, "all-gather", 1, 1, 1),
       {2, 0, 0, 0, 3, 1}},
      {"the host's work counts in the span only",
       TimelineExample().host(0, 0, 3).compute(0, 3, 5),
       {2, 0, 0, 0, 5, 3}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Metrics metrics = compute_metrics(row.timeline, {}, UnknownPeak);
    REQUIRE(metrics.ranks.size() == 1);
    check_rank(metrics.ranks[0], row.expected);
    check_rank(metrics.mean, row.expected);
    CHECK(ms(metrics.step_time) == Approx(row.expected.span));
  }
}

TEST_CASE("FSDP's prefetch shows up as hidden communication") {
  // Four layers, each gathered in 3 ms and computed in 5 ms.
  TimelineExample serial, prefetched;
  for (int layer = 0; layer < 4; ++layer) {
    // one after the other: 4 · (3 + 5) = 32 ms, all 4 · 3 = 12 ms exposed
    serial.collective(0, "all-gather", 8 * layer, 8 * layer, 8 * layer + 3)
        .compute(0, 8 * layer + 3, 8 * layer + 8);
    // each gather during the compute before: 3 + 4 · 5 = 23 ms, the first 3 ms exposed
    const double gather = layer == 0 ? 0 : 3 + 5 * (layer - 1);
    prefetched.collective(0, "all-gather", gather, gather, gather + 3)
        .compute(0, 3 + 5 * layer, 8 + 5 * layer);
  }
  const Metrics without = compute_metrics(serial, {}, UnknownPeak),
                with = compute_metrics(prefetched, {}, UnknownPeak);
  CHECK(ms(without.step_time) == Approx(32));
  CHECK(ms(without.mean.exposed) == Approx(12));
  CHECK(without.overlap_share == Approx(0));
  CHECK(ms(with.step_time) == Approx(23));
  CHECK(ms(with.mean.exposed) == Approx(3));
  CHECK(with.overlap_share == Approx(9.0 / 12));
  CHECK(with.bubble_fraction == Approx(3.0 / 23));
  REQUIRE(with.traffic.size() == 1);
  CHECK(with.traffic[0].kernels == 4);
  CHECK(with.traffic[0].exposed_share == Approx(3.0 / 12));
}

TEST_CASE("ranks are averaged and the outstanding ones named") {
  TimelineExample example(3);
  example.compute(0, 0, 4).collective(0, "all-reduce", 4, 6, 8);
  example.compute(1, 0, 6).collective(1, "all-reduce", 6, 6, 8);
  example.compute(2, 0, 6).collective(2, "all-reduce", 6, 6, 8);
  const Metrics metrics = compute_metrics(example, {}, UnknownPeak);
  CHECK(metrics.slowest == RankId(1));  // as slow as rank 2, but first
  CHECK(metrics.most_exposed == RankId(0));
  CHECK(ms(metrics.mean.compute) == Approx(16.0 / 3));
  CHECK(ms(metrics.mean.exposed) == Approx(8.0 / 3));
  CHECK(ms(metrics.mean.waiting) == Approx(2.0 / 3));
  CHECK(metrics.bubble_fraction == Approx((0.5 + 0.25 + 0.25) / 3));
  REQUIRE(metrics.traffic.size() == 1);
  CHECK(metrics.traffic[0].kernels == 3);
  CHECK(ms(metrics.traffic[0].mean_transfer) == Approx(2));
  CHECK(ms(metrics.traffic[0].mean_waiting) == Approx(2.0 / 3));
  CHECK(metrics.traffic[0].algbw()->si() == Approx(1e6 / 2e-3));
}

TEST_CASE("traffic is told apart by op, group and size") {
  TimelineExample example;
  example.collective(0, "all-gather", 0, 0, 1, Bytes(1e6)).collective(0, "all-gather", 1, 1, 4, Bytes(2e6));
  example.collective(0, "reduce-scatter", 4, 4, 5, Bytes(1e6))
      .collective(0, "all-gather", 5, 5, 8, Bytes(1e6));
  const Metrics metrics = compute_metrics(example, {}, UnknownPeak);
  REQUIRE(metrics.traffic.size() == 3);
  CHECK(metrics.traffic[0].kernels == 2);
  CHECK(ms(metrics.traffic[0].mean_transfer) == Approx(2));  // (1 + 3) / 2
  CHECK(metrics.traffic[1].bytes == Bytes(2e6));
  CHECK(metrics.traffic[2].op == "reduce-scatter");
}

TEST_CASE("work done is measured against time, ranks and peak") {
  TimelineExample example(2);
  example.compute(0, 0, 500).compute(1, 0, 400);
  const Job job{1000, Flop(3e12), Flop(4e12), Precision::Bf16};
  const Metrics metrics = compute_metrics(example, job, FlopPerSecond(10e12));
  CHECK(*metrics.tokens_per_s == Approx(2000));  // 1000 / 0.5 s
  CHECK(*metrics.tokens_per_s_per_accelerator == Approx(1000));
  CHECK(*metrics.mfu == Approx(0.3));  // 3e12 / (0.5 · 2 · 10e12)
  CHECK(*metrics.hfu == Approx(0.4));
  CHECK(throughput(job, Seconds(0.5), 2, UnknownPeak).model_flop_rate->si() == Approx(3e12));
  CHECK_FALSE(compute_metrics(example, job, UnknownPeak).mfu.has_value());
  CHECK_FALSE(compute_metrics(example, {}, FlopPerSecond(10e12)).tokens_per_s.has_value());
}

TEST_CASE("a timeline without spans or communication has no shares that are not numbers") {
  Timeline empty;
  empty.ranks = 2;
  for (const Timeline& timeline : {Timeline{}, empty, Timeline(TimelineExample(2).compute(1, 2, 2))}) {
    const Metrics metrics = compute_metrics(timeline, {5, Flop(), Flop(), Precision::Bf16}, FlopPerSecond(1));
    CHECK(metrics.step_time == Seconds(0));
    CHECK(metrics.overlap_share == 0);
    CHECK(metrics.bubble_fraction == 0);
    CHECK_FALSE(metrics.has_communication);
    CHECK_FALSE(metrics.tokens_per_s.has_value());
  }
}

TEST_CASE("spans that are not grouped by rank are refused") {
  TimelineExample scattered(2), beyond(1);
  scattered.compute(0, 0, 1).compute(1, 0, 1).compute(0, 1, 2);
  beyond.compute(1, 0, 1);
  CHECK_THROWS_AS((void)compute_metrics(scattered, {}, UnknownPeak), std::logic_error);
  CHECK_THROWS_AS((void)compute_metrics(beyond, {}, UnknownPeak), std::logic_error);
}
