// What an execution came to, as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/execute/plan.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/summary.hpp"
#include "sim/timeline/timeline.hpp"

namespace syncline {

/// How long a stream of a rank was busy in the step that is shown, in the mean over the ranks that use it.
struct StreamBusy {
  std::string stream;
  Seconds busy;
};

struct ExecutionReport {
  RunContext context;
  std::string backend;  // "mpi"
  std::size_t ranks = 0;
  double scale = 1;
  ComputeBy compute = ComputeBy::PlannedTime;
  ExecutionRecord record;
  Timeline timeline;                      // of the step that is shown
  std::optional<Seconds> simulated_step;  // of the same schedule; nothing where it cannot be simulated

  [[nodiscard]] Seconds step_time() const {
    return record.step_times[static_cast<std::size_t>(record.shown)];
  }
  [[nodiscard]] Seconds fastest() const;
  [[nodiscard]] Seconds slowest() const;
  /// (simulated − measured) / measured
  [[nodiscard]] std::optional<double> step_error() const;
};

[[nodiscard]] std::vector<StreamBusy> busy_streams(const Timeline& timeline);

/// For people, at most 100 columns.
[[nodiscard]] std::string execution_table(const ExecutionReport& report);
/// One JSON object; docs/execute.md has every key.
[[nodiscard]] std::string execution_json(const ExecutionReport& report);

}  // namespace syncline
