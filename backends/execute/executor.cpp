#include "backends/execute/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "backends/execute/clock_sync.hpp"
#include "backends/execute/measured_schedule.hpp"
#include "backends/execute/watchdog.hpp"
#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/timeline/trace.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;

/// Issues one op after another.
class Walk {
 public:
  Walk(const RankProgram& program, Runtime& runtime, const std::function<void(std::uint32_t)>& at_op)
      : program_(program), runtime_(runtime), at_op_(at_op) {}

  std::vector<OpTimes> run() {
    const auto count = static_cast<std::uint32_t>(program_.steps.size());
    std::vector<OpTimes> host(count);
    runtime_.begin();
    for (std::uint32_t op = 0; op < count; ++op) {
      at_op_(op);
      host[op].start = runtime_.now();
      for (const std::uint32_t earlier : program_.steps[op].after)
        runtime_.wait_for(program_.steps[op].stream, earlier);
      std::visit([&](const auto& task) { issue(op, task); }, program_.steps[op].task);
      host[op].end = runtime_.now();
    }
    at_op_(count);
    std::vector<OpTimes> times = runtime_.finish();
    for (std::uint32_t op = 0; op < count; ++op) {
      const Task& task = program_.steps[op].task;
      if (on_host(task)) times[op] = host[op];
    }
    return times;
  }

 private:
  template <class DeviceTask>
  void issue(std::uint32_t op, const DeviceTask& task) {
    runtime_.launch(program_.steps[op].stream, op, task);
  }
  void issue(std::uint32_t, const HostWork& work) {
    std::this_thread::sleep_for(std::chrono::duration<double>(work.duration.si()));
  }
  void issue(std::uint32_t, const HostWait& wait) {
    const Task& awaited = program_.steps[wait.op.value()].task;
    if (!on_host(awaited)) runtime_.synchronize(wait.op.value());
  }

  const RankProgram& program_;
  Runtime& runtime_;
  const std::function<void(std::uint32_t)>& at_op_;
};

/// At rank 0: what all ranks measured; elsewhere nothing.
RankTimes gather(World& world, const std::vector<OpTimes>& mine) {
  if (world.rank() != 0) {
    world.send(0, std::as_bytes(std::span(mine)));
    return {};
  }
  RankTimes all{mine};
  for (int rank = 1; rank < world.size(); ++rank) {
    const std::vector<std::byte> bytes = world.receive(rank);
    std::vector<OpTimes>& times = all.emplace_back(bytes.size() / sizeof(OpTimes));
    std::memcpy(times.data(), bytes.data(), times.size() * sizeof(OpTimes));
  }
  return all;
}

/// What rank 0 keeps of the repeats, and writes.
class Results {
 public:
  Results(const ExecutionPlan& plan, const Runtime& runtime, const fs::path& folder)
      : plan_(plan), runtime_(runtime), folder_(folder), measured_(plan) {}

  void add(RankTimes times, const std::vector<ClockOffset>& before, const std::vector<ClockOffset>& after) {
    for (std::size_t rank = 0; rank < times.size(); ++rank) {
      for (OpTimes& op : times[rank])
        op = {on_rank_0(op.start, before[rank], after[rank]), on_rank_0(op.end, before[rank], after[rank])};
      record_.clock_error = std::max({record_.clock_error, before[rank].error, after[rank].error});
    }
    timelines_.push_back(measured_.timeline(times));
    const std::vector<Span>& spans = timelines_.back().spans;
    record_.step_times.push_back(spans.empty() ? Seconds(0) : std::ranges::max(spans, {}, &Span::end).end);
    write();
  }

 private:
  void write() {
    std::vector<int> order(record_.step_times.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int i) { return record_.step_times[static_cast<std::size_t>(i)]; });
    record_.shown = order[(order.size() - 1) / 2];
    Timeline timeline = timelines_[static_cast<std::size_t>(record_.shown)];
    timeline.about = runtime_.about();
    timeline.about.emplace_back(ComputeKey, name_of(plan_.compute));
    timeline.about.emplace_back("warm-up", std::to_string(plan_.warmup));
    timeline.about.emplace_back("repeats", std::to_string(record_.step_times.size()));
    timeline.about.emplace_back("step-times", to_texts(record_.step_times));
    timeline.about.emplace_back("shown", fmt::format("repeat {}, of the median step", record_.shown + 1));
    timeline.about.emplace_back("clock-error", "up to " + to_text(record_.clock_error));
    const fs::path file = folder_ / TimelineFile, fresh = file.string() + ".new";
    write_trace(fresh.string(), timeline);
    std::error_code failed;
    fs::rename(fresh, file, failed);  // who is cut short leaves the one before
    if (failed) throw EnvironmentError(fmt::format("cannot write {}: {}", file.string(), failed.message()));
    write_record(folder_, record_);
  }

  static std::string to_texts(const std::vector<Seconds>& times) {
    std::string text;
    for (const Seconds time : times) text += (text.empty() ? "" : ", ") + to_text(time);
    return text;
  }

  const ExecutionPlan& plan_;
  const Runtime& runtime_;
  const fs::path folder_;
  const MeasuredSchedule measured_;
  std::vector<Timeline> timelines_;  // by repeat
  ExecutionRecord record_;
};

}  // namespace

std::vector<OpTimes> walk(const RankProgram& program, Runtime& runtime,
                          const std::function<void(std::uint32_t)>& at_op) {
  return Walk(program, runtime, at_op).run();
}

void execute(const ExecutionPlan& plan, World& world, Runtime& runtime, const fs::path& folder) {
  const auto now = [&runtime] { return runtime.now(); };
  const std::string clock = runtime.clock();
  const RankProgram program = rank_program(plan, RankId(static_cast<std::size_t>(world.rank())));
  std::optional<Results> results;
  if (world.rank() == 0) results.emplace(plan, runtime, folder);
  runtime.prepare(program);
  Watchdog watchdog(plan, program, runtime, world);  // between steps, too: ranks wait for each other there
  for (int step = 0; step < plan.warmup + plan.repeats; ++step) {
    const std::vector<ClockOffset> before = measure_offsets(world, clock, now);
    world.barrier();
    const std::vector<OpTimes> times = walk(program, runtime, [&](std::uint32_t op) { watchdog.host_at(op); });
    world.barrier();
    const std::vector<ClockOffset> after = measure_offsets(world, clock, now);
    if (step < plan.warmup) continue;
    RankTimes all = gather(world, times);
    if (results) results->add(std::move(all), before, after);
  }
}

}  // namespace syncline
