#include "tools/score_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/config/scenario.hpp"
#include "sim/core/error.hpp"
#include "sim/score/measured_time.hpp"
#include "sim/score/row_scenario.hpp"
#include "tools/question.hpp"

namespace syncline {
namespace {

using score::RowResult;
using score::RowScenario;
using score::TrainingRow;

std::string joined(const TrainingRow& row, std::initializer_list<std::string_view> columns) {
  std::string text;
  for (const std::string_view column : columns) text += row.text(column) + ';';
  return text;
}

RowResult described(const RowScenario& scenario) {
  const TrainingRow& row = scenario.row;
  RowResult result;
  result.table = row.table();
  result.id = row.id();
  result.source = row.text("source");
  result.gpu = row.text("gpu");
  result.precision = row.text("precision");
  result.family = score::family_of(row.text("model"));
  const std::string& experts = row.text("experts");
  result.dense = (experts.empty() || experts == "0") && score::has_measured_time(row);
  result.job =
      joined(row, {"layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "gpu", "n_gpus", "gbs"});
  result.plan = scenario.plan + joined(row, {"precision", "recompute", "schedule", "fsdp", "zero_stage"});
  result.memory_run = row.text("memory_run");
  result.measured_memory_bytes = row.number("memory_bytes");
  result.assumptions = scenario.assumptions;
  result.refusal = scenario.refusal;
  return result;
}

std::string first_line(const InputError& error) {
  std::string text;
  for (const Diagnostic& diagnostic : error.diagnostics())
    text += (text.empty() ? "" : "; ") + diagnostic.message;
  return text;
}

/// Of the fullest rank. Frameworks report what their allocator holds; a driver counts the context too.
Bytes peak_memory(const RunResult& run, const std::string& kind) {
  const bool by_driver = kind.find("driver") != std::string::npos;
  Bytes peak{};
  for (const RankMemory& memory : run.memory) {
    const Bytes context = memory.at_peak[static_cast<std::size_t>(MemoryCategory::Reserve)];
    peak = std::max(peak, by_driver ? memory.peak : memory.peak - context);
  }
  return peak;
}

void simulate(const RowScenario& row, RowResult& result) {
  const Scenario scenario = parse_scenario(row.text, fmt::format("row {}", row.row.id()));
  result.scenario_hash = fmt::format("{:016x}", scenario.hash);
  const auto measured = score::measured_time(row.row, scenario);
  if (!measured) {
    result.refusal = "no measured step time";
    return;
  }
  result.measured_s = measured->step.si();
  result.measured_from = measured->from;
  const Schedule schedule = make_schedule(scenario);
  const Cluster cluster{build_topology(scenario.topology), scenario.device,
                        placement_in_order(schedule.world_size())};
  RunOptions options;
  options.fold = scenario.fold;
  const RunResult run = make_simgrid_backend()->run(schedule, cluster, options);
  result.predicted_s = run.step_time.si();
  result.predicted_memory_bytes = peak_memory(run, row.row.text("memory_kind")).si();
  result.out_of_memory = std::ranges::any_of(run.memory, &RankMemory::out_of_memory);
}

}  // namespace

RowResult predict_row(const TrainingRow& row, const std::vector<score::Rule>& rules) {
  const RowScenario scenario = score::scenario_of(row, rules);
  RowResult result = described(scenario);
  if (!result.refusal.empty()) return result;
  try {
    simulate(scenario, result);
  } catch (const InputError& error) {
    result.refusal = first_line(error);
  } catch (const std::invalid_argument& error) {  // of the backend: the cluster lacks something
    result.refusal = error.what();
  } catch (const std::bad_alloc&) {
    result.refusal = "too large: does not fit in this machine's memory";
  } catch (const std::exception& error) {
    result.refusal = error.what();
    result.our_bug = true;
  }
  return result;
}

RowResult refused_row(const TrainingRow& row, const std::vector<score::Rule>& rules,
                      const std::string& reason, bool our_bug) {
  RowResult result = described(score::scenario_of(row, rules));
  result.refusal = reason;
  result.our_bug = our_bug;
  return result;
}

}  // namespace syncline
