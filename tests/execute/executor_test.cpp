#include "backends/execute/executor.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "backends/execute/measured_schedule.hpp"
#include "backends/execute/thread_world.hpp"
#include "backends/execute/watchdog.hpp"
#include "sim/timeline/trace.hpp"
#include "tests/config/fixture.hpp"
#include "tests/execute/local_runtime.hpp"
#include "tests/execute/plans.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

/// What a runtime was asked for, in order.
class Listener : public Runtime {
 public:
  void prepare(const RankProgram&) override {}
  void begin() override { say("begin"); }
  void wait_for(StreamId stream, std::uint32_t op) override {
    say("wait " + std::to_string(stream.value()) + " for " + std::to_string(op));
  }
  void launch(StreamId stream, std::uint32_t op, const ComputeTask&) override { launched("compute", stream, op); }
  void launch(StreamId stream, std::uint32_t op, const CollectiveTask&) override {
    launched("collective", stream, op);
  }
  void launch(StreamId stream, std::uint32_t op, const TransferTask& task) override {
    launched(task.sends ? "send" : "receive", stream, op);
  }
  void synchronize(std::uint32_t op) override { say("synchronize " + std::to_string(op)); }
  std::vector<OpTimes> finish() override {
    say("finish");
    return std::vector<OpTimes>(8);
  }
  Seconds now() const override { return Seconds(clock_ += 1); }
  std::vector<bool> ended() const override { return {}; }
  std::vector<std::pair<std::string, std::string>> about() const override { return {}; }

  std::vector<std::string> heard;

 private:
  void say(const std::string& text) { heard.push_back(text); }
  void launched(const std::string& what, StreamId stream, std::uint32_t op) {
    say(what + " " + std::to_string(op) + " on " + std::to_string(stream.value()));
  }
  mutable double clock_ = 0;
};

/// All ranks as threads, rank r's clock r · `apart` ahead.
Timeline run(const ExecutionPlan& plan, const std::filesystem::path& folder, Seconds apart) {
  const auto ranks = static_cast<int>(plan.schedule.world_size());
  const auto worlds = thread_worlds(ranks);
  MeetingPlace place;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      LocalRuntime runtime(place, plan.schedule.streams.size(), apart * rank);
      execute(plan, *worlds[static_cast<std::size_t>(rank)], runtime, folder);
    });
  for (std::thread& thread : threads) thread.join();
  return read_trace((folder / TimelineFile).string());
}

}  // namespace

