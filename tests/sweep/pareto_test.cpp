#include "sim/sweep/pareto.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/sweep/fixture.hpp"

using namespace syncline;
using namespace syncline::test;
using sweep::pareto_front;

TEST_SUITE("sweep: Pareto front") {
  TEST_CASE("the front is what no point beats") {
    struct Row {
      const char* name;
      std::vector<std::vector<double>> points;
      std::vector<std::size_t> front;
    };
    for (const Row& row : {
             Row{"nothing", {}, {}},
             Row{"one", {{1, 1}}, {0}},
             Row{"best in both", {{2, 2}, {1, 1}, {1, 2}}, {1}},
             Row{"a trade", {{3, 1}, {1, 3}, {2, 2}, {3, 3}}, {1, 2, 0}},
             Row{"equal points stay", {{1, 1}, {1, 1}, {1, 2}}, {0, 1}},
             Row{"a gain of rounding is none", {{1, 5}, {1 + 1e-9, 3}, {2, 1}}, {1, 2}},
             Row{"three figures", {{1, 2, 3}, {3, 2, 1}, {3, 2, 3}, {2, 1, 3}}, {0, 3, 1}},
         }) {
      CAPTURE(row.name);
      CHECK(pareto_front(row.points) == row.front);
    }
  }

  TEST_CASE("of random points exactly those are left out that a point of the front beats") {
    std::uint64_t state = 1;
    const auto next = [&state] {
      return static_cast<double>((state = state * 6364136223846793005ULL + 1442695040888963407ULL) >> 60);
    };
    std::vector<std::vector<double>> points;
    for (int i = 0; i < 300; ++i) points.push_back({next(), next(), next()});
    const std::vector<std::size_t> front = pareto_front(points);
    const auto beats = [&](std::size_t a, std::size_t b) {
      bool better = false;
      for (std::size_t k = 0; k < 3; ++k) {
        if (points[a][k] > points[b][k]) return false;
        better = better || points[a][k] < points[b][k];
      }
      return better;
    };
    for (std::size_t i = 0; i < points.size(); ++i) {
      const bool on_front = std::ranges::find(front, i) != front.end();
      CHECK(on_front == std::ranges::none_of(front, [&](std::size_t other) { return beats(other, i); }));
    }
  }

  TEST_CASE("of rates more is better, of times and memory less; rows without a figure are left out") {
    const SweepFolder folder;
    const sweep::Sweep sweep = folder.parse("seeds: [1, 2, 3, 4]\nmetrics: [mfu, peak-memory]\n");
    const std::vector<sweep::Row> rows{{0, {"1"}, {0.4, 50e9}, ""},
                                       {1, {"2"}, {0.5, 60e9}, ""},
                                       {2, {"3"}, {0.3, 70e9}, ""},
                                       {3, {"4"}, {0.9, std::nullopt}, ""}};
    CHECK(sweep::pareto_rows(sweep, rows, {"mfu", "peak-memory"}) == std::vector<std::size_t>{1, 0});
    CHECK_THROWS_AS(static_cast<void>(sweep::pareto_rows(sweep, rows, {"mfu", "hfu"})),
                    std::invalid_argument);
  }
}
