// What a schedule means: every rule of docs/semantics.md on a schedule small enough to time by hand.
#include <doctest/doctest.h>

#include <algorithm>

#include "backends/replay/replay.hpp"
#include "sim/network/fluid.hpp"
#include "tests/support/small_schedules.hpp"

namespace syncline {
namespace {

using namespace literals;
using testing::ScheduleBuilder;
using testing::star;

RunResult run(const Schedule& schedule, const Cluster& cluster) {
  PlainNetwork network(link_capacities(cluster.topology));
  return replay(schedule, cluster, Detail::Aggregate, network);
}

// The spans of one rank; positions are op indices.
std::vector<Span> spans_of(const RunResult& result, unsigned rank) {
  std::vector<Span> spans;
  for (const Span& span : result.timeline.spans)
    if (span.rank == RankId(rank)) spans.push_back(span);
  return spans;
}

doctest::Approx seconds(double value) {
  return doctest::Approx(value).epsilon(1e-9);
}

TEST_CASE("a stream is first in, first out, and streams run side by side") {
  ScheduleBuilder b(1);
  b.compute(0, "a", {5_ms});
  b.compute(0, "a", {1_ms});
  b.compute(0, "b", {2_ms});
  const auto spans = spans_of(run(b.schedule, star(1, 1_GBps, 0_us)), 0);
  CHECK(spans[0].start.si() == 0);
  CHECK(spans[1].start.si() == seconds(5e-3));
  CHECK(spans[2].start.si() == 0);
  CHECK(spans[1].end.si() == seconds(6e-3));
}

TEST_CASE("an op waits for all it stands after") {
  ScheduleBuilder b(1);
  const OpIndex x = b.compute(0, "a", {5_ms});
  const OpIndex y = b.compute(0, "b", {7_ms});
  b.compute(0, "c", {1_ms}, {x, y});
  CHECK(spans_of(run(b.schedule, star(1, 1_GBps, 0_us)), 0)[2].start.si() == seconds(7e-3));
}

TEST_CASE("the host issues in order, each kernel costing a launch") {
  // Launch 10 us. Op 0 may start at 10 us, op 1 (another stream) at 20 us; op 2 has three kernels of 1 us: its last is
  // issued at 50 us and so it cannot end before 51 us, though it started at 30 us.
  Device device = ideal_device();
  device.launch = 10_us;
  ScheduleBuilder b(1);
  b.compute(0, "a", {100_us});
  b.compute(0, "b", {100_us});
  b.compute(0, "c", {1_us, 1_us, 1_us});
  const auto spans = spans_of(run(b.schedule, star(1, 1_GBps, 0_us, device)), 0);
  CHECK(spans[0].start.si() == seconds(10e-6));
  CHECK(spans[1].start.si() == seconds(20e-6));
  CHECK(spans[2].start.si() == seconds(30e-6));
  CHECK(spans[2].end.si() == seconds(51e-6));
}

TEST_CASE("long kernels hide the host: the work takes its own time") {
  Device device = ideal_device();
  device.launch = 10_us;
  ScheduleBuilder b(1);
  b.compute(0, "a", {100_us, 100_us, 100_us});
  CHECK(spans_of(run(b.schedule, star(1, 1_GBps, 0_us, device)), 0)[0].end.si() == seconds(310e-6));
}

TEST_CASE("a wait of the host holds up all it would issue after it") {
  ScheduleBuilder b(1);
  const OpIndex x = b.compute(0, "a", {5_ms});
  const OpIndex wait = b.host_wait(0, x);
  b.compute(0, "b", {1_ms});
  const auto spans = spans_of(run(b.schedule, star(1, 1_GBps, 0_us)), 0);
  CHECK(spans[2].start.si() == seconds(5e-3));
  CHECK(spans[wait.value()].start.si() == 0);
  CHECK(spans[wait.value()].end.si() == seconds(5e-3));
}

TEST_CASE("work of the host delays what it issues next, not what is already issued") {
  ScheduleBuilder b(1);
  b.compute(0, "a", {1_ms});
  b.host_work(0, 4_ms);
  b.compute(0, "a", {1_ms});
  const auto spans = spans_of(run(b.schedule, star(1, 1_GBps, 0_us)), 0);
  CHECK(spans[0].end.si() == seconds(1e-3));
  CHECK(spans[2].start.si() == seconds(4e-3));
}

TEST_CASE("a wait for an op that is long over costs nothing") {
  ScheduleBuilder b(1);
  const OpIndex x = b.compute(0, "a", {1_ms});
  b.host_work(0, 4_ms);
  b.host_wait(0, x);
  b.compute(0, "b", {1_ms});
  CHECK(spans_of(run(b.schedule, star(1, 1_GBps, 0_us)), 0)[3].start.si() == seconds(4e-3));
}

TEST_CASE("a collective starts when its last member has come; all end together") {
  // Ranks 0 and 1 come at 1 and 3 ms. All-gather of 2 MB over 1 GB/s links: 1 step of 1 MB = 1 ms, and 2 hops of 10 us.
  ScheduleBuilder b(2, 2);
  b.one_role_a_rank();
  for (std::size_t r = 0; r < 2; ++r) {
    const OpIndex x = b.compute(r, "compute", {r == 0 ? 1_ms : 3_ms});
    b.collective(r, "dp", CollectiveKind::AllGather, 2_MB, {x});
  }
  const RunResult result = run(b.schedule, star(2, 1_GBps, 10_us));
  for (unsigned r = 0; r < 2; ++r) {
    const Span span = spans_of(result, r)[1];
    CHECK(span.start.si() == seconds(r == 0 ? 1e-3 : 3e-3));
    CHECK(span.transfer.si() == seconds(3e-3));
    CHECK(span.end.si() == seconds(3e-3 + 1e-3 + 20e-6));
  }
}

TEST_CASE("a group of one has nothing to exchange") {
  ScheduleBuilder b(1);
  b.collective(0, "dp", CollectiveKind::AllReduce, 1_GB);
  CHECK(run(b.schedule, star(1, 1_GBps, 10_us)).step_time.si() == 0);
}

TEST_CASE("a send and its receive meet: neither moves data before the other is there") {
  ScheduleBuilder b(2, 2);
  b.one_role_a_rank();
  b.send(0, "send", 1, 1_MB);
  const OpIndex late = b.compute(1, "compute", {5_ms});
  b.receive(1, "recv", 0, 1_MB, false, {late});
  const RunResult result = run(b.schedule, star(2, 1_GBps, 10_us));
  const Span send = spans_of(result, 0)[0], receive = spans_of(result, 1)[1];
  CHECK(send.start.si() == 0);
  CHECK(send.transfer.si() == seconds(5e-3));
  CHECK(send.end.si() == seconds(6.02e-3));
  CHECK(receive.start.si() == seconds(5e-3));
  CHECK(receive.end.si() == seconds(6.02e-3));
}

TEST_CASE(
    "waiting for the sender and moving the data are told apart") {  // a receive of 12 ms: 11 waiting, 1 moving
  ScheduleBuilder b(2, 2);
  b.one_role_a_rank();
  const OpIndex before = b.compute(0, "compute", {11_ms});
  b.send(0, "send", 1, 1_MB, false, {before});
  b.receive(1, "recv", 0, 1_MB);
  const Span receive = spans_of(run(b.schedule, star(2, 1_GBps, 0_us)), 1)[0];
  CHECK((receive.transfer - receive.start).si() == seconds(11e-3));
  CHECK((receive.end - receive.transfer).si() == seconds(1e-3));
}

TEST_CASE("an eager send holds nobody up; its receive ends when the data are there") {
  struct Row {
    const char* name;
    Seconds receiver_comes;
    double receive_ends;
  };
  for (const Row& row : {Row{"receiver first", 0_ms, 3.02e-3}, Row{"receiver after arrival", 9_ms, 9e-3},
                         Row{"receiver on the way", Seconds(2.5e-3), 3.02e-3}}) {
    CAPTURE(row.name);
    ScheduleBuilder b(2, 2);
    b.one_role_a_rank();
    const OpIndex first = b.compute(0, "compute", {2_ms});
    b.send(0, "send", 1, 1_MB, true, {first});
    const OpIndex sent(1);
    b.compute(0, "compute", {1_ms}, {sent});
    const OpIndex delay = b.compute(1, "compute", {row.receiver_comes});
    b.receive(1, "recv", 0, 1_MB, true, {delay});
    const RunResult result = run(b.schedule, star(2, 1_GBps, 10_us));
    CHECK(spans_of(result, 0)[1].end.si() == seconds(2e-3));
    CHECK(spans_of(result, 0)[2].start.si() == seconds(2e-3));
    CHECK(spans_of(result, 1)[1].end.si() == seconds(row.receive_ends));
  }
}

TEST_CASE("messages between two ranks are matched in order") {
  ScheduleBuilder b(2, 2);
  b.one_role_a_rank();
  for (const Bytes bytes : {1_MB, 2_MB, 3_MB}) {
    b.send(0, "send", 1, bytes);
    b.receive(1, "recv", 0, bytes);
  }
  const auto received = spans_of(run(b.schedule, star(2, 1_GBps, 0_us)), 1);
  CHECK(received[0].end.si() == seconds(1e-3));
  CHECK(received[1].end.si() == seconds(3e-3));
  CHECK(received[2].end.si() == seconds(6e-3));
}

TEST_CASE("compute slows down while a communication kernel is on its device, and only then") {
  // Rate 0.5 while communicating. The all-gather lasts [1, 3] ms, compute of 10 ms begins at 0: by 3 ms it has done
  // 1 + 2·0.5 = 2 ms, the other 8 take until 11 ms.
  Device device = ideal_device();
  device.compute_rate_while_communicating = 0.5;
  ScheduleBuilder b(2);
  b.compute(0, "compute", {10_ms});
  const OpIndex first = b.compute(0, "other", {0_ms});
  const OpIndex second = b.compute(0, "wait", {1_ms}, {first});
  b.collective(0, "dp", CollectiveKind::AllGather, 4_MB, {second});
  const RunResult result = run(b.schedule, star(2, 1_GBps, 0_us, device));
  for (unsigned r = 0; r < 2; ++r) {
    CHECK(spans_of(result, r)[3].end.si() == seconds(3e-3));
    CHECK(spans_of(result, r)[0].end.si() == seconds(11e-3));
  }
}

TEST_CASE("a slow rank takes longer for the same work, a fast one less") {
  ScheduleBuilder b(3);
  b.compute(0, "compute", {10_ms});
  b.schedule.speeds = {{RankId(1), 1.25}, {RankId(2), 0.5}};
  const RunResult result = run(b.schedule, star(3, 1_GBps, 0_us));
  CHECK(spans_of(result, 0)[0].end.si() == seconds(10e-3));
  CHECK(spans_of(result, 1)[0].end.si() == seconds(12.5e-3));
  CHECK(spans_of(result, 2)[0].end.si() == seconds(5e-3));
}

TEST_CASE("the host's pace does not change with the speed of the device") {
  // Three kernels of 1 us issued every 10 us: the last at 30 us, and then 1 us, or 4 us on a rank four times slower.
  Device device = ideal_device();
  device.launch = 10_us;
  ScheduleBuilder b(2);
  b.compute(0, "a", {1_us, 1_us, 1_us});
  b.schedule.speeds = {{RankId(1), 4}};
  const RunResult result = run(b.schedule, star(2, 1_GBps, 0_us, device));
  CHECK(spans_of(result, 0)[0].end.si() == seconds(31e-6));
  CHECK(spans_of(result, 1)[0].end.si() == seconds(34e-6));
}

TEST_CASE("memory is taken at the start of an op and given back at its end; the peak says when and what") {
  using enum MemoryCategory;
  ScheduleBuilder b(1);
  b.schedule.roles[0].resident = {{Parameters, 10_GB}};
  b.compute(0, "a", {1_ms}, {}, {{Activations, 4_GB}});                      // 14
  b.compute(0, "a", {1_ms}, {}, {{Gradients, 5_GB}, {Activations, -4_GB}});  // 19 at its start, 15 after
  b.compute(0, "a", {1_ms}, {}, {{CommunicationBuffers, 3_GB}});             // 18
  Device device = ideal_device();
  device.memory = 16_GB;
  const RankMemory memory = run(b.schedule, star(1, 1_GBps, 0_us, device)).memory[0];
  CHECK(memory.peak == 19_GB);
  CHECK(memory.peak_time.si() == seconds(1e-3));
  CHECK(memory.peak_op == 1);
  CHECK_FALSE(memory.peak_at_start);
  CHECK(memory.at_peak[static_cast<std::size_t>(Parameters)] == 10_GB);
  CHECK(memory.at_peak[static_cast<std::size_t>(Activations)] == 4_GB);
  CHECK(memory.at_peak[static_cast<std::size_t>(Gradients)] == 5_GB);
  CHECK(memory.out_of_memory);
  CHECK(memory.out_of_memory_op == 1);
}

TEST_CASE("what fits is not called out of memory, and the peak may be at the start") {
  ScheduleBuilder b(1);
  b.schedule.roles[0].resident = {{MemoryCategory::Parameters, 10_GB}};
  b.compute(0, "a", {1_ms});
  Device device = ideal_device();
  device.memory = 10_GB;
  const RankMemory memory = run(b.schedule, star(1, 1_GBps, 0_us, device)).memory[0];
  CHECK(memory.peak == 10_GB);
  CHECK(memory.peak_at_start);
  CHECK_FALSE(memory.out_of_memory);
}

TEST_CASE("more ranks than places are refused") {
  ScheduleBuilder b(4);
  b.compute(0, "a", {1_ms});
  const Cluster small = star(2, 1_GBps, 0_us);
  PlainNetwork network(link_capacities(small.topology));
  CHECK_THROWS_AS(static_cast<void>(replay(b.schedule, small, Detail::Aggregate, network)),
                  std::invalid_argument);
}

TEST_CASE("a schedule that comes to a halt is reported, not answered") {
  ScheduleBuilder b(2, 2);
  b.one_role_a_rank();
  b.receive(1, "recv", 0, 1_MB);
  const Cluster cluster = star(2, 1_GBps, 0_us);
  PlainNetwork network(link_capacities(cluster.topology));
  CHECK_THROWS_WITH_AS(static_cast<void>(replay(b.schedule, cluster, Detail::Aggregate, network)),
                       "the schedule came to a halt: rank 1, op 0 (other op0) never ended", std::logic_error);
}

TEST_CASE("within a stream no two ops overlap, and no op starts before what it waits for has ended") {
  Device device = ideal_device();
  device.launch = 3_us;
  device.compute_rate_while_communicating = 0.8;
  ScheduleBuilder b(8);
  std::vector<OpIndex> previous;
  for (int i = 0; i < 20; ++i) {
    const OpIndex gather =
        b.collective(0, "gather", CollectiveKind::AllGather, Bytes(1e5 * (1 + i % 3)), previous);
    const OpIndex work = b.compute(0, "compute", {Seconds(1e-4 * (1 + i % 5)), 20_us}, {gather});
    b.collective(0, "reduce", CollectiveKind::ReduceScatter, Bytes(2e5), {work});
    previous = i % 2 == 0 ? std::vector<OpIndex>{} : std::vector<OpIndex>{work};
    if (i % 4 == 3) b.host_wait(0, work);
  }
  b.schedule.speeds = {{RankId(2), 1.3}, {RankId(5), 0.9}};
  const RunResult result = run(b.schedule, star(8, 1_GBps, 5_us, device));
  const std::vector<Op>& program = b.schedule.roles[0].program;
  for (unsigned r = 0; r < 8; ++r) {
    const auto spans = spans_of(result, r);
    REQUIRE(spans.size() == program.size());
    std::vector<Seconds> stream_free(b.schedule.streams.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      CHECK(spans[i].start <= spans[i].transfer);
      CHECK(spans[i].transfer <= spans[i].end);
      if (program[i].on_host()) continue;
      for (const OpIndex before : program[i].after) CHECK(spans[before.value()].end <= spans[i].start);
      Seconds& free = stream_free[program[i].stream.value()];
      CHECK(free <= spans[i].start);
      free = spans[i].end;
    }
  }
}

}  // namespace
}  // namespace syncline
