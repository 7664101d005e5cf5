// The rule-made schedules against closed forms: F, B, W are the times of a virtual stage (B for inputs only),
// w their sum, c the latency of a hop, p ranks, m microbatches, v chunks a rank.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/pipeline/generator.hpp"

using namespace syncline;
using namespace syncline::pipeline;

namespace {

struct Times {
  double F = 1, B = 1, W = 1;
  [[nodiscard]] double w() const { return F + B + W; }
};

const std::vector<Times> TimeSets = {{1, 1, 1}, {10, 12, 7}, {2, 3, 1}, {6, 9, 11}};

/// All F, B, W of 1 to 6.
std::vector<Times> small_times() {
  std::vector<Times> all;
  for (double F = 1; F <= 6; ++F)
    for (double B = 1; B <= 6; ++B)
      for (double W = 1; W <= 6; ++W) all.push_back({F, B, W});
  return all;
}

Order made(const std::string& name, Request request) {
  const Generator* generator = find_generator(name);
  REQUIRE(generator != nullptr);
  return make_order(*generator, request);
}

Request sized(int p, int m, int v = 0, int group = 0) {
  Request request;
  request.ranks = p;
  request.microbatches = m;
  request.chunks = v;
  request.group_size = group;
  return request;
}

/// With whole backwards and without, held-back weight gradients in either order.
std::vector<Request> zero_bubble_variants(int p, int m) {
  std::vector<Request> variants;
  for (const bool merge : {true, false})
    for (const WeightOrder order : {WeightOrder::OldestFirst, WeightOrder::NewestFirst}) {
      variants.push_back(sized(p, m));
      variants.back().merge_backward = merge;
      variants.back().weight_order = order;
    }
  return variants;
}

Replay timed(const Order& order, Times times, double c = 0, std::optional<double> fused = std::nullopt) {
  Costs costs =
      uniform_costs(order.stages, {Seconds(times.F), Seconds(times.B), Seconds(times.W)}, Seconds(c));
  if (fused) costs.fused = Seconds(*fused);
  return replay(order, costs);
}

/// Longest time that a rank stands still over the whole step.
double worst_idle(const Replay& run) {
  double worst = 0;
  for (const RankReplay& rank : run.ranks) worst = std::max(worst, (run.makespan - rank.busy).si());
  return worst;
}

std::vector<int> peaks(const Replay& run) {
  std::vector<int> of_ranks;
  for (const RankReplay& rank : run.ranks) of_ranks.push_back(rank.peak_activations);
  return of_ranks;
}

std::vector<int> for_ranks(int p, const std::function<int(int)>& peak) {
  std::vector<int> of_ranks;
  for (int rank = 0; rank < p; ++rank) of_ranks.push_back(peak(rank));
  return of_ranks;
}

struct Size {
  int p, m;
};

std::string refusal(const std::string& name, const Request& request) {
  try {
    (void)made(name, request);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("naive: one microbatch after another takes m(pw + 2c(p − 1))") {
  for (const auto [p, m] : {Size{1, 1}, {1, 5}, {4, 1}, {4, 8}, {5, 3}})
    for (const Times times : TimeSets)
      for (const double c : {0., 2.}) {
        INFO("p = ", p, ", m = ", m, ", c = ", c);
        const Replay run = timed(made("naive", sized(p, m)), times, c);
        CHECK(run.makespan.si() == doctest::Approx(m * (p * times.w() + 2 * c * (p - 1))));
        CHECK(peaks(run) == for_ranks(p, [](int) { return 1; }));
      }
}

TEST_CASE("GPipe takes (m + p − 1)w + 2c(p − 1) and holds m microbatches") {
  for (const auto [p, m] : {Size{1, 4}, {2, 2}, {4, 1}, {4, 3}, {4, 16}, {7, 9}})
    for (const Times times : TimeSets)
      for (const double c : {0., 3., 50.}) {
        INFO("p = ", p, ", m = ", m, ", c = ", c);
        const Replay run = timed(made("gpipe", sized(p, m)), times, c);
        CHECK(run.makespan.si() == doctest::Approx((m + p - 1) * times.w() + 2 * c * (p - 1)));
        CHECK(peaks(run) == for_ranks(p, [m = m](int) { return m; }));
      }
}

TEST_CASE("1F1B takes (m + p − 1)w; a hop costs more with every microbatch; rank r holds p − r") {
  for (const auto [p, m] : {Size{1, 4}, {2, 2}, {4, 4}, {4, 16}, {7, 9}, {8, 32}})
    for (const Times times : TimeSets)
      for (const double c : {0., 3., 50.}) {
        INFO("p = ", p, ", m = ", m, ", c = ", c);
        const Replay run = timed(made("1f1b", sized(p, m)), times, c);
        const int hops = 2 * (m + p - 2 - (m + p - 2) / p);  // p = 4, m = 16: 2(18 − 4) = 28
        CHECK(run.makespan.si() == doctest::Approx((m + p - 1) * times.w() + c * hops));
        CHECK(peaks(run) == for_ranks(p, [p = p](int rank) { return p - rank; }));
      }
}

TEST_CASE("1F1B with fewer microbatches than stages is as GPipe") {
  for (const auto [p, m] : {Size{4, 1}, {4, 3}, {8, 5}})
    for (const Times times : TimeSets) {
      INFO("p = ", p, ", m = ", m);
      const Replay run = timed(made("1f1b", sized(p, m)), times);
      CHECK(run.makespan.si() == doctest::Approx((m + p - 1) * times.w()));
      CHECK(peaks(run) == for_ranks(p, [p = p, m = m](int rank) { return std::min(m, p - rank); }));
    }
}

TEST_CASE(
    "interleaved 1F1B has a bubble of p − 1 chunks, whatever the group, and holds more the larger the "
    "group") {
  struct Row {
    int p, m, v, group;
  };
  for (const auto [p, m, v, group] : {Row{2, 4, 2, 2},
                                      {4, 8, 2, 4},
                                      {4, 8, 2, 8},
                                      {4, 9, 2, 5},
                                      {4, 16, 3, 4},
                                      {3, 8, 4, 4},
                                      {8, 17, 2, 9},
                                      {8, 32, 4, 16},
                                      {4, 12, 1, 4}})
    for (const Times times : TimeSets) {
      INFO("p = ", p, ", m = ", m, ", v = ", v, ", group = ", group);
      const Replay run = timed(made("interleaved-1f1b", sized(p, m, v, group)), times);
      CHECK(run.makespan.si() == doctest::Approx((v * m + p - 1) * times.w()));
      CHECK(peaks(run) == for_ranks(p, [p = p, m = m, v = v, group = group](int rank) {
              return std::min(v * m, (v - 1) * group + 2 * (p - 1 - rank) + 1);
            }));
    }
}

TEST_CASE("interleaved 1F1B pays a hop for every chunk, or only 2(p − 1) of them with groups of 2p") {
  const Times times{10, 12, 7};
  for (const auto [p, m] : {Size{2, 8}, {4, 8}, {4, 16}, {8, 16}})
    for (const int v : {2, 3}) {
      INFO("p = ", p, ", m = ", m, ", v = ", v);
      const double work = (v * m + p - 1) * times.w(), c = 0.5;
      CHECK(timed(made("interleaved-1f1b", sized(p, m, v)), times, c).makespan.si() ==
            doctest::Approx(work + 2 * c * (v * p - 1)));
      CHECK(timed(made("interleaved-1f1b", sized(p, m, v, 2 * p)), times, c).makespan.si() ==
            doctest::Approx(work + 2 * c * (p - 1)));
    }
}

TEST_CASE("interleaved 1F1B with at most p microbatches is a pipeline of vp stages") {
  for (const auto [p, m] : {Size{4, 1}, {4, 3}, {4, 4}, {8, 5}})
    for (const int v : {2, 3})
      for (const Times times : TimeSets) {
        INFO("p = ", p, ", m = ", m, ", v = ", v);
        CHECK(timed(made("interleaved-1f1b", sized(p, m, v)), times, 0.25).makespan.si() ==
              doctest::Approx((v * p + m - 1) * times.w() + 2 * 0.25 * (v * p - 1)));
      }
}

TEST_CASE("looped breadth-first takes (vm + p − 1)w and hides all hops but 2(p − 1) from m = 2p on") {
  for (const int p : {2, 4, 5})
    for (const int v : {1, 2, 4})
      for (const Times times : TimeSets)
        for (const double c : {0., 0.5}) {
          INFO("p = ", p, ", v = ", v, ", c = ", c);
          const Replay many = timed(made("looped-bfs", sized(p, 2 * p, v)), times, c);
          CHECK(many.makespan.si() == doctest::Approx((2 * v * p + p - 1) * times.w() + 2 * c * (p - 1)));
          CHECK(peaks(many) == for_ranks(p, [&](int) { return 2 * v * p; }));
          const Replay few = timed(made("looped-bfs", sized(p, p, v)), times, c);
          CHECK(few.makespan.si() == doctest::Approx((v * p + p - 1) * times.w() + 2 * c * (v * p - 1)));
        }
}

// The rule as published has the same bubble for the whole step; but the last rank cannot start before (p −
// 1)F, which shows where F is longer than both B and F + B − W.
TEST_CASE("ZB-H1 has a bubble of (p − 1) max(F + B − W, B) within a rank and holds p microbatches on each") {
  for (const int p : {2, 4, 8})
    for (const Request& request : zero_bubble_variants(p, 3 * p)) {
      const Order order = made("zb-h1", request);
      for (const Times times : small_times()) {
        const auto [F, B, W] = times;
        INFO("p = ", p, ", F = ", F, ", B = ", B, ", W = ", W, ", merge = ", request.merge_backward);
        const Replay run = timed(order, times);
        CHECK(run.max_rank_span.si() == 3 * p * times.w() + (p - 1) * std::max(F + B - W, B));
        CHECK(run.makespan.si() == 3 * p * times.w() + (p - 1) * std::max({F + B - W, B, F}));
        CHECK(peaks(run) == for_ranks(p, [p](int) { return p; }));
      }
    }
}

TEST_CASE("ZB-H2 has a bubble of (p − 1) max(F + B − 2W, B − F, 0) within a rank and holds 2p − 1 on each") {
  for (const int p : {2, 4, 8})
    for (const int m : {2 * p - 1, 3 * p})
      for (const Request& request : zero_bubble_variants(p, m)) {
        const Order order = made("zb-h2", request);
        for (const Times times : small_times()) {
          const auto [F, B, W] = times;
          INFO("p = ", p, ", F = ", F, ", B = ", B, ", W = ", W, ", merge = ", request.merge_backward);
          const Replay run = timed(order, times);
          CHECK(run.max_rank_span.si() == m * times.w() + (p - 1) * std::max({F + B - 2 * W, B - F, 0.}));
          CHECK(peaks(run) == for_ranks(p, [p](int) { return 2 * p - 1; }));
        }
      }
}

TEST_CASE("ZB-H1 with at most p microbatches is a pipeline of F and B, and a last W") {
  const Times times{10, 12, 7};
  for (const auto [p, m] : {Size{4, 1}, {4, 3}, {4, 4}, {8, 5}}) {
    INFO("p = ", p, ", m = ", m);
    CHECK(timed(made("zb-h1", sized(p, m)), times).makespan.si() ==
          doctest::Approx((m + p - 1) * (times.F + times.B) + times.W));
  }
}

TEST_CASE("a whole backward keeps the rank in front waiting: over slow hops ZB-H1 gains from I and W apart") {
  const Times times{10, 12, 7};
  Request request = sized(4, 16);
  CHECK(timed(made("zb-h1", request), times, 3).makespan.si() == 16 * 29 + 129);
  request.merge_backward = false;
  CHECK(timed(made("zb-h1", request), times, 3).makespan.si() == 16 * 29 + 81);
}

TEST_CASE("interleaved zero bubble: (p − 1)(F + B − W) of a chunk, and vp chunks held") {
  for (const int p : {2, 4, 8})
    for (const int v : {1, 2, 3})
      for (const Times times : {Times{1, 1, 1}, {10, 12, 7}, {2, 3, 1}})  // W ≤ F
        for (const double c : {0., 0.125}) {
          INFO("p = ", p, ", v = ", v, ", c = ", c);
          const int m = 3 * p;
          const Replay run = timed(made("interleaved-zb", sized(p, m, v)), times, c);
          const double bubble = (p - 1) * (times.F + times.B - times.W);
          CHECK(run.makespan.si() ==
                doctest::Approx(v * m * times.w() + bubble + c * (4 * (p - 1) + (v - 1) * p)));
          CHECK(peaks(run) == for_ranks(p, [&](int) { return v * p; }));
        }
}

TEST_CASE("interleaved zero bubble of one chunk is ZB-H1 with I and W apart") {
  for (const auto [p, m] : {Size{1, 2}, {2, 4}, {4, 8}, {4, 3}, {8, 24}}) {
    INFO("p = ", p, ", m = ", m);
    Request apart = sized(p, m);
    apart.merge_backward = false;
    const Times times{10, 12, 7};
    const Replay chunked = timed(made("interleaved-zb", sized(p, m, 1)), times, 3),
                 plain = timed(made("zb-h1", apart), times, 3);
    CHECK(chunked.makespan == plain.makespan);
    CHECK(peaks(chunked) == peaks(plain));
  }
}

TEST_CASE("ZB-V at equal times has no bubble within a rank and holds 2p chunks") {
  for (int p = 2; p <= 16; ++p)
    for (const int m : {2 * p - 1, 2 * p, 3 * p + 1}) {
      INFO("p = ", p, ", m = ", m);
      const Replay run = timed(made("zb-v-handcrafted", sized(p, m)), {1, 1, 1});
      CHECK(run.max_rank_span.si() == 2 * m * 3);
      CHECK(run.makespan.si() == 2 * m * 3 + (p - 1));
      CHECK(peaks(run) == for_ranks(p, [p](int) { return 2 * p; }));
    }
}

TEST_CASE("V-Half at equal times: a bubble of 3p − 7 or 3p − 4, and ⌊(p + 2)/2⌋ microbatches held") {
  for (int p = 2; p <= 16; ++p) {
    CAPTURE(p);
    const int m = 2 * p, bubble = p == 2 ? 1 : p % 2 == 0 ? 3 * p - 7 : 3 * p - 4;
    const Replay run = timed(made("v-half", sized(p, m)), {1, 1, 1});
    CHECK(run.makespan.si() == 2 * m * 3 + bubble);
    CHECK(std::ranges::max(peaks(run)) == 2 * ((p + 2) / 2));
  }
}

TEST_CASE("V-Min at equal times: a bubble of 4p − 5 or 4p − 7, and ⌊(p + 4)/3⌋ microbatches held") {
  for (int p = 2; p <= 16; ++p) {
    CAPTURE(p);
    const int m = 2 * p, bubble = p % 3 == 0 ? 4 * p - 7 : 4 * p - 5;
    const Replay run = timed(made("v-min", sized(p, m)), {1, 1, 1});
    CHECK(run.makespan.si() == 2 * m * 3 + bubble);
    CHECK(std::ranges::max(peaks(run)) == 2 * ((p + 4) / 3));
  }
}

TEST_CASE("V-Min with unequal times has a bubble that grows with the microbatches") {
  const Times times{10, 12, 7};
  CHECK(timed(made("v-min", sized(4, 8)), times).makespan.si() == 2 * 8 * 29 + 223);
  CHECK(timed(made("v-min", sized(4, 16)), times).makespan.si() == 2 * 16 * 29 + 335);
}

TEST_CASE("1F1B-V holds about two thirds of what 1F1B holds") {
  for (const int p : {3, 4, 6, 8, 12}) {
    CAPTURE(p);
    const Replay run = timed(made("1f1b-v", sized(p, 4 * p)), {1, 1, 1});
    const int held = std::ranges::max(peaks(run));  // of 2p chunks
    CHECK(held >= 2 * 2 * p / 3.);
    CHECK(held <= 2 * (2 * p / 3. + 1));
  }
}

TEST_CASE("DualPipe on 8 ranks with 20 microbatches takes 66 units, as its authors draw it") {
  // 20 · 3 of work and (8/2 − 1) · (3 + 2 − 3) of bubble.
  const Replay run = timed(made("dualpipe", sized(8, 20)), {1, 1, 1});
  CHECK(run.makespan.si() == 66);
  CHECK(peaks(run) == for_ranks(8, [](int) { return 9; }));
}

TEST_CASE("DualPipe and DualPipeV: a rank stands still for (turning point − 1)(F&B + B + W − 3W) at F = B") {
  struct Row {
    std::string name;
    int p, depth;
  };
  for (const auto& [name, p, depth] : {Row{"dualpipe", 4, 2},
                                       {"dualpipe", 8, 4},
                                       {"dualpipe", 12, 6},
                                       {"dualpipe-v", 2, 2},
                                       {"dualpipe-v", 4, 4},
                                       {"dualpipe-v", 8, 8}})
    for (const double W : {4., 7., 10.})
      for (const double overlap : {0., 0.5, 1.})
        for (const int m : {2 * p, 3 * p + p % 2}) {
          const double F = 10, B = 10, full = B + W;
          const double fused = std::max(F, full) + overlap * (F + full - std::max(F, full));
          INFO("name = ", name, ", p = ", p, ", W = ", W, ", fused = ", fused, ", m = ", m);
          const Replay run = timed(made(name, sized(p, m)), {F, B, W}, 0, fused);
          CHECK(worst_idle(run) == doctest::Approx((depth - 1) * (fused + full - 3 * W)));
          CHECK(peaks(run) == for_ranks(p, [depth = depth](int) { return 2 * depth + 1; }));
        }
}

TEST_CASE("every schedule makes a sound order that runs to its end, whatever size it accepts") {
  for (const Generator& generator : generators()) {
    if (generator.searched) continue;
    int accepted = 0;
    for (int p = 1; p <= 9; ++p)
      for (int m = 1; m <= 25; ++m)
        for (const int v : {generator.default_chunks, generator.least_chunks}) {
          if (!refusal(std::string(generator.name), sized(p, m, v)).empty()) continue;
          ++accepted;
          INFO("generator.name = ", generator.name, ", p = ", p, ", m = ", m, ", v = ", v);
          CHECK(deadlock(made(std::string(generator.name), sized(p, m, v)))
                    .empty());  // make_order checks the rest
        }
    CHECK(accepted > 0);
  }
}

TEST_CASE("interleaved 1F1B runs to its end with every group size that it accepts") {
  int accepted = 0;
  for (int p = 1; p <= 6; ++p)
    for (int m = 1; m <= 20; ++m)
      for (int group = 1; group <= m + 1; ++group) {
        if (!refusal("interleaved-1f1b", sized(p, m, 2, group)).empty()) continue;
        ++accepted;
        INFO("p = ", p, ", m = ", m, ", group = ", group);
        CHECK(deadlock(made("interleaved-1f1b", sized(p, m, 2, group))).empty());
      }
  CHECK(accepted > 100);
}

TEST_CASE("what a schedule does not accept is refused with the reason and the nearest that works") {
  struct Row {
    std::string name;
    Request request;
    std::string expected;
  };
  const std::vector<Row> rows = {
      {"1f1b", sized(0, 4), "1f1b needs at least one stage"},
      {"1f1b", sized(4, 0), "1f1b needs at least one microbatch"},
      {"1f1b", sized(4, 8, 2), "1f1b has 1 chunk a rank, not 2"},
      {"1f1b", sized(4, 8, 0, 4), "1f1b takes no group size"},
      {"zb-v-handcrafted", sized(4, 8, 3), "zb-v-handcrafted has 2 chunks a rank, not 3"},
      {"dualpipe", sized(5, 20), "dualpipe needs an even number of stages, not 5; try --stages 6"},
      {"dualpipe", sized(4, 6), "dualpipe needs m ≥ 2p = 8 microbatches, not 6; try --microbatches 8"},
      {"dualpipe", sized(4, 9),
       "dualpipe needs an even number of microbatches, not 9; try --microbatches 10"},
      {"dualpipe-v", sized(4, 7), "dualpipe-v needs m ≥ 2p = 8 microbatches, not 7; try --microbatches 8"},
      {"interleaved-zb", sized(4, 9),
       "interleaved-zb needs rounds of equal size, but 9 microbatches on 4 ranks make ⌊m / p⌋ = 2 rounds; "
       "try --microbatches 8 or 10"},
      {"interleaved-1f1b", sized(4, 9),
       "interleaved-1f1b needs rounds of equal size, but 9 microbatches on 4 ranks make ⌊m / p⌋ = 2 rounds; "
       "try --microbatches 8 or 10, or --group-size 5"},
      {"interleaved-1f1b", sized(4, 9, 2, 4),
       "interleaved-1f1b needs a last group of at least p = 4 microbatches, but groups of 4 leave 1 of 9; "
       "try --group-size 5"},
      {"interleaved-1f1b", sized(4, 8, 2, 9),
       "interleaved-1f1b needs a group of p = 4 to m = 8 microbatches, not 9; try --group-size 8"},
      {"interleaved-1f1b", sized(4, 8, 2, -1),
       "interleaved-1f1b needs a group of p = 4 to m = 8 microbatches, not -1; try --group-size 4"},
      {"interleaved-1f1b", sized(4, 3, 2, 2),
       "interleaved-1f1b needs a group of all 3 microbatches, as m < p; try --group-size 3"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(refusal(row.name, row.request) == row.expected);
  }
}

TEST_CASE("what a refusal proposes is accepted") {
  for (const auto [p, m] : {Size{4, 9}, {4, 11}, {5, 23}, {8, 17}, {3, 11}}) {
    INFO("p = ", p, ", m = ", m);
    const std::string text = refusal("interleaved-1f1b", sized(p, m));
    const std::string flag = "--group-size ";
    REQUIRE(text.find(flag) != std::string::npos);
    const int group = std::stoi(text.substr(text.find(flag) + flag.size()));
    CHECK(refusal("interleaved-1f1b", sized(p, m, 2, group)).empty());
  }
}
