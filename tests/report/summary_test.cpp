#include "sim/report/summary.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

#include "sim/report/text.hpp"
#include "tests/report/example_run.hpp"
#include "tests/report/golden.hpp"
#include "tests/text.hpp"

using namespace syncline;
using namespace syncline::test;
using namespace syncline::literals;
using doctest::Approx;

namespace {

void check_width(const std::string& text, std::size_t columns) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(width(line) <= columns);
  }
}

std::string violations(const RunSummary& run) {
  std::string text;
  for (const Check& check : run.checks)
    if (!check.violation.empty()) text += check.violation + "\n";
  return text;
}

}  // namespace

TEST_CASE("every figure of a small run is the one on paper") {
  const RunSummary run = example_run().summary();
  struct Row {
    const char* metric;
    double expected;
  };
  const Row rows[] = {
      {"step-time", 0.7},
      {"tokens-per-s", 4000 / 0.7},
      {"tokens-per-s-per-accelerator", 1000 / 0.7},
      {"model-flop-per-s-per-accelerator", 30e12 / 0.7},
      {"mfu", 120e12 / (0.7 * 4 * 100e12)},
      {"hfu", 140e12 / (0.7 * 4 * 100e12)},
      {"compute-time", 0.640},                          // 200 + 400 + 40 ms
      {"communication-time", (0.080 + 3 * 0.070) / 4},  // 40 + 40 on rank 0, 30 + 40 elsewhere
      {"waiting-time", 0.010 / 4},
      {"exposed-communication", (0.060 + 3 * 0.050) / 4},  // 20 of the scatter are under backward
      {"exposed-communication-max", 0.060},
      {"exposed-share", 0.0525 / 0.7},
      {"overlap-share", 0.020 / 0.0725},
      {"bubble-fraction", (1 - 640.0 / 700 + 3 * (1 - 640.0 / 690)) / 4},
      {"peak-memory", 9e9},
  };
  std::set<std::string> tested;
  for (const Row& row : rows) {
    CAPTURE(row.metric);
    REQUIRE(metric_value(run, row.metric).has_value());
    CHECK(*metric_value(run, row.metric) == Approx(row.expected));
    tested.insert(row.metric);
  }
  // This run has no pipeline and no experts, and nobody knows what its parts draw and cost.
  for (const char* not_here :
       {"pipeline-time", "bubble-of-total", "bubble-of-ideal", "bubble-of-span", "peak-activations",
        "accelerator-energy", "energy", "energy-per-token", "network-cost", "network-power",
        "expert-imbalance", "expert-imbalance-max", "expert-wait", "expert-transfer", "expert-work",
        "expert-between-nodes", "expert-dropped"}) {
    CHECK_FALSE(metric_value(run, not_here).has_value());
    tested.insert(not_here);
  }
  const auto names = metric_names();
  CHECK(tested == std::set<std::string>(names.begin(), names.end()));
  CHECK(run.nodes == 2);
  CHECK(run.crosses_nodes);
  CHECK(run.checks_hold());
  CHECK(violations(run).empty());
}

TEST_CASE("the energy of a step is the power of accelerators and network times its time, or unknown") {
  ExampleRun example = example_run();
  example.cluster.device.power = 500_W;
  const RunSummary alone = example.summary();
  CHECK(metric_value(alone, "accelerator-energy") == Approx(4 * 500 * 0.7));  // four ranks
  CHECK_FALSE(metric_value(alone, "energy").has_value());
  CHECK(
      contains(summary_table(alone), "1.4 kJ a step, at most, without the network, whose power is unknown"));

  example.context.network_power = 300_W;
  example.context.network_usd = 2.5e6;
  const RunSummary whole = example.summary();
  CHECK(metric_value(whole, "energy") == Approx((4 * 500 + 300) * 0.7));
  CHECK(metric_value(whole, "energy-per-token") ==
        Approx((4 * 500 + 300) * 0.7 / 4000));  // 4000 tokens a step
  CHECK(metric_value(whole, "network-cost") == Approx(2.5e6));
  CHECK(metric_text("network-cost", 2.5e6) == "2.5 million USD");
  CHECK(metric_text("network-cost", 37299) == "37299 USD");
  const std::string table = summary_table(whole);
  CHECK(contains(table, "1.61 kJ a step, 402.5 mJ a token, at most (all at full load)"));
  CHECK(contains(table, "2.5 million USD, 300 W"));
  check_width(table, 100);

  example.cluster.device.power.reset();
  CHECK_FALSE(metric_value(example.summary(), "energy").has_value());
}

