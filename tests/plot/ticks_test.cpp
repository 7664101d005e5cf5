#include "sim/plot/ticks.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace syncline::plot;

TEST_SUITE("plot: ticks") {
  TEST_CASE("ticks are round numbers that cover the range") {
    struct Row {
      const char* name;
      Range range;
      std::vector<double> ticks;
    };
    for (const Row& row : {
             Row{"from zero", {0, 10}, {0, 2, 4, 6, 8, 10}},             // 10 / 5 = 2
             Row{"ends inside a step", {0.3, 4.6}, {0, 1, 2, 3, 4, 5}},  // 4.3 / 5 = 0.86, up to 1
             Row{"both signs", {-1, 1}, {-1, -0.5, 0, 0.5, 1}},          // 2 / 5 = 0.4, up to 0.5
             Row{"no width", {8, 8}, {4, 6, 8, 10, 12}},                 // 4 to 12: 8 / 5 = 1.6, up to 2
             Row{"nothing but zero", {0, 0}, {-1, -0.5, 0, 0.5, 1}},
         }) {
      CAPTURE(row.name);
      const std::vector<double> found = ticks(row.range);
      REQUIRE(found.size() == row.ticks.size());
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(row.ticks[i]));
    }
  }

  TEST_CASE("whatever the size of figures, there are a few ticks, evenly apart") {
    for (int power = -12; power <= 15; ++power)
      for (const double high : {1.0, 1.7, 3.3, 9.9}) {
        CAPTURE(power);
        CAPTURE(high);
        const double top = high * std::pow(10, power);
        const std::vector<double> found = ticks({top / 10, top});
        CHECK(found.size() >= 3);
        CHECK(found.size() <= 9);
        CHECK(found.front() <= top / 10 * (1 + 1e-9));
        CHECK(found.back() >= top * (1 - 1e-9));
        for (std::size_t i = 2; i < found.size(); ++i)
          CHECK(found[i] - found[i - 1] == doctest::Approx(found[1] - found[0]));
      }
  }

  TEST_CASE("an axis has zero in it unless the figures lie close together, far from there") {
    CHECK(with_zero({3, 5}).low == 0);      // spread 2, a quarter of 5 is 1.25
    CHECK(with_zero({90, 100}).low == 90);  // spread 10, a quarter of 100 is 25
    CHECK(with_zero({-5, -3}).high == 0);
    CHECK(with_zero({-1, 5}).low == -1);
  }
}
