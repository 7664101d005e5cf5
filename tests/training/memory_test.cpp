// What a rank holds at most: against measured peaks, sums by hand, and what would hold less.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/training/remedies.hpp"
#include "tests/training/jobs.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

/// Llama-3 cut to few layers, by Megatron-LM 23e00ed and TransformerEngine 2.11 on 8 B200: the largest of the
/// ranks' torch max_memory_allocated, which has no context and no cached memory. Distributed optimizer, fp32
/// gradients that the products add to, fused loss, sequence parallel with tp, all-to-all with cp, sequences
/// of 4096 (cp: 32768) one by one. Source: MooreThreads/SimuMax 4dcaae5,
/// docs/b200/b200_release_v1.2_summary.json.
struct Row {
  const char* name;
  int hidden, heads, kv_heads, ffn, layers;
  int tensor, context, pipeline, data;
  double peak;
};
constexpr Row Rows[]{{"70B pp2", 8192, 64, 8, 28672, 12, 1, 1, 2, 4, 71459614208},
                     {"70B tp2", 8192, 64, 8, 28672, 12, 2, 1, 1, 4, 65154739712},
                     {"70B tp4", 8192, 64, 8, 28672, 12, 4, 1, 1, 2, 41953287680},
                     {"70B tp8", 8192, 64, 8, 28672, 12, 8, 1, 1, 1, 30372386304},
                     {"405B tp2", 16384, 128, 16, 53248, 4, 2, 1, 1, 4, 87608367616},
                     {"405B tp4", 16384, 128, 16, 53248, 4, 4, 1, 1, 2, 56788897280},
                     {"70B tp2 cp4", 8192, 64, 8, 28672, 12, 2, 4, 1, 1, 73474310656},
                     {"405B tp2 cp4", 16384, 128, 16, 53248, 4, 2, 4, 1, 1, 93442593280}};

TrainingJob megatron(const Row& row) {
  constexpr int Vocabulary = 128256;
  const int unit = 128 * row.tensor;  // Megatron-LM pads to a multiple of it
  TrainingJob job;
  job.model.name = "llama";
  job.model.layers = row.layers;
  job.model.hidden = row.hidden;
  job.model.heads = row.heads;
  job.model.kv_heads = row.kv_heads;
  job.model.ffn = row.ffn;
  job.model.vocabulary = (Vocabulary + unit - 1) / unit * unit;
  job.shape.sequence = row.context > 1 ? 32768 : 4096;
  job.shape.implementation = Implementation::Megatron;
  job.shape.weight_gradients = WeightGradients::Fused;
  job.shape.fused_loss = true;
  job.shape.tensor_parallel = row.tensor;
  job.shape.sequence_parallel = row.tensor > 1;
  job.shape.context_parallel = row.context;
  job.shape.context_exchange = ContextExchange::AllToAll;
  job.pipeline_parallel = row.pipeline;
  job.data_parallel = row.data;
  job.gradient_accumulation = 4;
  job.sharding.kind = DataSharding::Zero1;
  job.sharding.overlap_reduction = false;
  return job;
}

/// 36 layers 1280 wide, 8 sequences of 1024 at once, in 16 bit, gradients in fp32.
TrainingJob gpt2_large(AttentionKernels attention, int microbatch) {
  TrainingJob job = gpt(1, 1, 8, 8 / microbatch);
  job.model.layers = 36;
  job.model.hidden = 1280;
  job.model.heads = job.model.kv_heads = 20;
  job.model.ffn = 5120;
  job.model.vocabulary = 50257;
  job.shape.microbatch = microbatch;
  job.shape.recompute = Recompute::None;
  job.shape.attention = attention;
  job.shape.dropout = true;
  return job;
}

/// Activations that the layers' forward takes, all of them together.
double kept_by_layers(const Schedule& schedule) {
  double sum = 0;
  for (const Op& op : schedule.roles[0].program)
    if (op.tag.phase == Phase::Forward && op.tag.layer >= 0 && op.tag.microbatch == 0)
      for (const MemoryEffect& effect : op.memory)
        if (effect.category == MemoryCategory::Activations && effect.bytes > Bytes(0))
          sum += effect.bytes.si();
  return sum;
}

double states(const Schedule& schedule) {
  double sum = 0;
  for (const MemoryEffect& effect : schedule.roles[0].resident) sum += effect.bytes.si();
  return sum;
}

}  // namespace

