#include "sim/training/training.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/report/summary.hpp"
#include "sim/schedule/check.hpp"
#include "sim/training/stages.hpp"
#include "tests/training/jobs.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

RunSummary simulate(const TrainingJob& job) {
  const Schedule schedule = training_schedule(job, device());
  const std::vector<std::string> wrong = check_schedule(schedule);
  REQUIRE_MESSAGE(wrong.empty(), wrong.front());
  const Cluster where = star(job.ranks(), Seconds(1e-6));
  const RunSummary summary = summarise(make_simgrid_backend()->run(schedule, where, {}), schedule, where, {});
  for (const Check& check : summary.checks)
    CHECK_MESSAGE(check.violation.empty(), check.name, ": ", check.violation);
  return summary;
}

std::size_t count(const Role& role, CollectiveKind kind, std::string_view family, const Schedule& schedule) {
  std::size_t found = 0;
  for (const Op& op : role.program)
    if (const auto* collective = std::get_if<Collective>(&op.body))
      found += collective->kind == kind && schedule.families[collective->family.value()].name() == family;
  return found;
}

using Counts = std::vector<int>;

}  // namespace

TEST_SUITE("stages") {
  TEST_CASE("layers are dealt evenly, as listed, or by cost") {
    TrainingJob job = gpt(1, 4, 1, 8);
    CHECK(stage_layers(job, device()) == Counts{2, 2, 2, 2});
    job.model.layers = 10;
    CHECK(stage_layers(job, device()) == Counts{3, 3, 2, 2});
    job.pipeline.split = StageSplit::Listed;
    job.pipeline.layers = {1, 4, 4, 1};
    CHECK(stage_layers(job, device()) == Counts{1, 4, 4, 1});
    job.pipeline.schedule = "interleaved-1f1b";
    job.pipeline.chunks = 2;
    job.pipeline.split = StageSplit::Even;
    CHECK(stage_layers(job, device()) == Counts{2, 2, 1, 1, 1, 1, 1, 1});
  }

  TEST_CASE("balanced stages spare the one with the head, and no move of a layer betters them") {
    TrainingJob job = gpt(1, 4, 1, 8);
    job.model.layers = 30;
    job.model.vocabulary = 100000;
    job.pipeline.split = StageSplit::Balanced;
    const Counts counts = stage_layers(job, device());
    CHECK(std::accumulate(counts.begin(), counts.end(), 0) == 30);
    CHECK(counts.back() < counts[1]);
    const Modules modules(job);
    const auto slowest = [&](const Counts& layers) {
      Seconds most;
      for (const Stage& stage : cut_into_stages(layers))
        most = std::max(most, times_of(stage, job.model, modules, device()).total());
      return most;
    };
    for (std::size_t from = 0; from < 4; ++from)
      for (std::size_t to = 0; to < 4; ++to) {
        Counts moved = counts;
        --moved[from];
        ++moved[to];
        if (moved[from] >= 0) CHECK(slowest(moved).si() >= slowest(counts).si() * (1 - 1e-12));
      }
  }

  TEST_CASE("what a pipeline does not accept is refused with what would do") {
    struct Row {
      const char* name;
      void (*change)(TrainingJob&);
      const char* reason;
    };
    for (const Row& row : {
             Row{"fine", [](TrainingJob&) {}, ""},
             Row{"two directions", [](TrainingJob& job) { job.pipeline.schedule = "dualpipe"; },
                 "dualpipe has both ends of the model on one rank, twice, which is not simulated with a tied "
                 "embedding; try dualpipe-v"},
             Row{"more stages than layers", [](TrainingJob& job) { job.model.layers = 3; },
                 "1f1b has 4 virtual stages, more than the model has layers (3)"},
             Row{"chunks", [](TrainingJob& job) { job.pipeline.chunks = 2; },
                 "1f1b has 1 chunk a rank, not 2"},
             Row{"a short list",
                 [](TrainingJob& job) {
                   job.pipeline.split = StageSplit::Listed;
                   job.pipeline.layers = {2, 2, 3};
                 },
                 "lists 7 layers on 3 virtual stages, but the model has 8 and 1f1b has 4"},
         }) {
      CAPTURE(row.name);
      TrainingJob job = gpt(1, 4, 1, 8);
      row.change(job);
      CHECK(pipeline_refusal(job).value_or("") == row.reason);
    }
  }
}

