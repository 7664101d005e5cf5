#include "sim/report/pipeline_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/report/metric_table.hpp"
#include "sim/report/text.hpp"

namespace syncline {

std::string bubble_line(const PipelineMetrics& metrics, const TimeText& time) {
  return fmt::format("bubble {} = {} of the total = {} of the ideal {}; {} of the longest rank's span",
                     time(metrics.bubble()), percent(metrics.bubble_of_total),
                     percent(metrics.bubble_of_ideal), time(metrics.mean_busy),
                     percent(metrics.bubble_of_span));
}

std::string bubble_table(const PipelineMetrics& metrics, const TimeText& time) {
  static constexpr std::array<const char*, PipelinePhaseCount> Phases{"warm-up", "steady", "cool-down"};
  std::vector<std::vector<std::string>> rows{
      {"bubble, mean of ranks", "waiting for a rank", "for a transfer", "other", "total"}};
  const auto add = [&](const std::string& label, const Idle& idle) {
    rows.push_back({label, time(idle.neighbour), time(idle.transfer), time(idle.other), time(idle.total())});
  };
  Idle sum;
  for (std::size_t phase = 0; phase < PipelinePhaseCount; ++phase) {
    const Idle& idle = metrics.idle[phase];
    add(Phases[phase], idle);
    sum = {sum.neighbour + idle.neighbour, sum.transfer + idle.transfer, sum.other + idle.other};
  }
  add("all", sum);
  if (sum.other > Seconds(0)) return aligned(rows, "lrrrr");
  for (auto& row : rows) row.erase(row.begin() + 3);
  return aligned(rows, "lrrr");
}

std::string peaks_text(const std::vector<int>& by_rank) {
  constexpr std::size_t Most = 16;
  if (by_rank.size() <= Most) return fmt::format("{}", fmt::join(by_rank, " "));
  const auto [least, most] = std::ranges::minmax(by_rank);
  if (least == most) return fmt::format("{} on every rank", most);
  return fmt::format("{} to {}; {} on rank 0", least, most, by_rank.front());
}

bool is_textbook(const RunSummary& run) {
  return run.pipeline.has_value() && run.precision.empty();
}

bool carries_data(const RunSummary& run) {
  return std::ranges::any_of(run.link_kinds,
                             [](const LinkKindSummary& kind) { return kind.carried > Bytes(0); });
}

}  // namespace syncline
