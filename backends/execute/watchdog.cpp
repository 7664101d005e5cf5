#include "backends/execute/watchdog.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <set>

#include "sim/core/units.hpp"

namespace syncline {
namespace {

constexpr int Looks = 20;                   // in the time that is allowed
constexpr std::chrono::seconds ToSpeak{1};  // for other ranks that hang, before all are ended

std::chrono::duration<double> duration_of(Seconds time) {
  return std::chrono::duration<double>(time.si());
}

}  // namespace

std::string standing(const ExecutionPlan& plan, const RankProgram& program, const std::vector<bool>& ended,
                     std::uint32_t issued) {
  std::string text;
  std::set<StreamId> seen;
  for (std::uint32_t op = 0; op < issued && op < program.steps.size(); ++op) {
    const Step& step = program.steps[op];
    if (on_host(step.task) || ended[op] || !seen.insert(step.stream).second) continue;
    text += fmt::format("  {}: {}\n", plan.schedule.streams[step.stream.value()], describe(plan, program, op));
    for (const std::uint32_t earlier : step.after)
      if (!ended[earlier]) text += fmt::format("    behind {}\n", describe(plan, program, earlier));
  }
  if (issued < program.steps.size())
    text += fmt::format("  host: at {}\n", describe(plan, program, issued));
  if (text.empty()) text = "  host: between two steps, waiting for other ranks\n";
  return text;
}

Watchdog::Watchdog(const ExecutionPlan& plan, const RankProgram& program, const Runtime& runtime, World& world)
    : plan_(plan), program_(program), runtime_(runtime), world_(world), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  over_changed_.notify_all();
  thread_.join();
}

void Watchdog::watch() {
  using Clock = std::chrono::steady_clock;
  std::vector<bool> ended;
  std::uint32_t issued = 0;
  Clock::time_point moved = Clock::now();
  std::unique_lock lock(mutex_);
  while (!over_changed_.wait_for(lock, duration_of(plan_.timeout / Looks), [this] { return over_; })) {
    std::vector<bool> now_ended = runtime_.ended();
    const std::uint32_t now_issued = issued_.load(std::memory_order_relaxed);
    if (now_ended != ended || now_issued != issued) {
      ended = std::move(now_ended);
      issued = now_issued;
      moved = Clock::now();
      continue;
    }
    if (Clock::now() - moved < duration_of(plan_.timeout)) continue;
    const std::string text = fmt::format("rank {}: nothing has moved for {}; it is at\n{}", program_.rank.value(),
                                         to_text(plan_.timeout), standing(plan_, program_, ended, issued));
    std::fputs(text.c_str(), stderr);  // in one piece
    std::this_thread::sleep_for(ToSpeak);
    world_.abort(1);
  }
}

}  // namespace syncline