TEST_SUITE("training step") {
  TEST_CASE("every parameter is held once by each replica, and a tied table at both ends") {
    for (const auto& [schedule, copies] : {std::pair("1f1b", 1.0), std::pair("zb-v-handcrafted", 0.0)}) {
      TrainingJob job = gpt(2, 4, 2, 8);
      job.pipeline.schedule = schedule;
      const Schedule made = training_schedule(job, device());
      REQUIRE(made.roles.size() == 4);
      double held = 0;
      for (const Role& role : made.roles) held += resident(role, MemoryCategory::Parameters).si();
      // In a V both ends of the model lie on rank 0; else the last stage copies the table, without the
      // positions. 2 bytes each; the table in halves on the tensor-parallel ranks.
      const Modules modules(job);
      const double whole =
          modules.embedding.parameters + 8 * modules.dense_layer.parameters + modules.head.parameters;
      CHECK(held == doctest::Approx(2 * (whole + copies * 32000 * 1024 / 2)).epsilon(1e-12));
      CHECK(whole >= parameter_count(job.model) / 2);  // norms and some biases are on both
      CHECK(resident(made.roles[0], MemoryCategory::Optimizer) ==
            6.0 * resident(made.roles[0], MemoryCategory::Parameters));
    }
  }

  TEST_CASE("tensor parallelism reduces twice forward, twice again and twice backward in every layer") {
    // Full recomputation: 2 (forward) + 2 (again) + 2 (gradients) all-reduces; 2 layers a stage, 8
    // microbatches.
    const Schedule made = training_schedule(gpt(4, 4, 1, 8), device());
    CHECK(count(made.roles[1], CollectiveKind::AllReduce, "tp", made) == 6 * 2 * 8);
    CHECK(collectives(training_schedule(gpt(1, 4, 1, 8), device()), 1, "tp").empty());
  }

  TEST_CASE("each stage's gradients are reduced once, all bytes of them") {
    TrainingJob job = gpt(1, 4, 2, 8);
    const Schedule made = training_schedule(job, device());
    for (const Role& role : made.roles) {
      Bytes reduced;
      for (const Op& op : role.program)
        if (const auto* collective = std::get_if<Collective>(&op.body))
          if (made.families[collective->family.value()].name() == "dp") reduced += collective->bytes;
      CHECK(reduced == resident(role, MemoryCategory::Gradients));
    }
  }

  TEST_CASE("the kernels' FLOP are what Megatron-LM's formula counts with full recomputation") {
    const TrainingJob job = gpt(2, 4, 2, 8);
    const Schedule made = training_schedule(job, device());
    const double formula = megatron_flop(job.model, 1024, 8 * 2).si();  // 8 microbatches of one, two replicas
    CHECK(made.job.hardware_flop.si() == doctest::Approx(formula).epsilon(0.005));
    CHECK(made.job.tokens == 8 * 2 * 1024);
  }

  TEST_CASE("1F1B holds p − r microbatches' activations on rank r") {
    const TrainingJob job = gpt(1, 4, 1, 8);
    const RunSummary run = simulate(job);
    REQUIRE(run.pipeline);
    for (int rank = 0; rank < 4; ++rank)
      CHECK(run.pipeline->ranks[static_cast<std::size_t>(rank)].peak_activations == 4 - rank);
  }

  TEST_CASE("a pipeline of equal stages comes near its closed form, and zero bubble below it") {
    // Layers alone: no vocabulary to speak of, so stages are alike; transfers take 2 MB / 100 GB/s = 21 us of
    // 10 ms.
    TrainingJob job = gpt(1, 4, 1, 16);
    job.model.vocabulary = 16;
    const RunSummary plain = simulate(job);
    CHECK(plain.pipeline->bubble_of_ideal == doctest::Approx(3.0 / 16).epsilon(0.05));  // (p − 1) / m
    job.pipeline.schedule = "zb-h1";
    const RunSummary zero_bubble = simulate(job);
    CHECK(zero_bubble.pipeline->mean_busy.si() ==
          doctest::Approx(plain.pipeline->mean_busy.si()).epsilon(1e-6));
    CHECK(zero_bubble.pipeline->bubble_of_ideal < 0.75 * plain.pipeline->bubble_of_ideal);
    job.pipeline.schedule = "interleaved-1f1b";
    job.pipeline.chunks = 2;
    const RunSummary interleaved = simulate(job);
    CHECK(interleaved.pipeline->bubble_of_ideal ==
          doctest::Approx(3.0 / 32).epsilon(0.1));  // (p − 1) / (v m)
  }

  TEST_CASE("the later chunk's gradients are reduced under the cool-down of the earlier") {
    TrainingJob job = gpt(2, 4, 2, 8);
    job.pipeline.schedule = "interleaved-1f1b";
    job.pipeline.chunks = 2;
    const Seconds overlapped = simulate(job).step_time;
    job.sharding.overlap_reduction = false;
    CHECK(overlapped < simulate(job).step_time);
  }

  TEST_CASE("every schedule that a model can have runs, in every mode of transfers") {
    for (const auto& generator : pipeline::generators()) {
      if (generator.placement == pipeline::Placement::Both) continue;
      for (const auto mode : {pipeline::TransferMode::Eager, pipeline::TransferMode::Overlapped,
                              pipeline::TransferMode::Blocking}) {
        CAPTURE(generator.name);
        TrainingJob job = gpt(2, 4, 1, 8);
        job.pipeline.schedule = generator.name;
        job.pipeline.transfers = mode;
        job.pipeline.scatter_gather = true;
        const RunSummary run = simulate(job);
        CHECK(run.pipeline->makespan > run.pipeline->mean_busy);
        CHECK_MESSAGE(run.warnings.empty(),
                      run.warnings.front());  // none gives back more activations than it took
      }
    }
  }

  TEST_CASE("transfers are found in the bubble's causes whether or not they are gathered") {
    for (const bool scatter_gather : {false, true}) {
      TrainingJob job = gpt(4, 2, 1, 4);
      job.pipeline.transfers = pipeline::TransferMode::Blocking;
      job.pipeline.scatter_gather = scatter_gather;
      const RunSummary run = simulate(job);
      Seconds transfer;
      for (const Idle& idle : run.pipeline->idle) transfer += idle.transfer;
      // 2 MiB, or a quarter of it, at 100 GB/s and 2 us of latency; 4 microbatches each way, seen by 2 ranks.
      const double one = (scatter_gather ? 1 : 4) * 524288 / 100e9 + 2e-6;
      CHECK(transfer.si() > 4 * one);
      CHECK(transfer.si() <= 8 * one * 1.001);
    }
  }

  TEST_CASE("both halves of a fused block keep their own microbatch and chunk") {
    for (const char* schedule : {"dualpipe-v", "zb-v-handcrafted", "v-min"}) {
      CAPTURE(schedule);
      TrainingJob job = gpt(1, 2, 1, 8);
      job.pipeline.schedule = schedule;
      pipeline::Request request;
      request.ranks = 2;
      request.microbatches = 8;
      const pipeline::Order order = make_order(*pipeline::find_generator(schedule), request);
      const pipeline::Replay exact = replay(order, pipeline::uniform_costs(order.stages, {}));
      const RunSummary run = simulate(job);
      for (std::size_t rank = 0; rank < 2; ++rank)
        CHECK(run.pipeline->ranks[rank].peak_activations == exact.ranks[rank].peak_activations);
    }
  }

  TEST_CASE("a stage may have nothing to do in a direction") {
    TrainingJob job = gpt(1, 2, 1, 4);
    job.pipeline.schedule = "zb-v-handcrafted";
    job.pipeline.split = StageSplit::Listed;
    job.pipeline.layers = {0, 4, 4, 0};  // the embedding alone has no gradient of its inputs
    CHECK(simulate(job).step_time > Seconds(0));
    job.pipeline.schedule = "1f1b";
    job.pipeline_parallel = 4;
    job.pipeline.layers = {4, 0, 0, 4};
    CHECK(simulate(job).step_time > Seconds(0));
  }

  TEST_CASE("parameters of fp32 are the optimizer's own") {
    TrainingJob job = gpt(1, 2, 1, 4);
    job.shape.compute = Precision::Fp32;
    const Schedule made = training_schedule(job, device());
    const Bytes parameters = resident(made.roles[0], MemoryCategory::Parameters);
    CHECK(resident(made.roles[0], MemoryCategory::Optimizer) == 2.0 * parameters);
  }

  TEST_CASE("parts of a boundary are sent and gathered") {
    TrainingJob job = gpt(4, 2, 1, 4);
    const Bytes whole(1024.0 * 1024 * 2);  // tokens × hidden × 2
    const auto sent = [](const Schedule& schedule) {
      for (const Op& op : schedule.roles[0].program)
        if (const auto* send = std::get_if<Send>(&op.body)) return send->bytes;
      return Bytes();
    };
    CHECK(sent(training_schedule(job, device())) == whole);
    job.pipeline.scatter_gather = true;
    const Schedule parts = training_schedule(job, device());
    CHECK(sent(parts) == whole / 4);
    // Of stage 1: one for each microbatch's activations; of stage 0: of its gradients.
    CHECK(count(parts.roles[0], CollectiveKind::AllGather, "tp", parts) == 4);
    CHECK(count(parts.roles[1], CollectiveKind::AllGather, "tp", parts) == 4);
  }
}
