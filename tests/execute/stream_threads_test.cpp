// Streams as threads: order, events, and what happens when an op fails.
#include "backends/execute/stream_threads.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>

#include "sim/core/random.hpp"

namespace syncline {
namespace {

Seconds now() {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

const StreamThreads::Work Nothing = [](const std::stop_token&) {};

/// An op that ends when it is let, or when it is asked to stop.
struct Gate {
  std::atomic<bool> open = false;
  StreamThreads::Work work() {
    return [this](const std::stop_token& stop) {
      while (!open && !stop.stop_requested()) std::this_thread::yield();
    };
  }
};

TEST_SUITE("execute: stream threads") {
  TEST_CASE("ops of a stream run one after another, in the order in which they were launched") {
    constexpr std::uint32_t Ops = 2000;
    StreamThreads threads(1, Ops, now);
    threads.begin();
    std::vector<std::uint32_t> order;  // only one thread writes it
    for (std::uint32_t op = 0; op < Ops; ++op)
      threads.launch(StreamId(0), op, [&order, op](const std::stop_token&) { order.push_back(op); });
    const std::vector<OpTimes> times = threads.finish();
    REQUIRE(order.size() == Ops);
    for (std::uint32_t op = 0; op < Ops; ++op) {
      CHECK(order[op] == op);
      CHECK(times[op].start <= times[op].end);
      if (op > 0) CHECK(times[op - 1].end <= times[op].start);
    }
  }

  TEST_CASE("an op does not start before what it stands behind has ended, and does then") {
    StreamThreads threads(2, 2, now);
    threads.begin();
    Gate gate;
    std::promise<void> started;
    threads.launch(StreamId(0), 0, gate.work());
    threads.wait_for(StreamId(1), 0);
    threads.launch(StreamId(1), 1, [&](const std::stop_token&) { started.set_value(); });
    auto start = started.get_future();
    CHECK(start.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
    CHECK(threads.ended() == std::vector<bool>{false, false});
    gate.open = true;
    CHECK(start.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
    const std::vector<OpTimes> times = threads.finish();
    CHECK(times[0].end <= times[1].start);
    CHECK(threads.ended() == std::vector<bool>{true, true});
  }

  TEST_CASE("an op of one stream does not hold up another stream, nor the host that waits for that") {
    StreamThreads threads(2, 2, now);
    threads.begin();
    Gate gate;
    threads.launch(StreamId(0), 0, gate.work());
    threads.launch(StreamId(1), 1, Nothing);
    threads.synchronize(1);
    CHECK(threads.ended() == std::vector<bool>{false, true});
    gate.open = true;
    threads.synchronize(0);
    CHECK(threads.ended() == std::vector<bool>{true, true});
  }

  TEST_CASE("a step forgets the events of the one before") {
    StreamThreads threads(2, 2, now);
    for (int step = 0; step < 50; ++step) {
      threads.begin();
      CHECK(threads.ended() == std::vector<bool>{false, false});
      threads.launch(StreamId(0), 0, Nothing);
      threads.wait_for(StreamId(1), 0);
      threads.launch(StreamId(1), 1, Nothing);
      const std::vector<OpTimes> times = threads.finish();
      CHECK(times[0].end <= times[1].start);
    }
  }

  TEST_CASE("what an op throws comes out where the host waits, and ends the waiting of all others") {
    for (const bool at_finish : {false, true}) {
      CAPTURE(at_finish);
      StreamThreads threads(3, 4, now);
      threads.begin();
      Gate never;
      threads.launch(StreamId(1), 0, never.work());
      threads.wait_for(StreamId(2), 0);
      threads.launch(StreamId(2), 1, Nothing);
      threads.launch(StreamId(0), 2, [](const std::stop_token&) { throw std::runtime_error("wire cut"); });
      threads.launch(StreamId(0), 3, Nothing);
      std::string said;
      try {
        if (at_finish)
          static_cast<void>(threads.finish());
        else
          threads.synchronize(1);
      } catch (const std::runtime_error& error) {
        said = error.what();
      }
      CHECK(said == "wire cut");
    }
  }

  TEST_CASE("random programs keep to their streams and events") {
    constexpr std::uint32_t Ops = 300, Streams = 4;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      StreamThreads threads(Streams, Ops, now);
      threads.begin();
      std::vector<std::uint32_t> stream(Ops);
      std::vector<std::vector<std::uint32_t>> after(Ops);
      for (std::uint32_t op = 0; op < Ops; ++op) {
        stream[op] = static_cast<std::uint32_t>(random.below(Streams));
        if (op > 0)
          for (std::uint64_t i = random.below(3); i > 0; --i)
            after[op].push_back(static_cast<std::uint32_t>(random.below(op)));
        for (const std::uint32_t earlier : after[op]) threads.wait_for(StreamId(stream[op]), earlier);
        threads.launch(StreamId(stream[op]), op, Nothing);
      }
      const std::vector<OpTimes> times = threads.finish();
      std::vector<Seconds> free(Streams);
      for (std::uint32_t op = 0; op < Ops; ++op) {
        CHECK(free[stream[op]] <= times[op].start);
        for (const std::uint32_t earlier : after[op]) CHECK(times[earlier].end <= times[op].start);
        free[stream[op]] = times[op].end;
      }
    }
  }
}

}  // namespace
}  // namespace syncline
