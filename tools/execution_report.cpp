#include "tools/execution_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/core/units.hpp"
#include "sim/report/text.hpp"

namespace syncline {
namespace {

using json = nlohmann::ordered_json;

std::string percent(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

std::string signed_percent(double share) {
  return fmt::format("{:+.1f} %", share * 100);
}

Metrics metrics_of(const ExecutionReport& report) {
  return compute_metrics(report.timeline, Job{}, FlopPerSecond(0));
}

std::vector<std::vector<std::string>> head_rows(const ExecutionReport& report) {
  const ExecutionRecord& record = report.record;
  const bool any = report.step_time() > Seconds(0);
  const double spread = any ? (report.slowest() - report.fastest()) / report.step_time() : 0;
  std::vector<std::vector<std::string>> rows{
      {"executed by", fmt::format("{}, {} ranks", report.backend, report.ranks)},
      {"compute",
       fmt::format("by {}{}", report.compute == ComputeBy::PlannedTime ? "planned time" : "kernels",
                   report.scale == 1 ? "" : fmt::format(", scaled by {}", report.scale))},
      {"step time", fmt::format("{}, median of {}: {} to {}, spread {}", to_text(report.step_time()),
                                record.step_times.size(), to_text(report.fastest()),
                                to_text(report.slowest()), percent(spread))}};
  if (report.simulated_step)
    rows.push_back({"simulated", fmt::format("{}, {}", to_text(*report.simulated_step),
                                             signed_percent(*report.step_error()))});
  rows.push_back({"clocks", fmt::format("agree to {}", to_text(record.clock_error))});
  return rows;
}

std::string stream_rows(const ExecutionReport& report) {
  std::vector<std::vector<std::string>> rows{{"stream", "busy", "of the step"}};
  for (const StreamBusy& stream : busy_streams(report.timeline))
    rows.push_back({stream.stream, to_text(stream.busy), percent(report.step_time() > Seconds(0) ? stream.busy / report.step_time() : 0)});
  return aligned(rows, "lrr");
}

std::string traffic_rows(const Metrics& metrics) {
  std::vector<std::vector<std::string>> rows{
      {"communication", "group", "bytes", "ops", "took", "of it waiting", "exposed"}};
  for (const Traffic& traffic : metrics.traffic) {
    const Seconds took = traffic.mean_transfer + traffic.mean_waiting;
    rows.push_back({traffic.op, traffic.group, to_text(traffic.bytes), std::to_string(traffic.kernels),
                    to_text(took), percent(took > Seconds(0) ? traffic.mean_waiting / took : 0),
                    percent(traffic.exposed_share)});
  }
  return rows.size() == 1 ? "" : "\n" + aligned(rows, "llrrrrr");
}

}  // namespace

Seconds ExecutionReport::fastest() const {
  return std::ranges::min(record.step_times);
}

Seconds ExecutionReport::slowest() const {
  return std::ranges::max(record.step_times);
}

std::optional<double> ExecutionReport::step_error() const {
  if (!simulated_step || step_time() == Seconds(0)) return std::nullopt;
  return (*simulated_step - step_time()) / step_time();
}

std::vector<StreamBusy> busy_streams(const Timeline& timeline) {
  std::vector<Seconds> busy(timeline.streams.size());
  std::vector<std::set<RankId>> users(timeline.streams.size());
  for (const Span& span : timeline.spans) {
    const TimelineOp& op = timeline.ops[span.op];
    if (op.kind == SpanKind::Host) continue;
    busy[op.stream.value()] += span.end - span.start;
    users[op.stream.value()].insert(span.rank);
  }
  std::vector<StreamBusy> streams;
  for (std::size_t i = 0; i < busy.size(); ++i)
    if (!users[i].empty())
      streams.push_back({timeline.streams[i], busy[i] / static_cast<double>(users[i].size())});
  return streams;
}

std::string execution_table(const ExecutionReport& report) {
  return fmt::format("{}\n{}\n{}{}", report.context.title, aligned(head_rows(report), "ll"),
                     stream_rows(report), traffic_rows(metrics_of(report)));
}

std::string execution_json(const ExecutionReport& report) {
  json object{{"schema", 1}, {"version", report.context.version}, {"scenario", report.context.scenario}};
  if (report.context.hash) object["scenario_hash"] = fmt::format("{:016x}", *report.context.hash);
  if (report.context.seed) object["seed"] = *report.context.seed;
  object["set"] = report.context.overrides;
  object["backend"] = report.backend;
  object["ranks"] = report.ranks;
  object["compute"] = name_of(report.compute);
  object["scale"] = report.scale;
  object["step_time_s"] = report.step_time().si();
  json& steps = object["step_times_s"] = json::array();
  for (const Seconds time : report.record.step_times) steps.push_back(time.si());
  object["clock_error_s"] = report.record.clock_error.si();
  if (report.simulated_step) {
    object["simulated_step_time_s"] = report.simulated_step->si();
    object["step_error"] = report.step_error() ? json(*report.step_error()) : json();
  }
  json& streams = object["streams"] = json::array();
  for (const StreamBusy& stream : busy_streams(report.timeline))
    streams.push_back({{"stream", stream.stream}, {"busy_s", stream.busy.si()}});
  json& communication = object["communication"] = json::array();
  for (const Traffic& traffic : metrics_of(report).traffic)
    communication.push_back({{"op", traffic.op},
                             {"group", traffic.group},
                             {"bytes", traffic.bytes.si()},
                             {"ops", traffic.kernels},
                             {"mean_transfer_s", traffic.mean_transfer.si()},
                             {"mean_waiting_s", traffic.mean_waiting.si()},
                             {"exposed_share", traffic.exposed_share}});
  json& about = object["about"] = json::object();
  for (const auto& [key, text] : report.timeline.about) about[key] = text;
  return object.dump(2);
}

}  // namespace syncline
