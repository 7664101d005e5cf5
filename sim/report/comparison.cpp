#include <fmt/format.h>

#include <algorithm>

#include "sim/core/printable.hpp"
#include "sim/core/units.hpp"
#include "sim/report/metric_table.hpp"
#include "sim/report/summary.hpp"
#include "sim/report/text.hpp"

namespace syncline {
namespace {

constexpr std::size_t Columns = 100;
constexpr std::size_t LabelWidth = 26;
constexpr std::size_t NarrowestCell = 15;  // of many runs, which then need a wider page
constexpr const char* Unknown = "-";

// The rows between the heading and the links.
constexpr std::string_view Compared[] = {
    "tokens-per-s-per-accelerator", "mfu", "compute-time", "communication-time", "exposed-communication", "exposed-share",
    "overlap-share", "waiting-time", "pipeline-time", "bubble-of-total", "bubble-of-ideal", "bubble-of-span",
    "peak-activations"};

std::string ratio_text(const RunSummary& run, const RunSummary& first) {
  return first.step_time.si() > 0 ? fmt::format("× {:.3f}", run.step_time / first.step_time) : Unknown;
}

std::string busiest_name(const RunSummary& run) {
  return run.busiest_links.empty() ? "none" : run.busiest_links.front().name;
}

std::string busiest_share(const RunSummary& run) {
  return run.busiest_links.empty() ? Unknown : percent(run.busiest_links.front().utilisation);
}

// "66.11 GB of 80 GB".
std::string memory_text(const RunSummary& run) {
  if (!run.memory) return Unknown;
  const std::string peak = to_text(run.memory->peak);
  return run.memory->capacity ? fmt::format("{} of {}", peak, to_text(*run.memory->capacity)) : peak;
}

bool out_of_memory(const RunSummary& run) { return run.memory && run.memory->ranks_out_of_memory > 0; }

std::string fit_text(const RunSummary& run) {
  if (!run.memory || !run.memory->capacity) return Unknown;
  return out_of_memory(run) ? "OUT OF MEMORY" : "yes";
}

std::string line(std::string_view label, std::span<const RunSummary> runs, auto&& cell) {
  std::string text = left(label, LabelWidth);
  const std::size_t cell_width = std::max(NarrowestCell, (Columns - LabelWidth) / std::max<std::size_t>(runs.size(), 3) - 1);
  for (const RunSummary& run : runs) text += " " + right(cell(run), cell_width);
  return text + "\n";
}

}  // namespace

std::string comparison_table(std::span<const RunSummary> runs) {
  if (runs.empty()) return "";
  const RunSummary& first = runs.front();
  const auto metric_line = [&](std::string_view name) {
    const MetricInfo& metric = find_metric(name);
    const bool known = std::any_of(runs.begin(), runs.end(), [&](const RunSummary& run) { return metric.value(run).has_value(); });
    if (!known) return std::string();
    return line(metric.label, runs, [&](const RunSummary& run) {
      const auto value = metric.value(run);
      return value ? to_text(metric, *value) : std::string(Unknown);
    });
  };
  std::string text = line("", runs, [](const RunSummary& run) { return run.context.scenario; });
  const auto named = [](const RunSummary& run) { return !run.context.model.empty(); };
  if (std::any_of(runs.begin(), runs.end(), named))
    text += line("model", runs, [](const RunSummary& run) { return run.context.model.empty() ? Unknown : run.context.model; });
  text += line("topology", runs, [](const RunSummary& run) { return run.topology; });
  text += line("accelerators", runs, [](const RunSummary& run) { return fmt::format("{} × {}", run.ranks, run.device); });
  text += metric_line("step-time");
  text += line("  to the first", runs, [&](const RunSummary& run) { return ratio_text(run, first); });
  for (const std::string_view name : Compared) text += metric_line(name);
  text += line("peak memory", runs, memory_text);
  if (std::any_of(runs.begin(), runs.end(), out_of_memory)) text += line("  fits", runs, fit_text);
  text += line("busiest link", runs, busiest_name);
  text += line("  its utilisation", runs, busiest_share);
  // One command gives all runs the same values.
  if (!first.context.overrides.empty())
    text += printable(fmt::format("changed by --set: {}", fmt::join(first.context.overrides, ", "))) + "\n";
  return text;
}

}  // namespace syncline
