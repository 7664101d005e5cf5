#include <fmt/format.h>

#include <algorithm>

#include "sim/core/printable.hpp"
#include "sim/core/units.hpp"
#include "sim/report/metric_table.hpp"
#include "sim/report/pipeline_text.hpp"
#include "sim/report/summary.hpp"
#include "sim/report/text.hpp"

namespace syncline {
namespace {

constexpr std::size_t Columns = 100;
constexpr std::size_t LabelWidth = 26;
constexpr std::size_t NarrowestCell = 15;  // of many runs, which then need a wider page
constexpr const char* Unknown = "-";

// The rows between the heading and the links, in this order.
constexpr std::string_view OfCompute[] = {"tokens-per-s-per-accelerator", "mfu", "compute-time"};
constexpr std::string_view OfCommunication[] = {"communication-time", "exposed-communication",
                                                "exposed-share", "overlap-share", "waiting-time"};
constexpr std::string_view OfExperts[] = {"expert-imbalance", "expert-wait"};
constexpr std::string_view OfBubbles[] = {"bubble-of-total", "bubble-of-ideal", "bubble-of-span",
                                          "peak-activations"};

constexpr double SameWork = 0.01;  // ideal times that differ by less are of the same work

std::string ratio_text(const RunSummary& run, const RunSummary& first) {
  return first.step_time.si() > 0 ? fmt::format("× {:.3f}", run.step_time / first.step_time) : Unknown;
}

std::string bubble_text(const RunSummary& run) {
  return run.pipeline ? to_text(run.pipeline->bubble()) : Unknown;
}

// What makes bubbles of textbooks hard to compare. Of training runs other layouts give a rank other work.
std::string work_text(std::span<const RunSummary> runs) {
  if (!std::ranges::all_of(runs, is_textbook)) return "";
  const auto ideal = [](const RunSummary& run) { return run.pipeline->mean_busy; };
  const Seconds least = ideal(std::ranges::min(runs, {}, ideal)),
                most = ideal(std::ranges::max(runs, {}, ideal));
  if (most <= least * (1 + SameWork)) return "";
  return fmt::format("the runs do not do the same work: ideal times differ, from {} to {}\n", to_text(least),
                     to_text(most));
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

bool out_of_memory(const RunSummary& run) {
  return run.memory && run.memory->ranks_out_of_memory > 0;
}

std::string fit_text(const RunSummary& run) {
  if (!run.memory || !run.memory->capacity) return Unknown;
  return out_of_memory(run) ? "OUT OF MEMORY" : "yes";
}

std::string line(std::string_view label, std::span<const RunSummary> runs, auto&& cell) {
  std::string text = left(label, LabelWidth);
  const std::size_t cell_width =
      std::max(NarrowestCell, (Columns - LabelWidth) / std::max<std::size_t>(runs.size(), 3) - 1);
  for (const RunSummary& run : runs) text += " " + right(cell(run), cell_width);
  return text + "\n";
}

}  // namespace

std::string comparison_table(std::span<const RunSummary> runs) {
  if (runs.empty()) return "";
  const RunSummary& first = runs.front();
  const auto metric_line = [&](std::string_view name) {
    const MetricInfo& metric = find_metric(name);
    const bool known = std::any_of(runs.begin(), runs.end(),
                                   [&](const RunSummary& run) { return metric.value(run).has_value(); });
    if (!known) return std::string();
    return line(metric.label, runs, [&](const RunSummary& run) {
      const auto value = metric.value(run);
      return value ? to_text(metric, *value) : std::string(Unknown);
    });
  };
  std::string text = line("", runs, [](const RunSummary& run) { return run.context.scenario; });
  const auto named = [](const RunSummary& run) { return !run.context.model.empty(); };
  if (std::any_of(runs.begin(), runs.end(), named))
    text += line("model", runs, [](const RunSummary& run) {
      return run.context.model.empty() ? Unknown : run.context.model;
    });
  const bool links =
      std::ranges::any_of(runs, [](const RunSummary& run) { return !is_textbook(run) || carries_data(run); });
  if (links) text += line("topology", runs, [](const RunSummary& run) { return run.topology; });
  text += line("accelerators", runs,
               [](const RunSummary& run) { return fmt::format("{} × {}", run.ranks, run.device); });
  text += metric_line("step-time");
  text += line("  to the first", runs, [&](const RunSummary& run) { return ratio_text(run, first); });
  const auto add = [&](std::span<const std::string_view> names) {
    for (const std::string_view name : names) text += metric_line(name);
  };
  add(OfCompute);
  if (links) add(OfCommunication);
  add(OfExperts);
  text += metric_line("pipeline-time");
  if (std::ranges::any_of(runs, [](const RunSummary& run) { return run.pipeline.has_value(); }))
    text += line("bubble", runs, bubble_text);
  add(OfBubbles);
  const auto needs_memory = [](const RunSummary& run) { return !is_textbook(run) || run.memory; };
  if (std::ranges::any_of(runs, needs_memory)) text += line("peak memory", runs, memory_text);
  if (std::any_of(runs.begin(), runs.end(), out_of_memory)) text += line("  fits", runs, fit_text);
  if (links)
    text += line("busiest link", runs, busiest_name) + line("  its utilisation", runs, busiest_share);
  text += work_text(runs);
  // One command gives all runs the same values.
  if (!first.context.overrides.empty())
    text += printable(fmt::format("changed by --set: {}", fmt::join(first.context.overrides, ", "))) + "\n";
  return text;
}

}  // namespace syncline
