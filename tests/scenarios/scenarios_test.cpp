// Every scenario that ships: it runs, keeps its own promises and the laws of physics, and tells the same twice.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/report/summary.hpp"
#include "sim/schedule/check.hpp"
#include "sim/schedule/text.hpp"
#include "tools/question.hpp"

namespace syncline {
namespace {

const std::string Scenarios = std::string(SYNCLINE_SOURCE_DIR) + "/scenarios/";

struct Simulated {
  Schedule schedule;
  RunSummary summary;
};

Simulated simulate(const std::string& file, const std::vector<Override>& overrides = {},
                   RunOptions options = {}) {
  Question question = read_question(file, overrides, {}, options.fold);
  const Scenario& scenario = *question.scenario;
  RunContext context;
  context.scenario = scenario.name;
  context.published = scenario.published;
  context.expect = scenario.expect;
  if (scenario.is_training()) context.experts = expert_tokens(scenario.job);
  const RunResult result = make_simgrid_backend()->run(question.schedule, question.cluster, options);
  RunSummary summary = summarise(result, question.schedule, question.cluster, context);
  return {std::move(question.schedule), std::move(summary)};
}

// A scenario that says so, or of more than 256 ranks, is run folded, and its schedule is not written out.
bool folded(const std::string& file) {
  const Scenario scenario = load_scenario(file);
  return scenario.fold || (!scenario.textbook && scenario.job.ranks() > 256);
}

bool ends_with_any(const std::string& file, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return file.ends_with(name + ".yaml"); });
}

// Sweeps lie beside the scenarios that they are of; tests/sweep reads those.
bool is_sweep(const std::filesystem::path& file) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with("scenario:")) return true;
  return false;
}

std::vector<std::string> all_scenarios() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(Scenarios))
    if (entry.path().extension() == ".yaml" && !is_sweep(entry.path()))
      files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// All of the JSON but the wall-clock time, which ends it.
std::string without_wall_clock(const RunSummary& summary) {
  const std::string json = summary_json(summary);
  const std::size_t wall = json.find("\"wall_s\"");
  REQUIRE(wall != std::string::npos);
  return json.substr(0, wall);
}

TEST_CASE("every scenario runs, meets its expectations and breaks no law of physics") {
  const std::vector<std::string> files = all_scenarios();
  REQUIRE(files.size() >= 11);
  for (const std::string& file : files) {
    CAPTURE(file);
    RunOptions options;
    options.fold = folded(file);
    const Simulated run = simulate(file, {}, options);
    CHECK(run.summary.step_time > Seconds(0));
    CHECK(run.summary.expectations_hold());
    for (const Check& check : run.summary.checks)
      CHECK_MESSAGE(check.violation.empty(), check.name, ": ", check.violation);
    // Step times of published pipelines: -7 % for 310B on 16 stages, -3 % for 175B on 12, near 0 for 175B on 16.
    // With experts -37 % (Ironwood, whose activations go to the host) to +40 % (GB300).
    const double most = file.find("-moe-") == std::string::npos ? 0.10 : 0.45;
    for (const ClaimSummary& claim : run.summary.published)
      if (claim.published.metric == "step-time") CHECK(std::abs(claim.error.value_or(1)) < most);
    // Llama 3 405B kept its activations in 80 GB by means that the report does not tell in full; DeepSeek-V3 on
    // Ironwood has them on the host.
    const bool too_large =
        ends_with_any(file, {"llama3-405b-h100-8192", "deepseek-v3-moe-fsdp-ironwood-128"});
    if (run.summary.memory && !too_large)
      CHECK(run.summary.memory->ranks_out_of_memory == 0);  // textbooks have none
  }
}

TEST_CASE("the schedule of every scenario of up to 256 ranks is sound and survives its text form") {
  for (const std::string& file : all_scenarios()) {
    CAPTURE(file);
    if (folded(file)) continue;
    const Schedule schedule = read_question(file, {}, {}).schedule;
    CHECK(check_schedule(schedule).empty());
    const std::string text = schedule_text(schedule);
    CHECK(schedule_text(read_schedule(text, "text")) == text);
  }
}

TEST_CASE("two runs give identical bytes") {
  const std::string file = Scenarios + "fabrics/fat-tree-4to1.yaml";
  CHECK(without_wall_clock(simulate(file).summary) == without_wall_clock(simulate(file).summary));
}

