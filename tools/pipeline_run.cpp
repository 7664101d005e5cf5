#include "tools/pipeline_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/core/error.hpp"
#include "sim/report/metric_table.hpp"
#include "sim/report/pipeline_text.hpp"
#include "sim/report/text.hpp"
#include "sim/schedule/check.hpp"

namespace syncline {
namespace {

using pipeline::Costs;
using pipeline::Order;
using pipeline::Replay;
using pipeline::StageTimes;
using pipeline::TransferMode;

constexpr BytesPerSecond Endless{1e18};  // bytes take no time
constexpr double Agreement = 1e-9;       // of the engine with the exact replay, relative

/// Every stage takes the mean time of all.
Costs balanced(Costs costs) {
  StageTimes mean{Seconds(0), Seconds(0), Seconds(0)};
  const auto stages = static_cast<double>(costs.stages.size());
  for (const StageTimes& stage : costs.stages) {
    mean.forward += stage.forward / stages;
    mean.backward_input += stage.backward_input / stages;
    mean.backward_weight += stage.backward_weight / stages;
  }
  std::ranges::fill(costs.stages, mean);
  return costs;
}

bool alike(const std::vector<StageTimes>& stages) {
  return std::ranges::all_of(stages, [&](const StageTimes& stage) { return stage == stages.front(); });
}

Seconds bubble_without_hops(const Order& order, Costs costs) {
  costs.hop = Seconds(0);
  const Replay free = replay(order, costs);
  return free.makespan * free.bubble_fraction;
}

void measure_imbalance(PipelineRun& run) {
  const Seconds bubble = bubble_without_hops(run.order, run.costs);
  run.balanced_bubble =
      alike(run.costs.stages) ? bubble : bubble_without_hops(run.order, balanced(run.costs));
  run.imbalance = bubble - run.balanced_bubble;
}

/// Factors by which a pipeline is made larger for the engine, which tells times apart only when they differ
/// by more than 1e-12 s and rates by 1e-9 B/s. Powers of two, so that no digit is lost.
struct Scale {
  double time = 1, bytes = 1;
};

/// By which `value` is made about `target`; 1 for 0.
double factor_to(double target, double value) {
  return value > 0 ? std::exp2(std::round(std::log2(target / value))) : 1;
}

/// The longest time becomes about a second, the bandwidth about 1 GB/s.
Scale scale_for(const Costs& costs, const PipelineTransfers& transfers) {
  Seconds longest = std::max(costs.hop, costs.fused.value_or(Seconds(0)));
  for (const StageTimes& stage : costs.stages)
    longest = std::max({longest, stage.forward, stage.backward_input, stage.backward_weight});
  if (transfers.bandwidth) longest = std::max(longest, transfers.bytes / *transfers.bandwidth);
  Scale scale{factor_to(1, longest.si()), 1};
  if (transfers.bandwidth) scale.bytes = factor_to(1e9, transfers.bandwidth->si() / scale.time);
  return scale;
}

Costs scaled(Costs costs, Scale scale) {
  costs.hop *= scale.time;
  if (costs.fused) *costs.fused *= scale.time;
  for (StageTimes& stage : costs.stages)
    for (Seconds* time : {&stage.forward, &stage.backward_input, &stage.backward_weight}) *time *= scale.time;
  return costs;
}

PipelineTransfers scaled(PipelineTransfers transfers, Scale scale) {
  transfers.bytes *= scale.bytes;
  if (transfers.bandwidth) *transfers.bandwidth *= scale.bytes / scale.time;
  return transfers;
}

RunOptions scaled(RunOptions options, Scale scale) {
  if (options.progress)
    options.progress = [progress = options.progress, scale](double seconds, std::uint64_t events) {
      progress(seconds / scale.time, events);
    };
  return options;
}

/// Times as they were asked for, of a run in the engine's scale.
void scale_back(RunResult& result, Scale scale) {
  result.step_time /= scale.time;
  for (Span& span : result.timeline.spans)
    for (Seconds* time : {&span.start, &span.transfer, &span.end}) *time /= scale.time;
}

/// Where messages have no bytes and nobody waits for them to be taken, the engine must find what the replay
/// does.
void check_agreement(const PipelineRun& run) {
  if (run.transfers.mode != TransferMode::Eager || run.transfers.bandwidth) return;
  const double simulated = run.metrics.makespan.si(), exact = run.exact.makespan.si();
  SYNCLINE_CHECK(std::abs(simulated - exact) <= Agreement * exact,
                 fmt::format("{}: simulated {}, exact replay {}", run.name, simulated, exact));
}

std::string counted(std::size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::vector<int> peaks(const PipelineRun& run, int pipeline::RankReplay::*peak) {
  std::vector<int> values;
  for (const pipeline::RankReplay& rank : run.exact.ranks) values.push_back(rank.*peak);
  return values;
}

std::string imbalance_text(const PipelineRun& run, const TimeText& time) {
  if (alike(run.costs.stages)) return "";
  if (run.imbalance < Seconds(0))
    return fmt::format("  imbalance: none; with the mean time on all stages the bubble would be longer, {}\n",
                       time(run.balanced_bubble));
  return fmt::format(
      "  imbalance: {} of it, transfers aside, is due to unequal stages: with the mean time on all it would "
      "be {}\n",
      time(run.imbalance), time(run.balanced_bubble));
}

std::string transfers_text(const PipelineRun& run, const TimeText& time) {
  const Seconds bytes = run.transfers.bandwidth ? run.transfers.bytes / *run.transfers.bandwidth : Seconds(0);
  if (bytes <= Seconds(0) && run.costs.hop <= Seconds(0) && run.transfers.mode == TransferMode::Eager)
    return "free transfers";
  return fmt::format("{} transfers of {}", name_of(run.transfers.mode), time(run.costs.hop + bytes));
}

}  // namespace

Cluster pipeline_cluster(std::size_t ranks, const PipelineTransfers& transfers, Seconds latency) {
  TopologySpec spec;
  spec.name = "links between every two ranks";
  spec.accelerators = static_cast<int>(ranks);
  if (ranks > 1)
    spec.scale_out =
        AllToAllSpec{AllToAllSpec::Kind::FullMesh, {transfers.bandwidth.value_or(Endless), 1.0, latency}};
  return {build_topology(spec), ideal_device(), placement_in_order(ranks)};
}

PipelineRun run_pipeline(std::string name, Order order, Costs costs, const PipelineTransfers& transfers,
                         const RunOptions& options) {
  PipelineRun run;
  run.name = std::move(name);
  run.order = std::move(order);
  run.costs = std::move(costs);
  run.transfers = transfers;
  run.exact = replay(run.order, run.costs);
  measure_imbalance(run);
  const Scale scale = scale_for(run.costs, transfers);
  const Costs engine_costs = scaled(run.costs, scale);
  const PipelineTransfers engine_transfers = scaled(transfers, scale);
  const pipeline::Lowered lowered =
      lower_textbook(run.order, engine_costs, transfers.mode, engine_transfers.bytes);
  const std::vector<std::string> wrong = check_schedule(lowered.schedule);
  SYNCLINE_CHECK(wrong.empty(), "the schedule made from " + run.name + " is not sound: " + wrong.front());
  const Cluster cluster = pipeline_cluster(run.order.ranks.size(), engine_transfers, engine_costs.hop);
  run.result = make_simgrid_backend()->run(lowered.schedule, cluster, scaled(options, scale));
  scale_back(run.result, scale);
  const std::optional<PipelineMetrics> metrics = pipeline_metrics(lowered.schedule, run.result.timeline);
  SYNCLINE_CHECK(metrics.has_value(), "every rank computes");
  run.metrics = *metrics;
  PipelinePicture picture = picture_of_textbook(run.order, lowered.schedule, run.result.timeline);
  run.blocks = std::move(picture.blocks);
  run.moving = std::move(picture.transfers);
  check_agreement(run);
  return run;
}

std::string plain_time(Seconds time) {
  return fmt::format("{:.6g}", time.si());
}

std::string pipeline_text(const PipelineRun& run, const PictureOptions& options) {
  const TimeText time = options.time ? options.time : plain_time;
  const PipelineMetrics& metrics = run.metrics;
  const std::size_t ranks = run.order.ranks.size();
  std::string text =
      fmt::format("{}: {}, {}, {}\n", run.name, counted(ranks, "rank", "ranks"),
                  counted(static_cast<std::size_t>(run.order.microbatches), "microbatch", "microbatches"),
                  transfers_text(run, time));
  PipelinePicture picture{run.order, run.blocks, {}};
  if (run.transfers.mode != TransferMode::Eager) picture.transfers = run.moving;
  text += pipeline_picture(picture, options);
  text += fmt::format("  makespan {}; the longest a rank is in use, first start to last end: {}\n",
                      time(metrics.makespan), time(metrics.max_rank_span));
  text += fmt::format("  {}\n", bubble_line(metrics, time)) + bubble_table(metrics, time) +
          imbalance_text(run, time);
  text += fmt::format("  peak activations by rank (stages × microbatches): {}\n",
                      peaks_text(peaks(run, &pipeline::RankReplay::peak_activations)));
  return text;
}

std::string pipeline_table(const std::vector<PipelineRun>& runs, const TimeText& time) {
  std::vector<std::vector<std::string>> rows{{"", "makespan", "rank span", "ideal", "bubble", "of total",
                                              "of ideal", "of span", "peak activations"}};
  for (const PipelineRun& run : runs) {
    const PipelineMetrics& metrics = run.metrics;
    const std::vector<int> held = peaks(run, &pipeline::RankReplay::peak_activations);
    rows.push_back({run.name, time(metrics.makespan), time(metrics.max_rank_span), time(metrics.mean_busy),
                    time(metrics.bubble()), percent(metrics.bubble_of_total),
                    percent(metrics.bubble_of_ideal), percent(metrics.bubble_of_span),
                    std::to_string(*std::ranges::max_element(held))});
  }
  const auto [least, most] =
      std::ranges::minmax_element(runs, {}, [](const PipelineRun& run) { return run.metrics.mean_busy; });
  const bool alike = most->metrics.mean_busy <= least->metrics.mean_busy * 1.01;
  const std::string table = aligned(rows, "lrrrrrrrr");
  if (alike) return table;
  return table +
         "  they do not do the same work: times are of a virtual stage, of which some have more a rank\n"
         "  (compare the same model by giving chunks their part of the time, and ratios rather than times)\n";
}

namespace {

using Json = nlohmann::ordered_json;

template <class Visit>
Json list(std::size_t size, const Visit& visit) {
  Json values = Json::array();
  for (std::size_t i = 0; i < size; ++i) values.push_back(visit(i));
  return values;
}

Json idle_json(const Idle& idle) {
  return {{"neighbour", idle.neighbour.si()}, {"transfer", idle.transfer.si()}, {"other", idle.other.si()}};
}

Json run_json(const PipelineRun& run) {
  const PipelineMetrics& metrics = run.metrics;
  const std::size_t ranks = run.order.ranks.size();
  const auto& stages = run.costs.stages;
  Json object;
  object["schedule"] = run.name;
  object["ranks"] = ranks;
  object["microbatches"] = run.order.microbatches;
  object["virtual_stages"] = run.order.stages;
  object["F"] = list(stages.size(), [&](std::size_t i) { return stages[i].forward.si(); });
  object["B"] = list(stages.size(), [&](std::size_t i) { return stages[i].backward_input.si(); });
  object["W"] = list(stages.size(), [&](std::size_t i) { return stages[i].backward_weight.si(); });
  object["FB"] = run.costs.fused ? Json(run.costs.fused->si()) : Json(nullptr);
  object["comm"] = run.costs.hop.si();
  object["transfers"] = name_of(run.transfers.mode);
  object["bytes"] = run.transfers.bytes.si();
  object["bandwidth"] = run.transfers.bandwidth ? Json(run.transfers.bandwidth->si()) : Json(nullptr);
  object["makespan"] = metrics.makespan.si();
  object["max_rank_span"] = metrics.max_rank_span.si();
  object["ideal"] = metrics.mean_busy.si();
  object["bubble"] = metrics.bubble().si();
  object["bubble_fraction"] = metrics.bubble_of_total;
  object["bubble_of_ideal"] = metrics.bubble_of_ideal;
  object["bubble_of_span"] = metrics.bubble_of_span;
  object["bubble_by_cause"] = {{"warm_up", idle_json(metrics.idle[0])},
                               {"steady", idle_json(metrics.idle[1])},
                               {"cool_down", idle_json(metrics.idle[2])}};
  object["imbalance"] = run.imbalance.si();
  object["rank_busy"] = list(ranks, [&](std::size_t i) { return metrics.ranks[i].busy.si(); });
  object["rank_internal_idle"] =
      list(ranks, [&](std::size_t i) { return metrics.ranks[i].internal_idle.si(); });
  object["peak_activations"] = peaks(run, &pipeline::RankReplay::peak_activations);
  object["peak_activations_free_at_I"] = peaks(run, &pipeline::RankReplay::peak_activations_free_at_input);
  object["order"] = list(ranks, [&](std::size_t i) { return to_text(run.order.ranks[i]); });
  object["engine"] = {{"name", run.result.engine.name},
                      {"events", run.result.engine.events},
                      {"wall_s", run.result.engine.wall_s}};
  return object;
}

}  // namespace

std::string pipeline_json(const std::vector<PipelineRun>& runs, const std::string& version) {
  Json object;
  object["schema"] = 1;
  object["version"] = version;
  if (runs.size() == 1)
    object.update(run_json(runs.front()));
  else
    object["runs"] = list(runs.size(), [&](std::size_t i) { return run_json(runs[i]); });
  return object.dump(2) + "\n";
}

}  // namespace syncline
