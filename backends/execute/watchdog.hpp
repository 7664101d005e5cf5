// Ends all ranks when nothing moves on one of them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/execute/plan.hpp"
#include "backends/execute/runtime.hpp"
#include "backends/execute/world.hpp"

namespace syncline {

/// What each stream of a rank, and its host, is at: the first op of each that has not ended, a line each.
/// @param ended  by place in the program, as Runtime::ended(); the host stands at or after `issued`
[[nodiscard]] std::string standing(const ExecutionPlan& plan, const RankProgram& program,
                                   const std::vector<bool>& ended, std::uint32_t issued);

/// Watches a rank while it lives. When no op of it ends, and its host does not go on, for the plan's timeout,
/// says on stderr what its streams are at, and aborts the world.
class Watchdog {
 public:
  Watchdog(const ExecutionPlan& plan, const RankProgram& program, const Runtime& runtime, World& world);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The host has come to this op. From the thread that walks.
  void host_at(std::uint32_t op) { issued_.store(op, std::memory_order_relaxed); }

 private:
  void watch();

  const ExecutionPlan& plan_;
  const RankProgram& program_;
  const Runtime& runtime_;
  World& world_;
  std::atomic<std::uint32_t> issued_ = 0;
  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace syncline
