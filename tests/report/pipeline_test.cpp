// Where a pipeline's time goes, and its picture.
#include <doctest/doctest.h>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/pipeline/generator.hpp"
#include "sim/pipeline/lower.hpp"
#include "sim/report/pipeline_metrics.hpp"
#include "sim/report/pipeline_picture.hpp"
#include "sim/report/pipeline_text.hpp"
#include "sim/report/text.hpp"
#include "tests/support/small_schedules.hpp"

using namespace syncline;
using pipeline::Order;
using pipeline::TransferMode;

namespace {

constexpr Seconds s(double value) {
  return Seconds(value);
}

struct Run {
  Order order;
  pipeline::Lowered lowered;
  RunResult result;
  PipelineMetrics metrics;
};

/// Transfers take `hop`, and with bytes given one second a byte.
Run simulate(Order order, const pipeline::Costs& costs, TransferMode mode = TransferMode::Eager,
             Bytes bytes = {}) {
  Run run{std::move(order), {}, {}, {}};
  run.lowered = lower_textbook(run.order, costs, mode, bytes);
  TopologySpec spec;
  spec.accelerators = static_cast<int>(run.order.ranks.size());
  const BytesPerSecond bandwidth(bytes > Bytes(0) ? 1 : 1e18);
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::FullMesh, {bandwidth, 1.0, costs.hop}};
  const Cluster cluster{build_topology(spec), ideal_device(), placement_in_order(run.order.ranks.size())};
  run.result = make_simgrid_backend()->run(run.lowered.schedule, cluster, {});
  run.metrics = pipeline_metrics(run.lowered.schedule, run.result.timeline).value();
  return run;
}

Order make(const char* schedule, int ranks, int microbatches) {
  pipeline::Request request;
  request.ranks = ranks;
  request.microbatches = microbatches;
  return make_order(*pipeline::find_generator(schedule), request);
}

pipeline::Costs costs(int stages, double forward, double input, double weight, double hop = 0) {
  return pipeline::uniform_costs(stages, {s(forward), s(input), s(weight)}, s(hop));
}

Idle all(const PipelineMetrics& metrics) {
  Idle sum;
  for (const Idle& idle : metrics.idle)
    sum = {sum.neighbour + idle.neighbour, sum.transfer + idle.transfer, sum.other + idle.other};
  return sum;
}

std::string picture(const Run& run, PictureOptions options) {
  PipelinePicture drawn{run.order, {}, {}};
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < run.order.ranks.size(); ++rank) {
    auto& blocks = drawn.blocks.emplace_back();
    for (const OpIndex op : run.lowered.first_op[rank]) {
      const Span& span = run.result.timeline.spans[first + op.value()];
      blocks.push_back({span.start, span.end});
    }
    first += run.lowered.schedule.roles[rank].program.size();
  }
  return pipeline_picture(drawn, options);
}

}  // namespace

