#include <fmt/format.h>

#include <algorithm>

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
    "overlap-share", "waiting-time", "peak-memory"};

std::string ratio_text(const RunSummary& run, const RunSummary& first) {
  return first.step_time.si() > 0 ? fmt::format("× {:.3f}", run.step_time / first.step_time) : Unknown;
}

std::string busiest_name(const RunSummary& run) {
  return run.busiest_links.empty() ? "none" : run.busiest_links.front().name;
}

std::string busiest_share(const RunSummary& run) {
  return run.busiest_links.empty() ? Unknown : percent(run.busiest_links.front().utilisation);
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
  text += line("topology", runs, [](const RunSummary& run) { return run.topology; });
  text += line("accelerators", runs, [](const RunSummary& run) { return fmt::format("{} × {}", run.ranks, run.device); });
  text += metric_line("step-time");
  text += line("  to the first", runs, [&](const RunSummary& run) { return ratio_text(run, first); });
  for (const std::string_view name : Compared) text += metric_line(name);
  text += line("busiest link", runs, busiest_name);
  text += line("  its utilisation", runs, busiest_share);
  return text;
}

}  // namespace syncline
