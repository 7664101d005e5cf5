#include "backends/cuda/backlog.hpp"

#include <doctest/doctest.h>

using namespace syncline::cuda;

TEST_CASE("a host waits for the oldest ops of a stream that leave no room for the next") {
  Backlog backlog(10);
  CHECK(backlog.add(0, 4) == std::nullopt);
  CHECK(backlog.add(1, 4) == std::nullopt);
  CHECK(backlog.add(2, 2) == std::nullopt);  // 10: full
  CHECK(backlog.add(3, 1) == 0U);            // 7 with it
  CHECK(backlog.add(4, 9) == 2U);            // 1 and 2 must go
  CHECK(backlog.add(5, 50) == 4U);           // more than there is room for: alone
  backlog.clear();
  CHECK(backlog.add(6, 10) == std::nullopt);
}
