#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "sim/core/printable.hpp"
#include "sim/core/units.hpp"
#include "sim/report/expert_text.hpp"
#include "sim/report/fault_text.hpp"
#include "sim/report/metric_table.hpp"
#include "sim/report/pipeline_text.hpp"
#include "sim/report/summary.hpp"
#include "sim/report/text.hpp"

namespace syncline {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t Columns = 100;
constexpr const char* NoNumber = "-";  // in cells for which there is no figure

std::string heading(const std::string& text) {
  return "\n" + text + "\n";
}

// "model llama3-8b; changed by --set: batch.global=256", on as many lines as it takes.
std::string input_text(const RunContext& context) {
  std::vector<std::string> parts;
  if (!context.model.empty()) parts.push_back("model " + context.model);
  if (!context.overrides.empty())
    parts.push_back(fmt::format("changed by --set: {}", fmt::join(context.overrides, ", ")));
  return parts.empty() ? "" : printable(fmt::format("{}", fmt::join(parts, "; "))) + "\n";
}

// True for a value of --set that makes it another job than the one a figure was published for.
bool changes_job(const std::string& assignment) {
  return !assignment.starts_with("run.") && !assignment.starts_with("topology.") &&
         !assignment.starts_with("topology=");
}

// Singular for one: "1 flow", "2 flows".
std::string counted(std::uint64_t count, std::string_view thing, std::string_view plural = "s") {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : plural);
}

std::string value_of(const RunSummary& run, std::string_view metric) {
  const auto value = metric_value(run, metric);
  return value ? metric_text(metric, *value) : "unknown";
}

// "1.2 MJ a step, 3.1 J a token, at most (all at full load)"; where the network's power is not known that of the rest.
std::string energy_text(const RunSummary& run) {
  if (!run.context.network_power)
    return fmt::format("{} a step, at most, without the network, whose power is unknown",
                       value_of(run, "accelerator-energy"));
  const std::string per_token =
      run.throughput.tokens_per_s ? value_of(run, "energy-per-token") + " a token, " : "";
  return fmt::format("{} a step, {}at most (all at full load)", value_of(run, "energy"), per_token);
}

std::string result_table(const RunSummary& run) {
  Rows rows{{"step time", to_text(run.step_time)}};
  const auto add = [&](std::string label, std::string text) {
    rows.push_back({std::move(label), std::move(text)});
  };
  if (run.throughput.tokens_per_s)
    add("throughput", fmt::format("{}, {} per accelerator", value_of(run, "tokens-per-s"),
                                  value_of(run, "tokens-per-s-per-accelerator")));
  if (run.throughput.model_flop_rate)
    add("model FLOP",
        fmt::format("{} per accelerator, {}", value_of(run, "model-flop-per-s-per-accelerator"),
                    run.throughput.mfu ? "MFU " + value_of(run, "mfu") : "peak unknown, so no MFU"));
  const bool drops = run.experts && run.experts->tokens && run.experts->tokens->dropped > 0;
  const bool less = run.throughput.hfu < run.throughput.mfu;  // not all that MFU counts is run
  if (run.throughput.hfu) add(drops || less ? "as run" : "with recomputation", "HFU " + value_of(run, "hfu"));
  if (run.metrics && is_textbook(run) && !carries_data(run)) {
    add("compute", value_of(run, "compute-time"));  // what it waits for is told with the bubble
  } else if (run.metrics) {
    const Metrics& metrics = *run.metrics;
    add("compute", value_of(run, "compute-time"));
    if (!metrics.has_communication) {
      add("communication", "no communication in this run");
    } else {
      const bool any = metrics.mean.communication > Seconds(0);
      add("communication",
          value_of(run, "communication-time") +
              (any ? fmt::format(", {} of it under compute", value_of(run, "overlap-share")) : ""));
      add("  exposed", fmt::format("{}, {} of the step; most on rank {}: {}",
                                   value_of(run, "exposed-communication"), value_of(run, "exposed-share"),
                                   metrics.most_exposed.value(), value_of(run, "exposed-communication-max")));
      add("  waiting for others", value_of(run, "waiting-time"));
    }
    if (!is_textbook(run))
      add("bubble", value_of(run, "bubble-fraction") + " idle share: of a rank's time, without compute");
  } else {
    add("timeline",
        run.engine.events > 0 ? "not kept: times of compute and communication are unknown" : "nothing ran");
  }
  if (run.accelerator_power) add("energy", energy_text(run));
  if (run.context.network_usd || run.context.network_power)
    add("network", fmt::format("{}, {}", value_of(run, "network-cost"), value_of(run, "network-power")));
  return aligned(rows, "ll") + (run.metrics && run.ranks > 1 ? "  (times are means over ranks)\n" : "");
}

