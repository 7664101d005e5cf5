#include "sim/compare/comparison.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "tests/compare/example.hpp"

using namespace syncline;
using namespace syncline::compare;
using namespace syncline::compare::test;
using doctest::Approx;

namespace {

void check_found(const Comparison& c, const Found& expected) {
  const Found found = found_in(c);
  CHECK(found.ops == expected.ops);
  CHECK(found.missing == expected.missing);
  CHECK(found.extra == expected.extra);
  CHECK(found.moved == expected.moved);
  CHECK(found.clocks == expected.clocks);
  CHECK(found.offset_ms == Approx(expected.offset_ms).epsilon(1e-9));
}

}  // namespace

TEST_SUITE("compare: what differs is named, and nothing else") {
  TEST_CASE("a timeline and itself differ in nothing") {
    const Timeline timeline = MadeUpJob().run();
    const Comparison c = compare::compare(timeline, timeline, {});
    CHECK(found_in(c) == Found{});
    CHECK(c.step_error == 0);
    CHECK(c.median_start_difference == Seconds());
    CHECK(c.start_difference(*c.worst_start) == Seconds());
    for (const auto* groups : {&c.kinds, &c.streams, &c.ranks})
      for (const Group& group : *groups) {
        CAPTURE(group.name);
        CHECK(group.counted == group.ops);
        CHECK(group.error == 0);
        CHECK(group.mean_absolute == 0);
        CHECK(group.max_absolute == 0);
        CHECK(group.waiting_a == group.waiting_b);
      }
    for (const Overlap& kind : c.overlaps) {
      CHECK(kind.kernel_a == kind.kernel_b);
      CHECK(kind.exposed_a == kind.exposed_b);
    }
    CHECK(overlapped_differently(c).empty());
  }

  TEST_CASE("an op made 30 % slower is named, however much is delayed by it") {
    for (const int layer : {0, 3, 7}) {
      CAPTURE(layer);
      const Timeline fast = MadeUpJob().run(), slow = MadeUpJob{.slow = MadeUpJob::Slow{2, layer, 1.3}}.run();
      const Comparison c = compare::compare(slow, fast, {});
      check_found(c, {.ops = 1});
      const std::uint32_t pair = farthest_off(c, 1e-9).front();
      CHECK(c.alignment.pairs[pair].a == find(slow, 2, "work", layer));
      CHECK(*c.ops[pair].error == Approx(0.3));
      CHECK(c.all.worst == pair);
      // The other way the same op takes 1/1.3 of the time: 1/1.3 − 1.
      const Comparison back = compare::compare(fast, slow, {});
      check_found(back, {.ops = 1});
      CHECK(*back.ops[pair].error == Approx(1 / 1.3 - 1));
    }
  }

  TEST_CASE("an op that one of the two lacks is named") {
    const Timeline whole = MadeUpJob().run();
    const std::uint32_t lacking = find(whole, 1, "work", 4);
    const Timeline part = without(whole, lacking);
    const Comparison c = compare::compare(whole, part, {});
    check_found(c, {.missing = 1});
    CHECK(c.alignment.only_a == std::vector{lacking});
    const Comparison back = compare::compare(part, whole, {});
    check_found(back, {.extra = 1});
    CHECK(back.alignment.only_b == std::vector{lacking});
  }

  TEST_CASE("a whole stream may be lacking") {
    Timeline whole = MadeUpJob().run(), part = whole;
    std::erase_if(part.spans, [&](const Span& span) { return part.ops[span.op].name == "reduce-scatter"; });
    check_found(compare::compare(whole, part, {}), {.missing = 4 * 8});
  }

  TEST_CASE("one op put elsewhere is one op, not all that it passes") {
    const Timeline a = MadeUpJob().run();
    for (const int behind : {2, 4, 7}) {
      CAPTURE(behind);
      const Timeline b = moved(a, 3, 0, behind);
      const Comparison c = compare::compare(a, b, {});
      check_found(c, {.moved = 1});
      CHECK(c.alignment.pairs[c.moved.front().pair].a == find(a, 3, "work", 0));
      CHECK(c.moved.front().after_in_a == c.ops.size());  // it is the first
      CHECK(c.alignment.pairs[c.moved.front().after_in_b].a == find(a, 3, "work", behind));
    }
  }

  TEST_CASE("a clock that is off is named and taken out: of all, and of one rank") {
    const Timeline a = MadeUpJob().run();
    for (const double ms : {3.0, -3.0}) {
      CAPTURE(ms);
      check_found(compare::compare(a, shifted(a, ms), {}), {.offset_ms = ms});
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        CAPTURE(rank);
        const Comparison c = compare::compare(a, shifted(a, ms, rank), {});
        check_found(c, {.clocks = 1});
        CHECK(c.clocks.ranks.front().rank == RankId(rank));
        CHECK(c.clocks.ranks.front().offset.si() == Approx(ms * 1e-3));
        CHECK(std::abs(*c.step_error) < 1e-9);
        CHECK(std::abs(c.start_difference(*c.worst_start).si()) < 1e-12);
        // In the other timeline it is the same, the other way round.
        const Comparison back = compare::compare(shifted(a, ms, rank), a, {});
        check_found(back, {.clocks = 1});
        CHECK(back.clocks.ranks.front().offset.si() == Approx(-ms * 1e-3));
      }
    }
  }

  TEST_CASE("a rank whose clock is off is found without communication too") {
    Timeline a = MadeUpJob().run();
    std::erase_if(a.spans, [&](const Span& s) { return a.ops[s.op].kind == SpanKind::Communication; });
    const Comparison c = compare::compare(a, shifted(a, 3, 1), {});
    check_found(c, {.clocks = 1});
    CHECK(c.clocks.ranks.front().offset.si() == Approx(3e-3));
  }

  TEST_CASE(
      "messages that hold up their sender in one timeline and not in the other are no matter of clocks") {
    // Each takes 5 ms; an eager send is over at once. To and fro, one after another.
    syncline::test::TimelineExample eager(2), blocking(2);
    const auto message = [](syncline::test::TimelineExample& example, std::size_t rank, const char* name,
                            int number, double start, double end) {
      TimelineOp op{
          .kind = SpanKind::Communication, .stream = example.stream(name), .name = name, .group = "peer"};
      op.tag.microbatch = number;
      example.add(rank, op, start, start, end);
    };
    for (int i = 0; i < 9; ++i) {
      const std::size_t from = i % 2 == 0 ? 0 : 1;
      const double start = 10 * i;
      message(eager, from, "send", i, start, start);
      message(eager, 1 - from, "recv", i, start, start + 5);
      message(blocking, from, "send", i, start, start + 5);
      message(blocking, 1 - from, "recv", i, start, start + 5);
    }
    Timeline &a = eager, &b = blocking;
    for (Timeline* timeline : {&a, &b}) std::ranges::stable_sort(timeline->spans, {}, &Span::rank);
    CHECK(compare::compare(a, b, {}).clocks.ranks.empty());
    CHECK(compare::compare(b, a, {}).clocks.ranks.empty());
  }

  TEST_CASE("all of it at once, in any order of tables and spans") {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      MadeUpJob job{.ranks = 2 + static_cast<std::uint32_t>(random.below(7)),
                    .layers = 6 + static_cast<int>(random.below(10)),
                    .seed = seed};
      const auto rank = [&] { return static_cast<std::uint32_t>(random.below(job.ranks)); };
      const Timeline a = job.run();
      CHECK(found_in(compare::compare(a, shuffled(a, seed), {})) == Found{});

      job.slow = MadeUpJob::Slow{rank(), static_cast<int>(random.below(3)), 1.3};
      Timeline b = moved(job.run(), rank(), 3, 5);
      b = without(b, find(b, rank(), "work", static_cast<int>(random.below(3))));
      b = shifted(shifted(b, 3, rank()), -20);
      const bool slow_is_lacking = find(b, job.slow->rank, "work", job.slow->layer) == b.spans.size();
      const Comparison c = compare::compare(a, shuffled(b, seed), {});
      Found found = found_in(c);
      if (job.ranks > 2) {  // of two it may be the one or the other
        CHECK(found.offset_ms == Approx(-20));
        CHECK(c.clocks.ranks.front().offset.si() == Approx(3e-3));
      }
      found.offset_ms = 0;
      CHECK(found == Found{slow_is_lacking ? 0U : 1U, 1, 0, 1, 1, 0});
    }
  }

  TEST_CASE("two timelines without an op in common are refused") {
    CHECK_THROWS_AS((void)compare::compare(MadeUpJob().run(), Timeline{}, {}), std::invalid_argument);
  }
}

