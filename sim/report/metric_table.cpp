#include "sim/report/metric_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "sim/core/error.hpp"
#include "sim/core/units.hpp"

namespace syncline {
namespace {

std::optional<double> si(const std::optional<FlopPerSecond>& value) {
  if (!value) return std::nullopt;
  return value->si();
}

// The mean over ranks of one of their times.
template <Seconds RankMetrics::*Field>
std::optional<double> mean(const RunSummary& run) {
  if (!run.metrics) return std::nullopt;
  return (run.metrics->mean.*Field).si();
}

std::optional<double> largest_exposed(const RunSummary& run) {
  if (!run.metrics || run.metrics->ranks.empty()) return std::nullopt;
  return run.metrics->ranks[run.metrics->most_exposed.value()].exposed.si();
}

std::optional<double> exposed_share(const RunSummary& run) {
  if (!run.metrics || run.step_time.si() <= 0) return std::nullopt;
  return run.metrics->mean.exposed / run.step_time;
}

std::optional<double> overlap_share(const RunSummary& run) {
  if (!run.metrics || run.metrics->mean.communication.si() <= 0) return std::nullopt;
  return run.metrics->overlap_share;
}

template <double PipelineMetrics::*Field>
std::optional<double> of_pipeline(const RunSummary& run) {
  if (!run.pipeline) return std::nullopt;
  return (*run.pipeline).*Field;
}

std::optional<double> pipeline_time(const RunSummary& run) {
  if (!run.pipeline) return std::nullopt;
  return run.pipeline->makespan.si();
}

std::optional<double> peak_activations(const RunSummary& run) {
  if (!run.pipeline) return std::nullopt;
  int peak = 0;
  for (const PipelineRank& rank : run.pipeline->ranks) peak = std::max(peak, rank.peak_activations);
  return peak;
}

std::optional<double> network_power(const RunSummary& run) {
  if (!run.context.network_power) return std::nullopt;
  return run.context.network_power->si();
}

std::optional<double> accelerator_energy(const RunSummary& run) {
  if (!run.accelerator_power) return std::nullopt;
  return (*run.accelerator_power * run.step_time).si();
}

std::optional<double> energy(const RunSummary& run) {
  if (!run.accelerator_power || !run.context.network_power) return std::nullopt;
  return ((*run.accelerator_power + *run.context.network_power) * run.step_time).si();
}

std::optional<double> energy_per_token(const RunSummary& run) {
  const std::optional<double> of_step = energy(run), rate = run.throughput.tokens_per_s;
  if (!of_step || !rate || *rate <= 0) return std::nullopt;
  return *of_step / (*rate * run.step_time.si());
}

// Of the tokens that ranks get.
template <moe::LayerImbalance moe::ImbalanceOverLayers::*Which>
std::optional<double> expert_imbalance(const RunSummary& run) {
  if (!run.experts || !run.experts->tokens) return std::nullopt;
  return (run.experts->tokens->imbalance.*Which).ranks.max_over_mean;
}

std::optional<double> expert_dropped(const RunSummary& run) {
  if (!run.experts || !run.experts->tokens) return std::nullopt;
  return run.experts->tokens->dropped;
}

template <Seconds ExpertTimes::*Field>
std::optional<double> expert_time(const RunSummary& run) {
  if (!run.experts || !run.experts->times) return std::nullopt;
  return ((*run.experts->times).*Field).si();
}

// Whole bytes, whatever shares of tokens make of them.
double whole(Bytes bytes) {
  return std::round(bytes.si());
}

// Both ways.
std::optional<double> expert_between_nodes(const RunSummary& run) {
  if (!run.experts) return std::nullopt;
  return whole(run.experts->to_experts.between + run.experts->back.between);
}

constexpr std::array<MetricInfo, 32> Table{{
    {"step-time", "step_time_s", "step time", MetricUnit::Time,
     [](const RunSummary& run) { return std::optional(run.step_time.si()); }, MetricOf::Run},
    {"tokens-per-s", "tokens_per_s", "tokens/s", MetricUnit::TokenRate,
     [](const RunSummary& run) { return run.throughput.tokens_per_s; }, MetricOf::Run, Better::More},
    {"tokens-per-s-per-accelerator", "tokens_per_s_per_accelerator", "tokens/s per accelerator",
     MetricUnit::TokenRate, [](const RunSummary& run) { return run.throughput.tokens_per_s_per_accelerator; },
     MetricOf::Run, Better::More},
    {"model-flop-per-s-per-accelerator", "model_flop_per_s_per_accelerator", "model FLOP/s per accelerator",
     MetricUnit::FlopRate, [](const RunSummary& run) { return si(run.throughput.model_flop_rate); },
     MetricOf::Run, Better::More},
    {"mfu", "mfu", "MFU", MetricUnit::Share, [](const RunSummary& run) { return run.throughput.mfu; },
     MetricOf::Run, Better::More},
    {"hfu", "hfu", "HFU", MetricUnit::Share, [](const RunSummary& run) { return run.throughput.hfu; },
     MetricOf::Run, Better::More},
    {"compute-time", "compute_time_s", "compute", MetricUnit::Time, mean<&RankMetrics::compute>},
    {"communication-time", "communication_time_s", "communication", MetricUnit::Time,
     mean<&RankMetrics::communication>},
    {"waiting-time", "waiting_time_s", "waiting for other ranks", MetricUnit::Time,
     mean<&RankMetrics::waiting>},
    {"exposed-communication", "exposed_communication_s", "exposed communication", MetricUnit::Time,
     mean<&RankMetrics::exposed>},
    {"exposed-communication-max", "exposed_communication_max_s", "exposed communication, most",
     MetricUnit::Time, largest_exposed},
    {"exposed-share", "exposed_share", "exposed share of the step", MetricUnit::Share, exposed_share},
    {"overlap-share", "overlap_share", "overlapped communication", MetricUnit::Share, overlap_share,
     MetricOf::Spans, Better::More},
    {"bubble-fraction", "bubble_fraction", "bubble", MetricUnit::Share,
     [](const RunSummary& run) {
       return run.metrics ? std::optional(run.metrics->bubble_fraction) : std::nullopt;
     }},
    {"pipeline-time", "pipeline_time_s", "pipeline time", MetricUnit::Time, pipeline_time},
    {"bubble-of-total", "bubble_of_total", "bubble of total", MetricUnit::Share,
     of_pipeline<&PipelineMetrics::bubble_of_total>},
    {"bubble-of-ideal", "bubble_of_ideal", "bubble of ideal", MetricUnit::Share,
     of_pipeline<&PipelineMetrics::bubble_of_ideal>},
    {"bubble-of-span", "bubble_of_span", "bubble of longest span", MetricUnit::Share,
     of_pipeline<&PipelineMetrics::bubble_of_span>},
    {"peak-activations", "peak_activations", "peak activations", MetricUnit::Count, peak_activations},
    {"expert-imbalance", "expert_imbalance", "imbalance of experts", MetricUnit::Count,
     expert_imbalance<&moe::ImbalanceOverLayers::mean>, MetricOf::Routing},
    {"expert-imbalance-max", "expert_imbalance_max", "imbalance, worst layer", MetricUnit::Count,
     expert_imbalance<&moe::ImbalanceOverLayers::largest>, MetricOf::Routing},
    {"expert-wait", "expert_wait_s", "waiting for experts", MetricUnit::Time,
     expert_time<&ExpertTimes::wait>},
    {"expert-transfer", "expert_transfer_s", "dispatch and combine", MetricUnit::Time,
     expert_time<&ExpertTimes::transfer>},
    {"expert-work", "expert_work_s", "work of experts", MetricUnit::Time, expert_time<&ExpertTimes::work>},
    {"expert-between-nodes", "expert_between_nodes_bytes", "tokens sent between nodes", MetricUnit::Size,
     expert_between_nodes, MetricOf::Run},
    {"expert-dropped", "expert_dropped_share", "dropped copies of tokens", MetricUnit::Share, expert_dropped,
     MetricOf::Routing},
    {"peak-memory", "peak_memory_bytes", "peak memory", MetricUnit::Size,
     [](const RunSummary& run) { return run.memory ? std::optional(whole(run.memory->peak)) : std::nullopt; },
     MetricOf::Run},
    {"accelerator-energy", "accelerator_energy_j", "energy of the accelerators", MetricUnit::Energy,
     accelerator_energy, MetricOf::Run},
    {"energy", "energy_j", "energy of a step", MetricUnit::Energy, energy, MetricOf::NetworkParts},
    {"energy-per-token", "energy_per_token_j", "energy of a token", MetricUnit::Energy, energy_per_token,
     MetricOf::NetworkParts},
    {"network-cost", "network_cost_usd", "network cost", MetricUnit::Money,
     [](const RunSummary& run) { return run.context.network_usd; }, MetricOf::NetworkParts},
    {"network-power", "network_power_w", "network power", MetricUnit::Power, network_power,
     MetricOf::NetworkParts},
}};

}  // namespace

std::span<const MetricInfo> metric_table() {
  return Table;
}

const MetricInfo& find_metric(std::string_view name) {
  for (const MetricInfo& metric : Table)
    if (metric.name == name) return metric;
  throw std::invalid_argument(unknown_name("metric", name, metric_names()));
}

std::string percent(double share) {
  const double value = share * 100;
  return std::abs(value) < 9.995 ? fmt::format("{:.2f} %", value) : fmt::format("{:.1f} %", value);
}

std::string signed_percent(double share) {
  return (share < 0 ? "" : "+") + percent(share);
}

std::string money_text(double usd) {
  if (usd >= 999.5e3) return fmt::format("{:.4g} million USD", usd / 1e6);
  return fmt::format("{:.0f} USD", usd);
}

std::string to_text(const MetricInfo& metric, double value) {
  switch (metric.unit) {
    case MetricUnit::Time: return to_text(Seconds(value));
    case MetricUnit::Share: return percent(value);
    case MetricUnit::TokenRate:
      return value < 1000 ? fmt::format("{:.4g} tokens/s", value) : fmt::format("{:.0f} tokens/s", value);
    case MetricUnit::FlopRate: return to_text(FlopPerSecond(value));
    case MetricUnit::Count: return fmt::format("{:.6g}", value);
    case MetricUnit::Energy: return to_text(Joules(value));
    case MetricUnit::Power: return to_text(Watts(value));
    case MetricUnit::Money: return money_text(value);
    case MetricUnit::Size: break;
  }
  return to_text(Bytes(value));
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const MetricInfo& metric : Table) names.emplace_back(metric.name);
  return names;
}

std::optional<double> metric_value(const RunSummary& summary, std::string_view name) {
  return find_metric(name).value(summary);
}

std::string metric_text(std::string_view name, double value) {
  return to_text(find_metric(name), value);
}

}  // namespace syncline