// "4 microbatches of a chunk", "1 to 4 microbatches".
std::string activations_text(const PipelineMetrics& pipeline) {
  std::vector<int> peaks;
  for (const PipelineRank& rank : pipeline.ranks) peaks.push_back(rank.peak_activations);
  const auto [least, most] = std::ranges::minmax(peaks);
  return (least < most ? fmt::format("{} to ", least) : "") +
         counted(static_cast<std::uint64_t>(most), "microbatch", "es") +
         (pipeline.chunks > 1 ? " of a chunk" : "");
}

std::string pipeline_table(const PipelineMetrics& pipeline) {
  const TimeText time = [](Seconds value) { return to_text(value); };
  std::string text = heading(fmt::format("Pipeline of {}: {} from the first forward to the last backward",
                                         counted(pipeline.stages, "stage"), to_text(pipeline.makespan)));
  text += "  " + bubble_line(pipeline, time) + "\n" + bubble_table(pipeline, time);
  return text + fmt::format("  peak activations of a rank: {}\n", activations_text(pipeline));
}

std::string memory_table(const MemorySummary& memory, std::size_t ranks) {
  Rows rows;
  for (std::size_t i = 0; i < MemoryCategoryCount; ++i)
    if (memory.by_category[i] > Bytes(0))
      rows.push_back({std::string(name_of(static_cast<MemoryCategory>(i))), to_text(memory.by_category[i]),
                      percent(memory.by_category[i] / memory.peak)});
  std::string peak = to_text(memory.peak);
  if (memory.capacity)
    peak += fmt::format(" of {} ({})", to_text(*memory.capacity), percent(memory.peak / *memory.capacity));
  std::string text = heading(fmt::format("Peak memory: {} on rank {}", peak, memory.rank.value()));
  text += fmt::format("  reached at {}: {}\n", to_text(memory.peak_time), printable(memory.peak_op));
  const Bytes reserve = memory.by_category[static_cast<std::size_t>(MemoryCategory::Reserve)];
  if (reserve > Bytes(0))
    text += fmt::format("  {} without the device's reserve, as PyTorch's max_memory_allocated counts\n",
                        to_text(memory.peak - reserve));
  if (memory.ranks_out_of_memory > 0)
    text +=
        fmt::format("  OUT OF MEMORY on {} of {} ranks, first on rank {}: {}\n", memory.ranks_out_of_memory,
                    ranks, memory.out_of_memory_rank.value(), printable(memory.out_of_memory_op));
  return text + aligned(rows, "lrr");
}

std::string link_table(const RunSummary& run) {
  if (run.link_kinds.empty() || (is_textbook(run) && !carries_data(run))) return "";
  Rows kinds{{"", "links", "used", "highest", "mean", "carried"}};
  for (const LinkKindSummary& kind : run.link_kinds)
    kinds.push_back({kind.kind, std::to_string(kind.links), std::to_string(kind.used), percent(kind.highest),
                     percent(kind.mean), to_text(kind.carried)});
  std::string text = heading("Link utilisation over the step") + aligned(kinds, "lrrrrr");
  if (run.busiest_links.empty()) return text;
  Rows busiest{{"the busiest", "", "utilisation", "carried", "bandwidth"}};
  for (const LinkSummary& link : run.busiest_links)
    busiest.push_back({clipped(link.name, 40), link.kind, percent(link.utilisation), to_text(link.carried),
                       to_text(link.bandwidth)});
  return text + "\n" + aligned(busiest, "llrrr");
}