TEST_SUITE("training memory") {
  TEST_CASE("the peak of Megatron-LM's allocator is met within a hundredth") {
    for (const Row& row : Rows) {
      CAPTURE(row.name);
      const double error = peak_in_order(training_schedule(megatron(row), device())).si() / row.peak - 1;
      CAPTURE(error);
      CHECK(std::abs(error) < 0.01);
    }
  }

  TEST_CASE("attention matrices, not states, fill 40 GB") {
    // NVIDIA/Megatron-LM, issue 525. s = 1024, b = 8, h = 1280, a = 20: 34sbh = 0.357 GB a layer, 5as²b =
    // 0.839 GB; 774.0 M parameters of 18 bytes.
    struct Case {
      const char* name;
      AttentionKernels attention;
      int microbatch;
      double layers, together;  // GB
    };
    for (const Case& one : {Case{"unfused", AttentionKernels::Unfused, 8, 43.0, 57.0},
                            {"flash", AttentionKernels::Flash, 8, 12.8, 26.8},
                            {"half", AttentionKernels::Unfused, 4, 21.5, 35.4}}) {
      CAPTURE(one.name);
      const Schedule made = training_schedule(gpt2_large(one.attention, one.microbatch), device());
      CHECK(states(made) / 1e9 == doctest::Approx(13.9).epsilon(0.005));
      CHECK(kept_by_layers(made) / 1e9 == doctest::Approx(one.layers).epsilon(0.005));
      CHECK((states(made) + kept_by_layers(made)) / 1e9 == doctest::Approx(one.together).epsilon(0.005));
    }
  }

  TEST_CASE("moments in less take less room, and less of the optimizer's time") {
    struct Case {
      DataSharding kind;
      double shards;
      double master;  // bytes of the optimizer's own parameters
      double passes;  // of a moment, read or written: by one kernel, or by PyTorch's nine
    };
    const auto updated = [](const Schedule& made) {
      double sum = 0;
      for (const Op& op : made.roles[0].program)
        if (const auto* compute = std::get_if<Compute>(&op.body); compute && op.tag.name == "optimizer")
          for (const Kernel& kernel : made.works[compute->work.value()].kernels) sum += kernel.hbm.si();
      return sum;
    };
    for (const Case& one :
         {Case{DataSharding::Ddp, 1, 4, 4}, {DataSharding::Zero1, 4, 4, 4}, {DataSharding::Fsdp, 4, 0, 8}})
      for (const auto& [precision, bytes] : {std::pair{Precision::Fp32, 4.},
                                             {Precision::Bf16, 2.},
                                             {Precision::Fp16, 2.},
                                             {Precision::Fp8, 1.}}) {
        CAPTURE(one.kind);
        CAPTURE(bytes);
        TrainingJob job = gpt(1, 1, 4, 1);
        job.sharding.kind = one.kind;
        const double before = updated(training_schedule(job, device()));
        job.sharding.fsdp.moments = precision;
        const Schedule made = training_schedule(job, device());
        const double shard = parameter_count(job.model) / one.shards;
        CHECK(resident(made.roles[0], MemoryCategory::Optimizer).si() ==
              doctest::Approx((one.master + 2 * bytes) * shard));
        CHECK(before - updated(made) == doctest::Approx(one.passes * (4 - bytes) * shard));
      }
  }

  TEST_CASE("where modules are made again already, whole layers may be") {
    TrainingJob job = gpt2_large(AttentionKernels::Flash, 8);
    job.shape.recompute = Recompute::Modules;
    job.shape.modules.core = true;
    const std::vector<Remedy> found = remedies(job, device());
    const auto offered = [&](std::string_view change) {
      return std::ranges::count(found, change, &Remedy::change);
    };
    CHECK(offered("recompute: full") == 1);
    CHECK(offered("recompute: selective") == 0);
  }

  TEST_CASE("the largest remedy of attention matrices is not to keep them") {
    Device small = device();
    small.memory = Bytes(40e9);
    const TrainingJob job = gpt2_large(AttentionKernels::Unfused, 8);
    const Bytes peak = peak_in_order(training_schedule(job, small));
    CHECK(peak > small.memory);
    const std::vector<Remedy> found = remedies(job, small);
    std::string changes;
    for (const Remedy& remedy : found) {
      changes += remedy.change + "; ";
      CHECK(remedy.peak < peak);
      CHECK(remedy.fits == (remedy.peak <= small.memory));
    }
    // Full recomputation keeps 2sbh a layer; flash attention and selective recomputation 34sbh; half the
    // microbatch half of everything; sharding touches 12 to 18 bytes of each of 0.77 G parameters.
    CHECK(changes ==
          "recompute: full; recompute: selective; attention: flash; batch.microbatch: 4; "
          "sharding.kind: fsdp; sharding.kind: zero-1; ");
    const std::string text = remedies_text(found, peak, small.memory);
    CHECK(text.find("What would fit in 40 GB:\n") == 0);
    CHECK(text.find("  sharding.kind: zero-1") != std::string::npos);
    CHECK(text.find("; does not fit\n") != std::string::npos);
  }

  TEST_CASE("a job that holds as little as it can has no remedy") {
    TrainingJob job = gpt(1, 1, 1, 1);
    CHECK(remedies(job, device())
              .empty());  // one rank, one sequence; the head holds more than a layer made again
    CHECK(remedies_text({}, Bytes(1), Bytes(1)).find("No single change") == 0);
  }
}