TEST_CASE("links are named, ranked by use, and summed by kind") {
  const RunSummary run = example_run().summary();
  // 1.5 GB in 0.7 s over 50 GB/s: 4.29 %. In order of id: gpu0 receives from its NIC, and so on round the ring.
  REQUIRE(run.busiest_links.size() == 5);
  CHECK(run.busiest_links[0].name == "node0.nic0 → node0.gpu0");
  CHECK(run.busiest_links[0].utilisation == Approx(1.5 / 35));
  CHECK(run.busiest_links[1].name == "leaf0 → node0.nic0");
  REQUIRE(run.link_kinds.size() == 3);
  CHECK(run.link_kinds[0].kind == "scale-up");
  CHECK(run.link_kinds[0].links == 8);
  CHECK(run.link_kinds[0].used == 4);
  CHECK(run.link_kinds[0].carried == 6_GB);
  CHECK(run.link_kinds[0].highest == Approx(1.5 / 70));
  CHECK(run.link_kinds[0].mean == Approx(6.0 / (8 * 70)));
  CHECK(run.link_kinds[2].kind == "scale-out level 1");
}

TEST_CASE("collectives have the bandwidths of nccl-tests") {
  const RunSummary run = example_run().summary();
  REQUIRE(run.collectives.size() == 2);
  const CollectiveSummary& gather = run.collectives[0];
  CHECK(gather.mean_time->si() == Approx(0.030));
  CHECK(gather.mean_waiting->si() == Approx(0.0025));
  CHECK(gather.algbw->si() == Approx(1e9 / 0.030));
  CHECK(gather.busbw->si() == Approx(0.75e9 / 0.030));  // (4 − 1) / 4
  CHECK(*gather.exposed_share == Approx(1.0));
  CHECK(*run.collectives[1].exposed_share == Approx(0.5));

  struct Row {
    CollectiveKind kind;
    double expected;
  };
  const Row rows[] = {{CollectiveKind::AllReduce, 1.75},
                      {CollectiveKind::AllGather, 0.875},
                      {CollectiveKind::ReduceScatter, 0.875},
                      {CollectiveKind::AllToAll, 0.875},
                      {CollectiveKind::Broadcast, 1}};
  for (const Row& row : rows) CHECK(bus_factor(row.kind, 8) == Approx(row.expected));
}

TEST_CASE("what stays inside the nodes is said") {
  const RunSummary inside = run_inside_nodes().summary(), across = example_run().summary();
  const std::string sentence = "nothing in this workload crosses a node: the scale-out network is not used";
  CHECK_FALSE(inside.crosses_nodes);
  CHECK(contains(summary_table(inside), sentence));
  CHECK_FALSE(contains(summary_table(across), sentence));
  REQUIRE(inside.groups.size() == 1);
  CHECK(inside.groups[0].groups == 2);
  CHECK(inside.groups[0].members == "0-1");
  CHECK(inside.groups[0].nodes_spanned == 1);
  CHECK(inside.groups[0].collectives == 4);
  CHECK(inside.groups[0].bytes_between_nodes == 0_B);
  CHECK(across.groups[0].nodes_spanned == 2);
  CHECK(across.groups[0].bytes_between_nodes == 3_GB);
}

TEST_CASE("groups are listed with their members even when nothing uses them") {
  ExampleRun run = run_inside_nodes();
  run.schedule.families.push_back(
      GroupFamily::listed("dp", 4, {{RankId(0), RankId(2)}, {RankId(1), RankId(3)}}));
  const RunSummary summary = run.summary();
  REQUIRE(summary.groups.size() == 2);
  CHECK(summary.groups[1].members == "0,2");
  CHECK(summary.groups[1].nodes_spanned == 2);
  CHECK(summary.groups[1].collectives == 0);
}

TEST_CASE("a run without communication says so and prints no figure that is not one") {
  const RunSummary run = run_without_communication().summary();
  const std::string table = summary_table(run), json = summary_json(run);
  CHECK(contains(table, "no communication in this run"));
  for (const std::string& text : {table, json, comparison_table(std::vector{run})}) {
    CHECK_FALSE(contains(text, "nan"));
    CHECK_FALSE(contains(text, "inf"));
  }
  CHECK(nlohmann::json::parse(json)["overlap_share"].is_null());
  CHECK(run.checks_hold());
}

