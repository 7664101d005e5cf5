#include "sim/timeline/timeline.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "tests/timeline/example.hpp"

using namespace syncline;
using doctest::Approx;
using syncline::test::TimelineExample;

TEST_CASE("data moves when the last member has arrived") {
  TimelineExample example(3);
  example.collective(0, "all-reduce", 1, 1, 9);
  example.collective(1, "all-reduce", 6, 6, 9);  // the last
  example.compute(1, 0, 6);
  example.collective(2, "all-reduce", 3, 3, 5);  // its clock is behind: it ends before the last one starts
  Timeline& timeline = example;
  struct Row {
    const char* name;
    std::vector<std::size_t> members;
    std::vector<double> transfer_ms;  // of all spans
  };
  for (const Row& row : {Row{"none", {}, {1, 6, 0, 3}}, Row{"one, who waits for nobody", {3}, {1, 6, 0, 3}},
                         Row{"three, whatever their order", {3, 1, 0}, {6, 6, 0, 5}}}) {
    CAPTURE(row.name);
    arrive_together(timeline, row.members);
    for (std::size_t i = 0; i < row.transfer_ms.size(); ++i)
      CHECK(timeline.spans[i].transfer.si() == Approx(row.transfer_ms[i] * 1e-3));
  }
}

TEST_CASE("a member that is no span is refused") {
  Timeline timeline;
  CHECK_THROWS_AS(arrive_together(timeline, std::vector<std::size_t>{0}), std::logic_error);
}
