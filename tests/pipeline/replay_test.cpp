#include "sim/pipeline/replay.hpp"

#include <doctest/doctest.h>

using namespace syncline;
using namespace syncline::pipeline;

namespace {

constexpr Seconds s(double value) {
  return Seconds(value);
}

Costs costs(int stages, double forward, double input, double weight, double hop = 0) {
  return uniform_costs(stages, {s(forward), s(input), s(weight)}, s(hop));
}

}  // namespace

TEST_SUITE("pipeline replay") {
  TEST_CASE("1F1B on two ranks is what one draws by hand") {
    // F = 1, B = 2 (1 + 1), m = 4:
    //   rank 0  0 1 . . 0 0 2 1 1 3 2 2 . 3 3     0F0 0F1 wait 0B0 0F2 0B1 0F3 0B2 wait 0B3
    //   rank 1  . 0 0 0 1 1 1 2 2 2 3 3 3         F0 B0 F1 B1 ...
    const Order order = parse_order("0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3\n1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3\n", "");
    const Replay result = replay(order, costs(2, 1, 1, 1));
    CHECK(result.makespan == s(15));                        // (m + p − 1)(F + B) = 5 · 3
    CHECK(result.max_rank_span == s(15));                   // of rank 0
    CHECK(result.bubble_fraction == doctest::Approx(0.2));  // 1 − 2 · 12 / (2 · 15)
    CHECK(result.ranks[0].busy == s(12));
    CHECK(result.ranks[0].internal_idle == s(3));
    CHECK(result.ranks[1].first_start == s(1));
    CHECK(result.ranks[1].internal_idle == s(0));
    CHECK(result.ranks[0].peak_activations == 2);
    CHECK(result.ranks[1].peak_activations == 1);
    CHECK(result.blocks[0][2].start == s(4));
    // A hop of c: (m+p−1)w + 2c[m+p−2−⌊(m+p−2)/p⌋] = 15 + 2 · 0.5 · (4 − 2) = 17.
    CHECK(replay(order, costs(2, 1, 1, 1, 0.5)).makespan == s(17));
  }

  TEST_CASE("a split backward hands its gradient on before the weights' half") {
    const Order split = parse_order("0F0 0I0 0W0\n1F0 1I0 1W0", ""),
                whole = parse_order("0F0 0B0\n1F0 1B0", "");
    CHECK(replay(split, costs(2, 10, 12, 7)).makespan == s(10 + 10 + 12 + 12 + 7));
    CHECK(replay(whole, costs(2, 10, 12, 7)).makespan == s(10 + 10 + 19 + 19));
    CHECK(replay(split, costs(2, 10, 12, 7)).ranks[0].peak_activations_free_at_input == 1);
  }

  TEST_CASE("a fused block waits for both inputs and hands both outputs on at its end") {
    // rank 0: 0F0 [0,1]; the block needs 1B0, which ends at 1 + 1 + 2 = 4; it takes F + B + W = 3 or what is given.
    const Order order = parse_order("0F0 (0F1;0B0)OVERLAP_F_B 0B1\n1F0 1B0 1F1 1B1", "");
    Costs times = costs(2, 1, 1, 1);
    CHECK(replay(order, times).makespan == s(4 + 3 + 1 + 2 + 2));
    CHECK(replay(order, times).ranks[0].peak_activations == 2);
    times.fused = s(2);
    CHECK(replay(order, times).makespan == s(4 + 2 + 1 + 2 + 2));
  }

  TEST_CASE("stages have times of their own") {
    Costs times = costs(2, 1, 1, 1);
    times.stages[1] = {s(2), s(3), s(4)};
    const Replay result = replay(parse_order("0F0 0B0\n1F0 1B0", ""), times);
    CHECK(result.makespan == s(1 + 2 + 7 + 2));
    CHECK(result.ranks[1].busy == s(9));
  }

  TEST_CASE("ranks that wait for each other are named, and what for") {
    // rank 0 will not run 0F1 before 0B0, whose gradient rank 1 makes only after 1F1.
    const Order order = parse_order("0F0 0B0 0F1 0B1\n1F0 1F1 1B0 1B1", "");
    const std::string cycle =
        "rank 0 waits in 0B0 for 1B0 of rank 1, which comes after 1F1\n"
        "rank 1 waits in 1F1 for 0F1 of rank 0, which comes after 0B0";
    CHECK(deadlock(order) == cycle);
    CHECK_THROWS_WITH(static_cast<void>(replay(order, costs(2, 1, 1, 1))), cycle.c_str());
    CHECK(deadlock(parse_order("0F0 0F1 0B0 0B1\n1F0 1F1 1B0 1B1", "")).empty());
    // A block that needs itself.
    CHECK(deadlock(parse_order("(0F0;0B0)OVERLAP_F_B", "")) ==
          "rank 0 waits in (0F0;0B0)OVERLAP_F_B for (0F0;0B0)OVERLAP_F_B of rank 0");
  }
}