// In GB/s with two decimals, as nccl-tests prints it.
std::string rate_text(const std::optional<BytesPerSecond>& rate) {
  return rate ? fmt::format("{:.2f}", rate->si() / 1e9) : NoNumber;
}

// Those that take most time first, as many as fit a screen.
std::string collective_table(const RunSummary& run) {
  static constexpr std::size_t Most = 12;
  if (run.collectives.empty()) return "";
  std::vector<const CollectiveSummary*> order;
  for (const CollectiveSummary& collective : run.collectives) order.push_back(&collective);
  const auto weight = [](const CollectiveSummary* collective) {
    return collective->mean_time.value_or(Seconds(0)) * static_cast<double>(collective->choice.count);
  };
  if (order.size() > Most)
    std::stable_sort(order.begin(), order.end(), [&](auto* a, auto* b) { return weight(a) > weight(b); });
  Rows rows{{"", "ranks", "algorithm", "size S", "count", "time", "algbw", "busbw", "exposed", "between"},
            {"", "", "", "", "", "(mean)", "[GB/s]", "[GB/s]", "", "nodes"}};
  for (const CollectiveSummary* collective : order) {
    if (rows.size() == Most + 2) break;
    const CollectiveChoice& choice = collective->choice;
    rows.push_back({std::string(name_of(choice.kind)) + (choice.by_counts ? "-v" : ""),
                    std::to_string(choice.group_size),
                    fmt::format("{}{}{} ×{}", name_of(choice.algorithm), choice.protocol.empty() ? "" : " ",
                                choice.protocol, choice.channels),
                    to_text(choice.bytes), std::to_string(choice.count),
                    collective->mean_time ? to_text(*collective->mean_time) : NoNumber,
                    rate_text(collective->algbw), rate_text(collective->busbw),
                    collective->exposed_share ? percent(*collective->exposed_share) : NoNumber,
                    to_text(choice.bytes_between_nodes)});
  }
  std::string text = heading("Collectives (algorithm × channels; bytes between nodes are of one)") +
                     aligned(rows, "lrlrrrrrrr");
  if (order.size() > Most)
    text += fmt::format("  and {} more, which take less time; --json has all\n", order.size() - Most);
  double imbalance = 0;
  for (const CollectiveSummary* collective : order)
    if (collective->choice.by_counts) imbalance = std::max(imbalance, collective->choice.imbalance);
  if (imbalance > 0)
    text += fmt::format(
        "  all-to-all-v is by counts, S the mean of its members; who gets most gets up to {:.2f} times the "
        "mean\n",
        imbalance);
  return text;
}

std::string group_table(const RunSummary& run) {
  std::string text;
  if (!run.groups.empty()) {
    Rows rows{{"", "groups", "ranks", "the first", "nodes", "collectives", "between nodes"}};
    for (const GroupSummary& group : run.groups)
      rows.push_back({clipped(group.family, 24), std::to_string(group.groups), std::to_string(group.size),
                      group.members, std::to_string(group.nodes_spanned), std::to_string(group.collectives),
                      to_text(group.bytes_between_nodes)});
    text = heading("Groups") + aligned(rows, "lrrlrrr");
  }
  if (!run.crosses_nodes && (carries_data(run) || !is_textbook(run)))
    text += "\nnothing in this workload crosses a node: the scale-out network is not used\n";
  return text;
}

std::string published_table(const RunSummary& run) {
  if (run.published.empty()) return "";
  Rows rows{{"", "published", "simulated", "error", "measured on"}};
  std::vector<std::string> sources;
  for (const ClaimSummary& claim : run.published) {
    const PublishedFigure& figure = claim.published;
    const MetricInfo& metric = find_metric(figure.metric);
    rows.push_back(
        {std::string(metric.label), to_text(metric, figure.value),
         claim.simulated ? to_text(metric, *claim.simulated) : "unknown",
         claim.error ? signed_percent(*claim.error) : NoNumber,
         claim.other_size ? fmt::format("{}, not {}", figure.accelerators, run.ranks) : "as many here"});
    if (!figure.source.empty() && std::find(sources.begin(), sources.end(), figure.source) == sources.end())
      sources.push_back(figure.source);
  }
  std::string text = heading("Against published figures") + aligned(rows, "lrrrl");
  const auto& overrides = run.context.overrides;
  if (std::any_of(overrides.begin(), overrides.end(), changes_job))
    text += "  this run differs from what was published: it is changed by --set, see above\n";
  for (const std::string& source : sources) text += clipped("  source: " + source, Columns) + "\n";
  return text;
}