TEST_SUITE("compare: figures") {
  TEST_CASE("an error is A / B - 1, and short times have none") {
    struct Row {
      const char* name;
      double a_us, b_us;
      std::optional<double> error;
    };
    const Row rows[] = {
        {"A takes longer", 150, 100, 0.5},  // 150/100 − 1
        {"A is shorter", 50, 100, -0.5},    // 50/100 − 1
        {"both are short", 9, 1, std::nullopt},
        {"B is short", 30, 1, 2.9},    // (30 − 1)/10
        {"B took no time", 30, 0, 3},  // (30 − 0)/10
        {"A is short", 1, 20, -0.95},  // 1/20 − 1
        {"no shorter than the floor", 11, 11, 0},
    };
    for (const Row& row : rows) {
      CAPTURE(row.name);
      const auto error = error_of(Seconds(row.a_us * 1e-6), Seconds(row.b_us * 1e-6), Seconds(10e-6));
      REQUIRE(error.has_value() == row.error.has_value());
      if (error) CHECK(*error == Approx(*row.error));
    }
  }

  TEST_CASE("sums, means and the worst of a kind") {
    syncline::test::TimelineExample a, b;  // forward 1 → 1, 2 → 1, 3 → 4 ms, back to back
    using syncline::test::tag;
    a.compute(0, 0, 1, tag(Phase::Forward, 0)).compute(0, 1, 3, tag(Phase::Forward, 1));
    a.compute(0, 3, 6, tag(Phase::Forward, 2));
    b.compute(0, 0, 1, tag(Phase::Forward, 0)).compute(0, 1, 2, tag(Phase::Forward, 1));
    b.compute(0, 2, 6, tag(Phase::Forward, 2));
    const Comparison c = compare::compare(a, b, {});
    REQUIRE(c.kinds.size() == 1);
    const Group& forward = c.kinds.front();
    CHECK(forward.name == "forward");
    CHECK(forward.work_a.si() == Approx(6e-3));
    CHECK(forward.work_b.si() == Approx(6e-3));
    CHECK(*forward.error == Approx(0));
    CHECK(*forward.mean_absolute == Approx(2.0 / 6));  // (0 + 1 + 1)/6
    CHECK(forward.median_absolute == Approx(0.25));    // of 0, 1/4, 1
    CHECK(forward.p90_absolute == Approx(1));
    CHECK(forward.max_absolute == Approx(1));
    CHECK(forward.worst == 1U);
    CHECK(c.floor.si() == Approx(0.6e-6));  // a ten-thousandth of 6 ms
    // Starts differ by 0, 0 and 1 ms.
    CHECK(c.median_start_difference == Seconds());
    CHECK(c.start_difference(*c.worst_start).si() == Approx(1e-3));
  }

  TEST_CASE("communication is compared by what it costs, not by how long it waits") {
    syncline::test::TimelineExample a(2), b(2);  // cost 1 ms in both; rank 1 comes 2 and 5 ms later
    a.collective(0, "all-reduce", 0, 2, 3).collective(1, "all-reduce", 2, 2, 3);
    b.collective(0, "all-reduce", 0, 5, 6).collective(1, "all-reduce", 5, 5, 6);
    const Comparison c = compare::compare(a, b, {});
    REQUIRE(c.kinds.size() == 1);
    CHECK(c.kinds.front().max_absolute == Approx(0));
    CHECK(c.kinds.front().waiting_a.si() == Approx(2e-3));
    CHECK(c.kinds.front().waiting_b.si() == Approx(5e-3));
    CHECK(*c.step_error == Approx(3.0 / 6 - 1));
  }

  TEST_CASE("communication hidden under compute in one and exposed in the other is named") {
    syncline::test::TimelineExample a, b;  // 4 ms of gather: under compute in A, after it in B
    a.compute(0, 0, 5).collective(0, "all-gather", 1, 1, 5);
    b.compute(0, 0, 5).collective(0, "all-gather", 5, 5, 9);
    const Comparison c = compare::compare(a, b, {});
    REQUIRE(c.overlaps.size() == 1);
    CHECK(c.overlaps.front().kernel_a.si() == Approx(4e-3));
    CHECK(c.overlaps.front().exposed_a.si() == Approx(0));
    CHECK(c.overlaps.front().exposed_b.si() == Approx(4e-3));
    CHECK(c.a.overlap_share == Approx(1));
    CHECK(c.b.overlap_share == Approx(0));
    REQUIRE(overlapped_differently(c).size() == 1);
    CHECK(c.ops[overlapped_differently(c).front()].exposed_b.si() == Approx(4e-3));
  }
}
