// What one run comes to: every figure that is shown, once, with the texts and JSON made from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/device/cluster.hpp"
#include "sim/report/claims.hpp"
#include "sim/report/expert_balance.hpp"
#include "sim/report/metrics.hpp"
#include "sim/report/pipeline_metrics.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/timeline/result.hpp"

namespace syncline {

/// What is known of a run besides its result. Empty where it does not apply.
struct RunContext {
  std::string title;                   // a question, or what runs on what; first line of the table
  std::string scenario;                // name; heads the column in a comparison
  std::string model;                   // "llama3-8b"; empty for a schedule file
  std::vector<std::string> overrides;  // "--set" values as given: "model=llama3-70b"
  std::string version;                 // of the program
  std::optional<std::uint64_t> hash;   // of the scenario
  std::optional<std::uint64_t> seed;
  std::vector<PublishedFigure> published;
  std::vector<Expectation> expect;
  std::optional<double> network_usd;  // what the cluster's whole network costs, and draws
  std::optional<Watts> network_power;
  std::optional<ExpertTokens> experts;  // of a model that has some
  std::vector<std::string> warnings;    // of what was asked, a sentence each
};

struct MemorySummary {
  RankId rank;  // with the largest peak (lowest id on ties)
  Bytes peak;
  MemoryByCategory by_category{};  // at the peak
  Seconds peak_time;
  std::string peak_op;            // "F layer 3 all-gather"; "before the first op"
  std::optional<Bytes> capacity;  // none: not checked
  std::size_t ranks_out_of_memory = 0;
  RankId out_of_memory_rank;  // the first of them, and the op that did not fit
  std::string out_of_memory_op;
};

struct LinkSummary {
  std::string name;  // "node3.nic5 → leaf2"
  std::string kind;  // of LinkKindSummary
  Bytes carried;
  BytesPerSecond bandwidth;
  double utilisation = 0;  // carried / (bandwidth · step)
};

/// All links of a kind, the idle ones included.
struct LinkKindSummary {
  std::string kind;  // "scale-up", "host-bus", "scale-out", "scale-out level 2"
  std::size_t links = 0, used = 0;
  Bytes carried;
  double highest = 0, mean = 0;  // utilisation
};

struct CollectiveSummary {
  CollectiveChoice choice;
  std::optional<Seconds> mean_time;  // from the data moving to the end; none without a timeline
  std::optional<Seconds> mean_waiting;
  std::optional<BytesPerSecond> algbw, busbw;
  std::optional<double> exposed_share;
};

/// Who talks to whom.
struct GroupSummary {
  std::string family;
  std::size_t groups = 0, size = 0;  // size of the largest
  std::string members;               // ranks of the first group: "0-7", "0,8,16,…,56"
  std::size_t nodes_spanned = 0;     // by the group that spans most
  std::uint64_t collectives = 0;     // run in all groups together
  Bytes bytes_between_nodes;         // of all of them
};

struct ClaimSummary {
  PublishedFigure published;
  std::optional<double> simulated;
  std::optional<double> error;  // (simulated − published) / published
  bool other_size = false;      // measured on another number of accelerators
};

struct ExpectationSummary {
  Expectation expected;
  std::optional<double> simulated;
  bool holds = false;  // false too when the metric is unknown
};

/// A physics check; a broken one is a fault of the simulator.
struct Check {
  std::string name;       // "links carry no more than their bandwidth allows"
  std::string violation;  // empty when it holds
};

struct RunSummary {
  RunContext context;
  std::string topology, device, precision;  // precision: empty when nothing computes in one
  std::size_t ranks = 0, nodes = 0;         // nodes that hold a rank
  std::size_t ranks_simulated = 0;          // fewer than there are when one plays for all of its role

  Seconds step_time;
  Throughput throughput;
  std::optional<Watts> accelerator_power;   // of the ranks' devices together, at full load
  std::optional<Metrics> metrics;           // none when the run kept no timeline
  std::optional<PipelineMetrics> pipeline;  // of two stages or more, or without FLOP; with a timeline
  std::optional<ExpertBalance> experts;     // where there are some
  std::optional<MemorySummary> memory;
  std::vector<LinkSummary> busiest_links;  // by utilisation, at most five
  std::vector<LinkKindSummary> link_kinds;
  std::vector<CollectiveSummary> collectives;
  std::vector<GroupSummary> groups;
  bool crosses_nodes = false;       // anything was carried between nodes
  std::vector<FaultEffect> faults;  // of the cluster, and what all of them did:
  double detours = 0;               // share of the pairs of ranks that talk by another route than usual
  std::size_t ranks_moved = 0;      // not on the accelerator of their number
  Noise noise;
  std::vector<ClaimSummary> published;
  std::vector<ExpectationSummary> expect;
  std::vector<std::string> warnings;  // contradictions of the input, what figures leave out: sentences
  std::vector<Check> checks;
  EngineStatistics engine;

  [[nodiscard]] bool expectations_hold() const;
  [[nodiscard]] bool checks_hold() const;
  [[nodiscard]] bool has_communication() const {
    return metrics ? metrics->has_communication : !collectives.empty();
  }
};

[[nodiscard]] RunSummary summarise(const RunResult& result, const Schedule& schedule, const Cluster& cluster,
                                   const RunContext& context);

/// The physics checks alone: spans in order, nothing faster than hardware allows, bytes and memory that add up.
[[nodiscard]] std::vector<Check> check_physics(const RunResult& result, const Schedule& schedule,
                                               const Cluster& cluster);

// --- metrics by name -----------------------------------------------------------------------------------------------

/// Names for `published`, `expect` and comparisons, such as "step-time" and "tokens-per-s-per-accelerator".
[[nodiscard]] std::vector<std::string> metric_names();
/// In SI units; nothing when this run does not have it.
/// @throws std::invalid_argument when there is no metric of that name
[[nodiscard]] std::optional<double> metric_value(const RunSummary& summary, std::string_view name);
/// "12.5 ms", "41.3 %", "5731 tokens/s".
/// @throws std::invalid_argument when there is no metric of that name
[[nodiscard]] std::string metric_text(std::string_view name, double value);

/// What is expected, in words: "40.0 % ± 1.0 %", "at least 1 s and at most 2 s".
/// @throws std::invalid_argument when there is no metric of that name
[[nodiscard]] std::string expectation_text(const Expectation& expected);

// --- forms -----------------------------------------------------------------------------------------------------------

/// For people: aligned, units on every number, at most 100 columns.
[[nodiscard]] std::string summary_table(const RunSummary& summary);
/// One JSON object; docs/json-output.md has every key. Only `engine.wall_s` differs between equal runs.
[[nodiscard]] std::string summary_json(const RunSummary& summary);
/// Runs side by side: a row a metric, a column a run; at most 100 columns for three runs.
[[nodiscard]] std::string comparison_table(std::span<const RunSummary> runs);

}  // namespace syncline
