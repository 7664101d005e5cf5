#include "backends/execute/clock_sync.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>

#include "backends/execute/thread_world.hpp"

using namespace syncline;

TEST_CASE("pings leave an interval for the offset") {
  // The first was held up on its way, the last on its way back: 5 +- 0.001 is what the second alone says. The fourth was
  // held up both ways.
  const std::array<Ping, 4> pings{Ping{Seconds(0), Seconds(5.009), Seconds(0.010)},
                                  Ping{Seconds(1), Seconds(6.001), Seconds(1.002)},
                                  Ping{Seconds(2), Seconds(7.001), Seconds(2.030)},
                                  Ping{Seconds(3), Seconds(8.01), Seconds(3.02)}};
  const ClockOffset found = offset_of(pings);
  CHECK(found.offset.si() == doctest::Approx(5));
  CHECK(found.error.si() == doctest::Approx(0.001));
  CHECK(found.at == Seconds(8.01));
}

TEST_CASE("pings that contradict each other, as when a clock was set meanwhile, leave what the fastest says") {
  const std::array<Ping, 2> pings{Ping{Seconds(1), Seconds(6.001), Seconds(1.004)},
                                  Ping{Seconds(2), Seconds(7.501), Seconds(2.002)}};
  const ClockOffset found = offset_of(pings);
  CHECK(found.offset.si() == doctest::Approx(5.5));
  CHECK(found.error.si() == doctest::Approx(0.001));
}

TEST_CASE("a clock that drifts evenly is set right in between") {
  // 3 ms ahead at 10 s of its own, 4 ms at 20 s.
  const ClockOffset before{Seconds(0.003), Seconds(0), Seconds(10)}, after{Seconds(0.004), Seconds(0), Seconds(20)};
  CHECK(on_rank_0(Seconds(10), before, after).si() == doctest::Approx(9.997).epsilon(1e-12));
  CHECK(on_rank_0(Seconds(15), before, after).si() == doctest::Approx(14.9965).epsilon(1e-12));
  CHECK(on_rank_0(Seconds(20), before, after).si() == doctest::Approx(19.996).epsilon(1e-12));
  CHECK(on_rank_0(Seconds(12), before, before).si() == doctest::Approx(11.997).epsilon(1e-12));
}

TEST_CASE("ranks whose clocks differ find out by how much, within the error they report") {
  const auto worlds = thread_worlds(4);
  const std::array<double, 4> ahead{0, 0.003, -12, 0};  // s; the last has the clock of the first
  std::vector<ClockOffset> offsets;
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto now = [&] {
        const auto time = std::chrono::steady_clock::now().time_since_epoch();
        return Seconds(std::chrono::duration<double>(time).count() + ahead[rank]);
      };
      std::vector<ClockOffset> found = measure_offsets(*worlds[rank], "clock " + std::to_string(rank == 3 ? 0 : rank), now);
      if (rank == 0) offsets = std::move(found);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  REQUIRE(offsets.size() == 4);
  CHECK(offsets[0].offset == Seconds(0));
  CHECK(offsets[1].error > Seconds(0));
  CHECK(offsets[3].offset == Seconds(0));
  CHECK(offsets[3].error == Seconds(0));
  for (std::size_t rank = 0; rank < 4; ++rank)
    CHECK(std::abs(offsets[rank].offset.si() - ahead[rank]) <= offsets[rank].error.si() + 1e-9);
}