TEST_CASE("predictions of the published runs stay within the error that is stated for them") {
  // All come out too fast (see the scenarios' published figures); a run that leaves this band has changed the model.
  struct Row {
    const char* name;
    double least, most;  // signed error of tokens/s
  };
  for (const Row& row : {Row{"llama3-8b-fsdp-h100-8", 0.0, 0.10},
                         {"llama3-8b-fsdp-h100-8-eager", 0.0, 0.10},
                         {"llama3-8b-fsdp-h100-128", 0.0, 0.13},
                         {"llama3-8b-fsdp-h100-128-eager", 0.0, 0.12},
                         {"llama3-8b-fsdp-a100-64", 0.0, 0.08},
                         {"llama2-13b-fsdp-a100-64", 0.0, 0.12}}) {
    CAPTURE(std::string(row.name));
    const Simulated run = simulate(Scenarios + "runs/" + row.name + ".yaml");
    REQUIRE_FALSE(run.summary.published.empty());
    const ClaimSummary& claim = run.summary.published.front();
    CHECK(claim.published.metric == "tokens-per-s-per-accelerator");
    REQUIRE(claim.error);
    CHECK(*claim.error >= row.least);
    CHECK(*claim.error <= row.most);
  }
}

TEST_CASE("without prefetch FSDP is slower, and the difference is exposed communication") {
  const std::string file = Scenarios + "fabrics/fat-tree-1to1.yaml";
  const std::vector<Override> off{{"sharding.forward-prefetch", "0"}, {"sharding.backward-prefetch", "0"}};
  const Simulated with = simulate(file), without = simulate(file, off);
  CHECK(without.summary.step_time > with.summary.step_time);
  const Seconds step = without.summary.step_time - with.summary.step_time;
  const Seconds exposed = without.summary.metrics->mean.exposed - with.summary.metrics->mean.exposed;
  CHECK(exposed > Seconds(0));
  // Compute itself is a little faster where nothing runs beside it, so the step loses less than what is exposed.
  const Seconds compute = without.summary.metrics->mean.compute - with.summary.metrics->mean.compute;
  CHECK(compute < Seconds(0));
  CHECK(step.si() == doctest::Approx((exposed + compute).si()).epsilon(0.01));
}

std::vector<Override> leaves_of_two_nodes(int accelerators, bool oversubscribed) {
  return {{"topology.accelerators", std::to_string(accelerators)},
          {"parallel.dp", std::to_string(accelerators)},
          {"batch.global", std::to_string(accelerators)},
          {"batch.microbatch", "1"},
          {"batch.sequence", "2048"},
          {"topology.scale-out.radix", oversubscribed ? "20" : "32"},
          {"topology.scale-out.oversubscription", oversubscribed ? "[4]" : "[1]"}};
}

TEST_CASE(
    "oversubscription lengthens the step only where traffic crosses the thin level, and the report names the "
    "links") {
  const std::string file = Scenarios + "fabrics/fat-tree-1to1.yaml";
  // 16 accelerators are one leaf: nothing goes up.
  CHECK(simulate(file, leaves_of_two_nodes(16, true)).summary.step_time ==
        simulate(file, leaves_of_two_nodes(16, false)).summary.step_time);
  // 64 are four leaves.
  const RunSummary thin = simulate(file, leaves_of_two_nodes(64, true)).summary;
  const RunSummary full = simulate(file, leaves_of_two_nodes(64, false)).summary;
  CHECK(thin.step_time > full.step_time * 1.05);
  REQUIRE_FALSE(thin.busiest_links.empty());
  const std::string& busiest = thin.busiest_links.front().name;
  CHECK_MESSAGE(busiest.find("leaf") != std::string::npos, busiest);
  CHECK_MESSAGE(busiest.find("spine") != std::string::npos, busiest);
  CHECK(full.busiest_links.front().name.find("spine") == std::string::npos);
}

TEST_CASE("every transfer by itself gives the step that the aggregate gives") {
  const std::string file = Scenarios + "fabrics/fat-tree-1to1.yaml";
  const std::vector<Override> small = leaves_of_two_nodes(16, false);
  const Simulated aggregate = simulate(file, small);
  const Simulated full = simulate(file, small, {Detail::Full, NetworkModel::Fluid});
  const Simulated native = simulate(file, small, {Detail::Full, NetworkModel::Native});
  CHECK(aggregate.summary.step_time.si() == doctest::Approx(full.summary.step_time.si()).epsilon(0.005));
  CHECK(native.summary.step_time.si() == doctest::Approx(full.summary.step_time.si()).epsilon(1e-6));
}

}  // namespace
}  // namespace syncline