TEST_CASE("the host walks a program in order, waits between streams, and stops where it must") {
  const ExecutionPlan plan = two_stages();
  Listener runtime;
  std::vector<std::uint32_t> at;
  const std::vector<OpTimes> times =
      walk(rank_program(plan, RankId(0)), runtime, [&](std::uint32_t op) { at.push_back(op); });
  CHECK(runtime.heard ==
        std::vector<std::string>{"begin", "compute 0 on 0", "wait 1 for 0", "send 1 on 1", "receive 2 on 1",
                                 "wait 0 for 2", "compute 3 on 0", "wait 2 for 3", "collective 4 on 2",
                                 "synchronize 4", "collective 6 on 2", "collective 7 on 2", "finish"});
  CHECK(at == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(times[5].end > times[5].start);  // the host's wait is measured by its own clock
}

TEST_CASE("what ranks measured is a timeline that follows the schedule") {
  const Folder folder;
  ExecutionPlan plan = two_stages();
  plan.repeats = 3;
  const Timeline timeline = run(plan, folder / ".", Seconds(0.003));
  CHECK(timeline.source == "measured: by hand");
  CHECK(timeline.ranks == 4);
  REQUIRE(timeline.spans.size() == 32);

  const ExecutionRecord record = read_record(folder / ".");
  REQUIRE(record.step_times.size() == 3);
  const Seconds shown = record.step_times[static_cast<std::size_t>(record.shown)];
  CHECK(std::ranges::count_if(record.step_times, [&](Seconds s) { return s <= shown; }) >= 2);  // the median
  CHECK(std::ranges::count_if(record.step_times, [&](Seconds s) { return s >= shown; }) >= 2);
  CHECK(record.clock_error < Seconds(0.003));
  CHECK(std::ranges::find(timeline.about, std::pair<std::string, std::string>("repeats", "3")) !=
        timeline.about.end());

  // Clocks 3 ms apart, so what follows holds only when they were set right.
  const double slack = 2 * record.clock_error.si() + 1e-9;
  const auto at = [&](std::size_t rank, std::size_t op) { return timeline.spans[rank * 8 + op]; };
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const std::vector<Op>& program = plan.schedule.role(RankId(rank)).program;
    std::map<StreamId, Seconds> stream_free;
    for (std::size_t op = 0; op < 8; ++op) {
      const Span& span = at(rank, op);
      CHECK(span.rank == RankId(rank));
      CHECK(span.start <= span.transfer);
      CHECK(span.transfer <= span.end);
      for (const OpIndex earlier : program[op].after) CHECK(at(rank, earlier.value()).end <= span.start);
      if (program[op].on_host()) continue;
      Seconds& free = stream_free[program[op].stream];
      CHECK(free <= span.start);
      free = span.end;
    }
  }
  for (const std::size_t rank : {0, 1}) {
    CHECK(std::abs((at(rank, 1).transfer - at(rank + 2, 0).transfer).si()) <= slack);  // both ends of a pair
    CHECK(at(rank + 2, 0).end.si() >= at(rank, 1).start.si() - slack);
    CHECK((at(rank, 3).end - at(rank, 3).start).si() >= 0.02 * (rank == 0 ? 0.5 : 1.5));
  }
  CHECK(std::abs((at(0, 4).transfer - at(1, 4).transfer).si()) <= slack);  // all members of a collective
  CHECK(at(0, 4).transfer.si() >= std::max(at(0, 4).start, at(1, 4).start).si() - slack);  // when the last has come
  for (const TimelineOp& op : timeline.ops) CHECK(op.algorithm.empty());
}

TEST_CASE("an eager sender waits for nobody, its receiver for the sender") {
  const ExecutionPlan plan = plan_of(R"(mesh dense axes=pp:2
stream s
role 0 "a" ranks=0
  op 0 send to=1 bytes=1 eager stream=s
role 1 "b" ranks=1
  op 0 receive from=0 bytes=1 eager stream=s
)",
                                     {});
  const MeasuredSchedule measured(plan);
  const Timeline late_receiver = measured.timeline({{{Seconds(1), Seconds(1.5)}}, {{Seconds(4), Seconds(4.5)}}});
  CHECK(late_receiver.spans[0].transfer == Seconds(0));
  CHECK(late_receiver.spans[1].transfer == Seconds(3));
  const Timeline late_sender = measured.timeline({{{Seconds(4), Seconds(4.5)}}, {{Seconds(1), Seconds(4.5)}}});
  CHECK(late_sender.spans[0].transfer == Seconds(3));
  CHECK(late_sender.spans[1].transfer == Seconds(3));
}

TEST_CASE("who hangs says what each stream is at, and what that stands behind") {
  const ExecutionPlan plan = two_stages();
  const RankProgram program = rank_program(plan, RankId(0));
  std::vector<bool> ended(8, false);
  ended[0] = ended[1] = true;
  CHECK(standing(plan, program, ended, 5) ==
        "  pp: receive of 4.096 kB from rank 2, B microbatch 0\n"
        "  compute: backward for 10 ms, B microbatch 0\n"
        "    behind receive of 4.096 kB from rank 2, B microbatch 0\n"
        "  dp: all-reduce of 8.192 kB with dp 0 on dp, B\n"
        "    behind backward for 10 ms, B microbatch 0\n"
        "  host: at host wait for op 4\n");
  ended.assign(8, true);
  CHECK(standing(plan, program, ended, 8) == "  host: between two steps, waiting for other ranks\n");
}
