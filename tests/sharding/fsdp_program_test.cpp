// Plans of fixed times laid out as a program: order, waits, memory; and the time they take.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/report/metrics.hpp"
#include "sim/schedule/check.hpp"
#include "sim/sharding/fsdp.hpp"
#include "tests/support/small_schedules.hpp"

namespace syncline {
namespace {

using namespace literals;

Work fixed_work(std::string name, Seconds time) {
  Kernel kernel;
  kernel.kind = KernelClass::Fixed;
  kernel.fixed = time;
  return {std::move(name), {kernel}};
}

/// Layers of 6 MB whose forward takes 5 ms and, when asked for, whose backward takes 10 ms.
FsdpPlan layers_only(int layers, bool backward) {
  FsdpPlan plan;
  plan.works = {fixed_work("forward", 5_ms), fixed_work("backward", 10_ms)};
  for (int layer = 0; layer < layers; ++layer) {
    plan.units.push_back({"layer", 6_MB, 12_MB});
    plan.stages.push_back({.name = "layer",
                           .layer = layer,
                           .steps = {{WorkId(0)}},
                           .unit = static_cast<std::size_t>(layer),
                           .gather = true,
                           .release = true,
                           .gradients = {},
                           .memory = {{MemoryCategory::Activations, 1_MB}}});
  }
  for (int layer = layers - 1; backward && layer >= 0; --layer) {
    FsdpStage stage = plan.stages[static_cast<std::size_t>(layer)];
    stage.phase = Phase::Backward;
    stage.steps = {{WorkId(1)}};
    stage.reduce = true;
    stage.gradients = 6_MB;
    stage.memory = {{MemoryCategory::Activations, -(1_MB)}};
    plan.stages.push_back(stage);
  }
  return plan;
}

Schedule schedule_of(const FsdpPlan& plan, const FsdpOptions& options, int ranks, int microbatches = 1) {
  Schedule schedule;
  schedule.name = "fsdp";
  schedule.meshes = {Mesh("dense", {{"dp", ranks}})};
  schedule.families = {GroupFamily::along("dp", schedule.meshes.front(), {"dp"})};
  schedule.streams = fsdp_streams();
  schedule.works = plan.works;
  schedule.roles = {{"rank", fsdp_program(plan, options, ranks, microbatches), {}}};
  schedule.role_of.assign(static_cast<std::size_t>(ranks), RoleId(0));
  return schedule;
}

/// The program in a few letters: "gather 1 < 0" is the all-gather of layer 1 that waits for op 0.
std::vector<std::string> in_words(const std::vector<Op>& program) {
  std::vector<std::string> lines;
  for (const Op& op : program) {
    std::string line =
        op.tag.name == "layer" ? (op.tag.phase == Phase::Forward ? "forward" : "backward") : op.tag.name;
    line += " " + std::to_string(op.tag.layer);
    if (const auto* wait = std::get_if<HostWait>(&op.body)) line += " of " + std::to_string(wait->op.value());
    for (const OpIndex earlier : op.after) line += " < " + std::to_string(earlier.value());
    lines.push_back(line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST_CASE("without prefetch a gather waits for the compute before it") {
  CHECK(in_words(fsdp_program(layers_only(3, false), {.forward_prefetch = 0}, 2, 1)) ==
        Lines{"all-gather 0", "forward 0 < 0", "all-gather 1 < 1", "forward 1 < 2", "all-gather 2 < 3",
              "forward 2 < 4"});
}

TEST_CASE("with one ahead a gather waits for the compute before the last") {
  CHECK(in_words(fsdp_program(layers_only(4, false), {.forward_prefetch = 1}, 2, 1)) ==
        Lines{"all-gather 0", "all-gather 1", "forward 0 < 0", "all-gather 2 < 2", "forward 1 < 1",
              "all-gather 3 < 4", "forward 2 < 3", "forward 3 < 5"});
}

TEST_CASE("backward gathers again, reduces after each layer, and waits for the reduction before the last") {
  CHECK(in_words(fsdp_program(layers_only(3, true), {.forward_prefetch = 2, .backward_prefetch = 0}, 2, 1)) ==
        Lines{"all-gather 0", "all-gather 1", "all-gather 2", "forward 0 < 0", "forward 1 < 1",
              "forward 2 < 2", "all-gather 2 < 5", "backward 2 < 6", "reduce-scatter 2 < 7",  // 6 7 8
              "all-gather 1 < 7", "backward 1 < 9", "reduce-scatter 1 < 10",                  // 9 10 11
              "all-gather 0 < 10", "backward 0 < 8 < 12", "reduce-scatter 0 < 13"});
}

TEST_CASE("the rate limit makes the host wait for the layer that frees its weights, and caps the prefetch") {
  CHECK(
      in_words(fsdp_program(layers_only(4, false), {.forward_prefetch = 3, .limit_all_gathers = 2}, 2, 1)) ==
      Lines{"all-gather 0", "all-gather 1", "forward 0 < 0", "limit-all-gathers 2 of 2", "all-gather 2 < 2",
            "forward 1 < 1", "limit-all-gathers 3 of 5", "all-gather 3 < 5", "forward 2 < 4",
            "forward 3 < 7"});
}

TEST_CASE("one rank computes alone") {
  CHECK(in_words(fsdp_program(layers_only(2, true), {}, 1, 1)) ==
        Lines{"forward 0", "forward 1", "backward 1", "backward 0"});
}

TEST_CASE("every microbatch gathers and reduces") {
  const std::vector<Op> program = fsdp_program(layers_only(3, true), {}, 2, 4);
  const auto count = [&](std::string_view name) {
    return std::count_if(program.begin(), program.end(), [&](const Op& op) { return op.tag.name == name; });
  };
  CHECK(count("all-gather") == 4 * 6);
  CHECK(count("reduce-scatter") == 4 * 3);
  CHECK(program.back().tag.microbatch == 3);
}

TEST_CASE("the update waits for the last reduction, the sum of the norms for the norm") {
  FsdpPlan plan = layers_only(1, true);
  plan.works.push_back(fixed_work("norm", 1_ms));
  plan.works.push_back(fixed_work("adam", 1_ms));
  plan.gradient_norm = WorkId(2);
  plan.optimizer = WorkId(3);
  const std::vector<Op> program = fsdp_program(plan, {}, 2, 1);
  REQUIRE(program.size() == 8);
  CHECK(in_words({program.end() - 4, program.end()}) ==
        Lines{"reduce-scatter 0 < 3", "gradient-norm -1 < 4", "all-reduce-norm -1 < 5", "optimizer -1 < 6"});
  CHECK(std::get<Collective>(program[6].body).bytes == 4_B);
  CHECK(program[6].stream == StreamId(FsdpReduceStream));
}

/// What is held after all ops, by category.
std::vector<double> left_over(const std::vector<Op>& program) {
  std::vector<double> held(MemoryCategoryCount);
  for (const Op& op : program)
    for (const MemoryEffect& effect : op.memory)
      held[static_cast<std::size_t>(effect.category)] += effect.bytes.si();
  return held;
}

TEST_CASE("what is taken is given back, but the reduced gradients where nothing consumes them") {
  for (const int ranks : {1, 2, 6}) {
    for (const int microbatches : {1, 3}) {
      for (const int limit : {0, 1, 2}) {
        for (const int prefetch : {0, 1, 5}) {
          CAPTURE(ranks);
          CAPTURE(microbatches);
          CAPTURE(limit);
          CAPTURE(prefetch);
          const FsdpOptions options{
              .forward_prefetch = prefetch, .backward_prefetch = prefetch, .limit_all_gathers = limit};
          const Schedule schedule = schedule_of(layers_only(5, true), options, ranks, microbatches);
          CHECK(check_schedule(schedule).empty());
          std::vector<double> expected(MemoryCategoryCount);
          expected[static_cast<std::size_t>(MemoryCategory::Gradients)] = 5 * 12e6 / ranks;
          CHECK(left_over(schedule.roles.front().program) == expected);
        }
      }
    }
  }
}

// --- played on two ranks
// ----------------------------------------------------------------------------------------------

/// Two ranks on links of 1 GB/s: a ring all-gather of 6 MB moves half of it once, 3 ms.
RunResult run(const FsdpPlan& plan, const FsdpOptions& options) {
  const Schedule schedule = schedule_of(plan, options, 2);
  return make_simgrid_backend()->run(schedule, testing::star(2, 1_GBps, 0_s), {});
}

TEST_CASE(
    "four layers of 3 ms gather and 5 ms forward take 32 ms without prefetch and 23 ms with one ahead") {
  // Without: 4 (3 + 5), all four gathers exposed. With one ahead only the first shows: 3 + 4 · 5. Two ahead
  // gain nothing more.
  struct Row {
    int prefetch;
    double step, exposed;
  };
  for (const Row& row : {Row{0, 32e-3, 12e-3}, Row{1, 23e-3, 3e-3}, Row{2, 23e-3, 3e-3}}) {
    CAPTURE(row.prefetch);
    const RunResult result = run(layers_only(4, false), {.forward_prefetch = row.prefetch});
    CHECK(result.step_time.si() == doctest::Approx(row.step).epsilon(1e-9));
    const Metrics metrics = compute_metrics(result.timeline, {}, FlopPerSecond(0));
    CHECK(metrics.mean.exposed.si() == doctest::Approx(row.exposed).epsilon(1e-9));
  }
}

TEST_CASE("a rate limit of one gathered layer takes the overlap away again") {
  const RunResult result = run(layers_only(4, false), {.forward_prefetch = 1, .limit_all_gathers = 1});
  CHECK(result.step_time.si() == doctest::Approx(32e-3).epsilon(1e-9));
}

TEST_CASE("prefetch one ahead holds one layer more") {
  // Weights 6 MB and the gather's buffer 6 MB of the running layer; ahead: the next one's buffer. Activations
  // 4 MB.
  const auto peak = [](int prefetch) {
    return run(layers_only(4, false), {.forward_prefetch = prefetch}).memory[0].peak;
  };
  CHECK(peak(0) == 6_MB + 6_MB + 4_MB);
  CHECK(peak(1) == 6_MB + 6_MB + 6_MB + 3_MB);
}

}  // namespace
}  // namespace syncline