// Of a share too small for two decimals its first digits: "0.0001 %".
std::string tolerance_text(const std::string& metric, double within) {
  const bool tiny = find_metric(metric).unit == MetricUnit::Share && within > 0 && within < 0.5e-4;
  return tiny ? fmt::format("{:.2g} %", within * 100) : metric_text(metric, within);
}

// "12 ms ± 1 ms", "at least 40 %".
std::string expectation_table(const RunSummary& run) {
  if (run.expect.empty()) return "";
  Rows rows;
  for (const ExpectationSummary& verdict : run.expect)
    rows.push_back({verdict.holds ? "pass" : "FAIL", verdict.expected.metric,
                    verdict.simulated ? metric_text(verdict.expected.metric, *verdict.simulated) : "unknown",
                    "expected " + expectation_text(verdict.expected)});
  return heading("Expectations") + aligned(rows, "llrl");
}

// "64 × h100-sxm on 8 nodes of dgx-h100, bf16"; of a textbook that sends no bytes its ranks.
std::string hardware_text(const RunSummary& run) {
  if (is_textbook(run) && !carries_data(run)) return counted(run.ranks, "rank") + ", blocks of fixed time";
  return fmt::format("{} × {} on {} of {}{}{}", run.ranks, run.device, counted(run.nodes, "node"),
                     run.topology, run.precision.empty() ? "" : ", ", run.precision);
}

std::string fold_text(const RunSummary& run) {
  if (run.ranks_simulated == run.ranks) return "";
  return fmt::format("folded: {} of {} ranks simulated, one a role\n", run.ranks_simulated, run.ranks);
}

std::string inconsistencies(const RunSummary& run) {
  std::string text;
  for (const Check& check : run.checks)
    if (!check.violation.empty())
      text += fmt::format("\ninternal inconsistency: {}: {}", check.name, printable(check.violation));
  if (text.empty()) return "";
  return text + "\nThe simulator has contradicted itself: do not trust these figures, and report this.\n";
}

}  // namespace

std::string expectation_text(const Expectation& expected) {
  std::string text;
  const auto add = [&](const char* words, const std::optional<double>& value) {
    if (value)
      text += (text.empty() || *words == '\0' ? "" : " and ") + std::string(words) +
              metric_text(expected.metric, *value);
  };
  add("", expected.value);
  if (expected.value && expected.within) text += " ± " + tolerance_text(expected.metric, *expected.within);
  add("at least ", expected.at_least);
  add("at most ", expected.at_most);
  return text;
}

std::string summary_table(const RunSummary& run) {
  std::string text;
  if (!run.context.title.empty()) text += clipped(run.context.title, Columns) + "\n";
  text += clipped(hardware_text(run), Columns) + "\n";
  text += fold_text(run) + input_text(run.context) + "\n";
  text += result_table(run);
  if (run.pipeline) text += pipeline_table(*run.pipeline);
  if (run.experts) text += expert_table(*run.experts);
  for (const std::string& warning : run.warnings) text += fmt::format("\n  warning: {}\n", warning);
  text += fault_table(run);
  if (run.memory) text += memory_table(*run.memory, run.ranks);
  text += link_table(run) + collective_table(run) + group_table(run) + published_table(run) +
          expectation_table(run);
  text += inconsistencies(run);
  text += fmt::format("\n{}: {}, {}\n", run.engine.name.empty() ? "engine" : run.engine.name,
                      counted(run.engine.events, "event"), counted(run.engine.flows, "flow"));
  return text;
}

}  // namespace syncline