TEST_CASE("a run without a timeline keeps what needs none") {
  ExampleRun example = example_run();
  example.result.timeline = {};
  const RunSummary run = example.summary();
  CHECK(*metric_value(run, "mfu") == Approx(0.4285714));
  CHECK_FALSE(metric_value(run, "exposed-communication").has_value());
  CHECK_FALSE(run.collectives[0].mean_time.has_value());
  CHECK(run.memory->peak_op == "B layer 0 layer-backward");
  CHECK(contains(summary_table(run), "not kept"));
  CHECK(run.checks_hold());
}

TEST_CASE("published figures stand beside the simulated ones with a signed error") {
  const RunSummary run = example_run().summary();
  REQUIRE(run.published.size() == 2);
  CHECK(*run.published[0].error == Approx((1000 / 0.7 - 1500) / 1500));  // −4.76 %
  CHECK_FALSE(run.published[0].other_size);
  CHECK(run.published[1].other_size);
}

TEST_CASE("expectations hold or fail") {
  struct Row {
    const char* name;
    Expectation expected;
    bool holds;
  };
  const Row rows[] = {
      // of a step of 0.7 s
      {"just within", {"step-time", 0.71, 0.0100001, {}, {}}, true},
      {"just outside", {"step-time", 0.71, 0.0099999, {}, {}}, false},
      {"at least, met", {"step-time", {}, {}, 0.7, {}}, true},
      {"at least, missed", {"step-time", {}, {}, 0.7000001, {}}, false},
      {"at most, met", {"step-time", {}, {}, {}, 0.7}, true},
      {"at most, missed", {"step-time", {}, {}, {}, 0.6999999}, false},
      {"between", {"step-time", {}, {}, 0.6, 0.8}, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    ExampleRun run = example_run();
    run.context.expect = {row.expected};
    CHECK(run.summary().expectations_hold() == row.holds);
  }
  ExampleRun unknown = example_run();
  unknown.schedule.job.tokens = 0;
  unknown.context.expect = {{"tokens-per-s", {}, {}, 0.0, {}}};
  CHECK_FALSE(unknown.summary().expectations_hold());
  CHECK_THROWS_WITH_AS((void)metric_value(unknown.summary(), "step-tme"), doctest::Contains("step-time"),
                       std::invalid_argument);
}

TEST_CASE("groups of different sizes, and one-member groups, keep to their own figures") {
  // Ranks 0-2 gather in 30 ms (rank 0 waits 10 ms); rank 3 is alone and takes no time.
  ExampleRun run = example_run();
  run.schedule.families[0] = GroupFamily::listed("dp", 4, {{RankId(0), RankId(1), RankId(2)}, {RankId(3)}});
  for (CollectiveChoice& choice : run.result.collectives) {
    choice.group_size = 3;
    choice.total_bytes_between_nodes = 2.5_GB;
  }
  for (Span& span : run.result.timeline.spans)
    if (span.rank == RankId(3) && span.op == 0) span.start = span.transfer = span.end;
  const RunSummary summary = run.summary();
  CHECK(summary.collectives[0].mean_time->si() == Approx(0.030));
  CHECK(summary.collectives[0].busbw->si() == Approx(1e9 / 0.030 * 2 / 3));
  CHECK(summary.groups[0].bytes_between_nodes == 5_GB);  // of both kinds

  run.schedule.families[0] = GroupFamily::listed("dp", 4, {{RankId(0), RankId(1)}, {RankId(2), RankId(3)}});
  CHECK_FALSE(run.summary().collectives[0].mean_time.has_value());  // no group of three
}

TEST_CASE("collectives that differ in algorithm alone are told apart") {
  ExampleRun run = example_run();
  Op& scatter = run.schedule.roles[0].program[3];
  scatter.body = Collective{CollectiveKind::AllGather, FamilyId(0), Algorithm::Direct, 1_GB};
  run.result.collectives[1].kind = CollectiveKind::AllGather;
  run.result.collectives[1].algorithm = Algorithm::Direct;
  run.result.timeline.ops = timeline_ops(run.schedule);
  const RunSummary summary = run.summary();
  CHECK(summary.collectives[0].mean_time->si() == Approx(0.030));
  CHECK(summary.collectives[1].mean_time->si() == Approx(0.040));
}

TEST_CASE("input that contradicts itself is warned of, and is no fault of ours") {
  ExampleRun run = example_run();
  CHECK(run.summary().warnings.empty());
  run.schedule.job.model_flop = Flop(560e12);  // in 0.7 s on 4 × 100 TFLOP/s: 200 %
  run.result.memory[1].least[4] = Bytes(-1e9);
  run.result.memory[2].least[1] = Bytes(-0.5);  // rounding
  const RunSummary summary = run.summary();
  REQUIRE(summary.warnings.size() == 2);
  CHECK(summary.warnings[0] ==
        "rank 1 gives back 1 GB of activations more than it has taken: its peak may be more than this");
  CHECK(summary.warnings[1] ==
        "MFU is 200.0 %: the job's FLOP are more than the kernels of this schedule can be");
  CHECK(summary.checks_hold());
  CHECK(contains(summary_table(summary), "\n  warning: MFU is 200.0 %"));
  CHECK(nlohmann::json::parse(summary_json(summary))["warnings"].size() == 2);
}

TEST_CASE("a result says what it is: its model and what was changed") {
  ExampleRun run = example_run();
  run.context.model = "small";
  const std::string differs = "this run differs from what was published";
  CHECK(contains(summary_table(run.summary()), "two-nodes, bf16\nmodel small\n\n"));
  run.context.overrides = {"run.seed=2", "topology.nodes=2"};
  CHECK_FALSE(contains(summary_table(run.summary()), differs));
  run.context.overrides.push_back("model=large");
  const RunSummary summary = run.summary();
  CHECK(contains(summary_table(summary),
                 "\nmodel small; changed by --set: run.seed=2, topology.nodes=2, model=large\n"));
  CHECK(contains(summary_table(summary), differs));
  CHECK(contains(comparison_table(std::vector{summary, summary}),
                 "model                                        small"));
  const auto object = nlohmann::json::parse(summary_json(summary));
  CHECK(object["model"] == "small");
  CHECK(object["overrides"] == nlohmann::json{"run.seed=2", "topology.nodes=2", "model=large"});
}

TEST_CASE("names cannot steer the terminal") {
  ExampleRun run = example_run();
  run.context.title =
      "\x1b[2Jgone\a \xc2\x9b"
      "31m\nsecond line";
  run.context.scenario = run.context.model = "a\x1b]0;b\x07";
  run.schedule.families[0] = GroupFamily::listed("d\x1bp", 4, {{RankId(0), RankId(1), RankId(2), RankId(3)}});
  const RunSummary summary = run.summary();
  for (const std::string& text : {summary_table(summary), comparison_table(std::vector{summary})}) {
    CHECK_FALSE(contains(text, "\x1b"));
    CHECK_FALSE(contains(text, "\a"));
    CHECK_FALSE(contains(text, "\xc2\x9b"));
  }
  CHECK(summary_table(summary).starts_with("\\x1b[2Jgone\\x07 \\x9b31m second line\n"));
}

TEST_CASE("out of memory names the rank and the op") {
  ExampleRun run = example_run();
  run.result.memory[2].peak = 11_GB;
  run.result.memory[2].at_peak[0] = 3_GB;
  run.result.memory[2].out_of_memory = true;
  run.result.memory[2].out_of_memory_op = 1;
  CHECK(contains(summary_table(run.summary()),
                 "OUT OF MEMORY on 1 of 4 ranks, first on rank 2: F layer 0 layer-forward\n"));
  CHECK(contains(summary_table(run.summary()), "Peak memory: 11 GB of 10 GB (110.0 %) on rank 2\n"));

  run.schedule.roles[0].resident.push_back({MemoryCategory::Activations, 8_GB});  // 11 GB before anything ran
  CHECK(run.summary().memory->out_of_memory_op == "before the first op");
  run.cluster.device.memory = 0_B;
  CHECK_FALSE(run.summary().memory->capacity.has_value());
}

TEST_CASE("runs side by side say which of them do not fit in memory") {
  ExampleRun large = example_run();
  large.result.memory[2].peak = 121_GB;
  large.result.memory[2].out_of_memory = true;
  std::vector<RunSummary> runs{large.summary(), example_run().summary()};
  CHECK(contains(comparison_table(runs),
                 "peak memory                        121 GB of 10 GB           9 GB of 10 GB\n"
                 "  fits                               OUT OF MEMORY                     yes\n"));
  runs.erase(runs.begin());
  CHECK_FALSE(contains(comparison_table(runs), "OUT OF MEMORY"));
}

TEST_CASE("what the network models round off is not taken for a contradiction") {
  // 10 MFLOP at 100 TFLOP/s take 100 ns; a picosecond or two is within what counts as the same time.
  for (const auto& [missing, holds] : {std::pair{1.5e-12, true}, {5e-12, false}}) {
    ExampleRun example = run_without_communication();
    example.schedule.works[0].kernels[0].flop = Flop(10e6);
    for (Span& span : example.result.timeline.spans)
      if (span.op == 0) span.end = Seconds(100e-9 - missing);
    CAPTURE(missing);
    CHECK(example.summary().checks_hold() == holds);
  }
}

TEST_CASE("contradictions are found and shown") {
  struct Row {
    const char* name;
    void (*spoil)(ExampleRun&);
    const char* violation;
  };
  const Row rows[] = {
      {"moves before it starts",
       [](ExampleRun& run) { run.result.timeline.spans[0].transfer = Seconds(-0.001); },
       "\"all-gather\" (op 0) on rank 0: start 0 s, transfer -1 ms, end 40 ms"},
      {"overlap in a stream",
       [](ExampleRun& run) {
         run.result.timeline.spans[2].start = run.result.timeline.spans[2].transfer = Seconds(0.230);
       },
       "\"layer-backward\" (op 2) on rank 0 starts 10 ms before the op before it ends"},
      // 20 TFLOP at 100 TFLOP/s: 200 ms
      {"too much FLOP", [](ExampleRun& run) { run.result.timeline.spans[2].end = Seconds(0.430); },
       "\"layer-backward\" (op 2) on rank 0 takes 190 ms, less than the 200 ms it needs at least"},
      // 0.75 GB over 100 + 50 GB/s: 5 ms
      {"too much bandwidth", [](ExampleRun& run) { run.result.timeline.spans[0].transfer = Seconds(0.036); },
       "\"all-gather\" (op 0) on rank 0 takes 4 ms, less than the 5 ms it needs at least"},
      {"step too short", [](ExampleRun& run) { run.result.step_time = Seconds(0.69); },
       "the step takes 690 ms, its timeline 700 ms"},
      {"link beyond its bandwidth", [](ExampleRun& run) { run.result.links[0].carried = 71_GB; },
       "carried 71 GB, at most 70 GB is possible"},
      {"lost bytes", [](ExampleRun& run) { run.result.links[0].carried = 1_GB; },
       "node0.switch received 1 GB and sent 1.5 GB"},
      {"bytes that went nowhere", [](ExampleRun& run) { run.result.bytes_sent = 6.5_GB; },
       "6.5 GB were sent; 6 GB left accelerators and 6 GB came to them"},
      {"negative memory", [](ExampleRun& run) { run.result.memory[3].at_peak[5] = Bytes(-2e9); },
       "rank 3 holds -2 GB of communication-buffers"},
      {"memory that does not add up", [](ExampleRun& run) { run.result.memory[1].peak = 9.5_GB; },
       "rank 1: the categories add up to 9 GB, the peak is 9.5 GB"},
      {"peak below what is resident",
       [](ExampleRun& run) {
         for (RankMemory& memory : run.result.memory) {
           memory.peak = 2_GB;
           memory.at_peak = {2_GB};
         }
       },
       "rank 0: resident 3 GB, peak 2 GB (4 cases)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    ExampleRun example = example_run();
    row.spoil(example);
    const RunSummary run = example.summary();
    CHECK_FALSE(run.checks_hold());
    CAPTURE(violations(run));
    CHECK(contains(violations(run), row.violation));
    CHECK(contains(summary_table(run), "internal inconsistency: "));
  }
}

TEST_CASE("ranks that are faster than their role are not taken for a contradiction") {
  ExampleRun example = example_run();
  for (Span& span : example.result.timeline.spans)
    if (span.rank == RankId(1) && span.op == 1)
      span.start = span.transfer = Seconds(0.160);  // 80 ms for 10 TFLOP
  CHECK_FALSE(example.summary().checks_hold());
  example.schedule.speeds = {{RankId(1), 0.8}};
  CHECK(example.summary().checks_hold());
}

TEST_CASE("the summary table is stable and fits the page") {
  const std::string table = summary_table(example_run().summary());
  check_width(table, 100);
  CHECK(table == golden("summary.txt", table));
}

TEST_CASE("the JSON object is stable and can be parsed") {
  const std::string json = summary_json(example_run().summary());
  CHECK(json == golden("summary.json", json));
  const auto object = nlohmann::json::parse(json);
  for (const char* key : {"schema",
                          "version",
                          "scenario",
                          "hash",
                          "seed",
                          "step_time_s",
                          "tokens_per_s",
                          "tokens_per_s_per_accelerator",
                          "mfu",
                          "hfu",
                          "exposed_communication_s",
                          "exposed_communication_max_s",
                          "overlap_share",
                          "bubble_fraction",
                          "peak_memory_bytes",
                          "memory",
                          "memory_capacity_bytes",
                          "out_of_memory",
                          "busiest_links",
                          "collectives",
                          "published",
                          "expect",
                          "checks",
                          "engine"}) {
    CAPTURE(key);
    CHECK(object.contains(key));
  }
  RunSummary slower = example_run().summary();
  slower.engine.wall_s = 12;  // the only figure that may differ between equal runs
  auto other = nlohmann::json::parse(summary_json(slower));
  CHECK(other["engine"]["wall_s"] == 12);
  other["engine"]["wall_s"] = object["engine"]["wall_s"];
  CHECK(other == object);
}

TEST_CASE("the summary says what was broken, and what that did") {
  ExampleRun example = example_run();
  CHECK_FALSE(contains(summary_table(example.summary()), "Faults"));
  Fault spine, nic, slow, late;
  spine = {.part = Fault::Part::Switch,
           .name = "spine0",
           .down = true,
           .at = Seconds(10e-3),
           .reroute = Seconds(5e-3)};
  nic = {.part = Fault::Part::Nic, .name = "node3.nic2", .bandwidth = 0.25, .at = {}, .reroute = {}};
  slow = {.part = Fault::Part::Accelerator, .name = "node1.gpu3", .slowdown = 1.5, .at = {}, .reroute = {}};
  late = {
      .part = Fault::Part::Link, .name = "leaf0 - spine1 #0", .down = true, .at = Seconds(2), .reroute = {}};
  example.result.faults = {{spine, {}, 16, 3}, {nic, {}, 4, 0}, {slow, RankId(11), 0, 0}, {late, {}, 2, 0}};
  example.result.detours = 0.125;
  example.result.ranks_moved = 2;
  example.cluster.noise = {0.02, 0};
  const RunSummary run = example.summary();
  const std::string table = summary_table(run);
  check_width(table, 100);
  CHECK(contains(table, R"(
Faults
  spine0             down from 10 ms, rerouted after 5 ms  16 links, 3 flows rerouted
  node3.nic2         at 25.0 % of its bandwidth            4 links
  node1.gpu3         1.5 times slower                      rank 11
)"));
  for (const char* line : {"down from 2 s, rerouted after 0 s     after the step",
                           "12.5 % of the pairs of ranks talk by another route",
                           "2 ranks are not on the accelerator of their number", "compute 2.00 %; seed"}) {
    CAPTURE(line);
    CHECK(contains(table, line));
  }
  const auto object = nlohmann::json::parse(summary_json(run));
  CHECK(run.warnings ==
        std::vector<std::string>{
            "the fault of \"leaf0 - spine1 #0\" is from 2 s on, after the step: it changes nothing"});
  REQUIRE(object["faults"].size() == 4);
  CHECK(object["faults"][0]["rerouted_transfers"] == 3);
  CHECK(object["faults"][0]["at_s"] == 0.01);
  CHECK(object["faults"][1]["at_s"].is_null());
  CHECK(object["faults"][2]["rank"] == 11);
  CHECK(object["detour_share"] == 0.125);
  CHECK(object["ranks_moved"] == 2);
  CHECK(object["noise"]["compute"] == 0.02);
}

TEST_CASE("with noise an op may be faster than its mean, and that is no contradiction") {
  ExampleRun example = example_run();
  for (Span& span : example.result.timeline.spans)
    if (span.rank == RankId(1) && span.op == 1)
      span.start = span.transfer = Seconds(0.160);  // 80 ms for 10 TFLOP
  CHECK_FALSE(example.summary().checks_hold());
  example.cluster.noise.compute = 0.2;
  CHECK(example.summary().checks_hold());
}

TEST_CASE("three runs side by side fit the page") {
  std::vector<RunSummary> runs{example_run().summary(), run_inside_nodes().summary(),
                               run_without_communication().summary()};
  runs[1].context.scenario = "a name that is much longer than its column";
  const std::string table = comparison_table(runs);
  check_width(table, 100);
  CHECK(table == golden("comparison.txt", table));
  CHECK(comparison_table({}) == "");
}