TEST_SUITE("pipeline metrics") {
  TEST_CASE("both definitions of the bubble ratio are named: of the total and of the ideal") {
    // 1F1B, p = 2, m = 4, F = 1, whole backward 2: total (4 + 1) · 3 = 15, ideal 4 · 3 = 12, bubble 3.
    const Run run = simulate(make("1f1b", 2, 4), costs(2, 1, 1, 1));
    CHECK(run.metrics.makespan == s(15));
    CHECK(run.metrics.mean_busy == s(12));
    CHECK(run.metrics.bubble_of_total == doctest::Approx(0.20));
    CHECK(run.metrics.bubble_of_ideal == doctest::Approx(0.25));
    const auto plain = [](Seconds time) { return std::to_string(static_cast<int>(time.si())); };
    CHECK(bubble_line(run.metrics, plain) ==
          "bubble 3 = 20.0 % of the total = 25.0 % of the ideal 12; 20.0 % of the longest rank's span");
  }

  TEST_CASE("waiting for a sender and the transfer itself are told apart") {
    // rank 1 is ready at 0; rank 0 computes until 11, then data moves until 12.
    pipeline::Costs times = costs(2, 11, 1, 1);
    const Run run =
        simulate(pipeline::parse_order("0F0 0B0\n1F0 1B0", ""), times, TransferMode::Overlapped, Bytes(1));
    const PipelineRank& rank = run.metrics.ranks[1];
    CHECK(rank.idle[0].neighbour == s(11));
    CHECK(rank.idle[0].transfer == s(1));
    // rank 0 from 11 on: rank 1 gets the data at 12, runs F and B until 25, and the gradient arrives at 26.
    CHECK(run.metrics.ranks[0].idle[0].transfer == s(1));
    CHECK(run.metrics.ranks[0].idle[0].neighbour == s(26 - 11 - 1));
    CHECK(run.metrics.ranks[1].idle[2].neighbour == s(28 - 25));  // cool-down: rank 0 works until 28
  }

  TEST_CASE("the causes add up to the bubble") {
    struct Row {
      const char* schedule;
      double hop;
      TransferMode mode;
      double bytes;
    };
    for (const Row& row :
         {Row{"gpipe", 0, TransferMode::Eager, 0}, Row{"1f1b", 2, TransferMode::Eager, 0},
          Row{"zb-h1", 1, TransferMode::Overlapped, 2}, Row{"1f1b", 1, TransferMode::Blocking, 2},
          Row{"v-half", 3, TransferMode::Blocking, 0}, Row{"dualpipe-v", 1, TransferMode::Overlapped, 1}}) {
      CAPTURE(row.schedule);
      const Order order = make(row.schedule, 4, 8);
      const Run run = simulate(order, costs(order.stages, 10, 12, 7, row.hop), row.mode, Bytes(row.bytes));
      const Idle sum = all(run.metrics);
      CHECK(sum.total().si() == doctest::Approx(run.metrics.bubble().si()));
      CHECK(sum.other == s(0));
      CHECK((sum.transfer > s(0)) == (row.hop > 0 || row.bytes > 0));
      const pipeline::Replay exact = replay(order, costs(order.stages, 10, 12, 7));
      for (std::size_t rank = 0; rank < 4; ++rank)
        CHECK(run.metrics.ranks[rank].peak_activations == exact.ranks[rank].peak_activations);
    }
  }

  TEST_CASE("1F1B without hops has its bubble in warm-up and cool-down only") {
    // (p − 1)(F + B + W) = 3 · 29 in all, on every rank.
    const Run run = simulate(make("1f1b", 4, 8), costs(4, 10, 12, 7));
    CHECK(run.metrics.bubble().si() == doctest::Approx(87));
    CHECK(run.metrics.idle[1].total().si() == doctest::Approx(0));
    for (const PipelineRank& rank : run.metrics.ranks)
      CHECK(rank.idle[0].total().si() + rank.idle[2].total().si() == doctest::Approx(87));
  }

  TEST_CASE("GPipe waits in warm-up until its first backward, and then cools down") {
    // p = 2, m = 2, F = 1, B = 2. rank 0: 0F0 [0,1] 0F1 [1,2] wait, 0B0 [5,7] 0B1 [7,9]. rank 1: from 1 to 7.
    const Run run = simulate(make("gpipe", 2, 2), costs(2, 1, 1, 1));
    CHECK(run.metrics.ranks[0].idle[0].neighbour == s(3));
    CHECK(run.metrics.ranks[0].idle[2].total() == s(0));
    CHECK(run.metrics.ranks[1].idle[0].neighbour == s(1));
    CHECK(run.metrics.ranks[1].idle[2].neighbour == s(2));
  }

  TEST_CASE("a schedule without a pipeline has no such metrics") {
    testing::ScheduleBuilder plain(2);
    plain.compute(0, "compute", {s(1)});
    const RunResult result =
        make_simgrid_backend()->run(plain.schedule, testing::star(2, BytesPerSecond(1), s(0)), {});
    CHECK_FALSE(pipeline_metrics(plain.schedule, result.timeline).has_value());
  }
}

TEST_SUITE("pipeline picture") {
  TEST_CASE("blocks stand where they run, with kind and microbatch") {
    const Run run = simulate(make("1f1b", 2, 2), costs(2, 1, 1, 1));
    // (m + p − 1)(F + B) = 9; 45 − 8 = 37 columns: 4 a unit.
    CHECK(picture(run, {.columns = 45}) ==
          "rank 0  F0──F1──········B0══════····B1══════\n"
          "rank 1  ····F0──B0══════F1──B1══════········\n"
          "        0                   5\n"
          "        F─ forward, B═ backward, · idle\n");
  }

  TEST_CASE("halves of the backward, chunks and fused blocks are told apart") {
    // Second chunks are in lower case.
    const Run v = simulate(pipeline::parse_order("0F0 1F0 1I0 0I0 1W0 0W0", ""), costs(2, 1, 1, 1));
    CHECK(picture(v, {.columns = 40}).starts_with("rank 0  F0───f0───i0≡≡≡I0≡≡≡w0~~~W0~~~\n"));
    const Run fused = simulate(pipeline::parse_order("0F0 (0F1;0B0)OVERLAP_F_B 0B1", ""), costs(1, 1, 1, 1));
    CHECK(picture(fused, {.columns = 40}).starts_with("rank 0  F0───X1/0▒▒▒▒▒▒▒▒▒▒▒B1════════\n"));
  }

  TEST_CASE("every row is as wide as the picture, at any width and scale") {
    for (const char* schedule : {"1f1b", "zb-h1", "dualpipe-v"})
      for (const int columns : {40, 77, 200})
        for (const bool colour : {false, true}) {
          const Order order = make(schedule, 5, 30);
          const std::string text = picture(simulate(order, costs(order.stages, 10, 12.5, 7)),
                                           {.columns = columns, .colour = colour});
          std::string plain;
          for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] == '\x1b')
              while (text[i] != 'm') ++i;
            else
              plain += text[i];
          }
          const std::size_t first = width(plain.substr(0, plain.find('\n')));
          CHECK(first <= static_cast<std::size_t>(columns));
          CHECK(first > static_cast<std::size_t>(columns) / 2);
          std::size_t at = 0;
          for (int rank = 0; rank < 5; ++rank) {
            const std::size_t end = plain.find('\n', at);
            CHECK(width(plain.substr(at, end - at)) == first);
            at = end + 1;
          }
        }
  }

  TEST_CASE("ranks beyond the limit are counted, and too narrow a picture is refused") {
    const Run run = simulate(make("1f1b", 6, 6), costs(6, 1, 1, 1));
    CHECK(picture(run, {.columns = 80, .most_ranks = 4}).find("(and 2 more ranks)") != std::string::npos);
    CHECK_THROWS_AS(static_cast<void>(picture(run, {.columns = 39})), std::invalid_argument);
  }
}
