// The keys that say how a model is run: precisions, implementation, recomputed modules, latent attention.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

Scenario tiny(const std::vector<Override>& overrides) {
  use_test_data();
  return load_scenario(Data + "/tiny-16.yaml", overrides);
}

const std::string Latent = "{query-rank: 64, key-value-rank: 32, plain: 48, rotary: 16, value: 48}";

}  // namespace

TEST_SUITE("scenario: shape") {
  TEST_CASE("how a model is run arrives where it belongs") {
    const TrainingShape shape = tiny({{"device.peak.fp8", "1978TFLOPps"},
                                      {"precision", "{linear: fp8, scaling: block}"},
                                      {"parallel", "{tp: 2, sequence-parallel: true, tensor-chunks: 4}"},
                                      {"sharding.kind", "ddp"},
                                      {"implementation", "megatron"},
                                      {"weight-gradients", "fused"},
                                      {"fused-loss", "true"},
                                      {"frozen", "true"},
                                      {"recompute", "[core, norms]"}})
                                    .job.shape;
    CHECK(shape.linear == Precision::Fp8);
    CHECK(shape.compute == Precision::Bf16);
    CHECK(shape.scaling == Scaling::Block);
    CHECK(shape.tensor_chunks == 4);
    CHECK(shape.implementation == Implementation::Megatron);
    CHECK(shape.weight_gradients == WeightGradients::Fused);
    CHECK(shape.fused_loss);
    CHECK(shape.frozen);
    CHECK(shape.recompute == Recompute::Modules);
    CHECK(shape.modules == RecomputedModules{.norms = true, .core = true});
  }

  TEST_CASE("what is kept and held in less arrives") {
    const TrainingJob job =
        tiny({{"implementation", "megatron"},
              {"precision", "{moments: bf16, kept-activation-input: fp8, kept-attention-output: e5m6}"}})
            .job;
    CHECK(job.sharding.fsdp.moments == Precision::Bf16);
    CHECK(job.shape.kept_activation_input == KeptPrecision::Fp8);
    CHECK(job.shape.kept_attention_output == KeptPrecision::E5m6);
    const TrainingJob as_computed = tiny({}).job;
    CHECK(as_computed.sharding.fsdp.moments == Precision::Fp32);
    CHECK_FALSE(as_computed.shape.kept_activation_input);
    CHECK_FALSE(as_computed.shape.kept_attention_output);
  }

  TEST_CASE("latent attention and a model without projection arrive, too") {
    const ModelSpec model =
        tiny({{"model.kv-heads", "16"}, {"model.latent", Latent}, {"model.output-projection", "false"}})
            .job.model;
    CHECK(model.latent == LatentAttention{64, 32, 48, 16, 48});
    CHECK(model.head_dim() == 64);
    CHECK_FALSE(model.output_projection);
  }

  TEST_CASE("what is shown reads back as the same scenario") {
    const std::vector<std::vector<Override>> choices = {
        {{"recompute", "[mlp]"}, {"implementation", "torchtitan"}, {"frozen", "true"}},
        {{"recompute", "[norms, core, activation, mlp]"}, {"weight-gradients", "added"}},
        {{"device.peak.fp8", "1978TFLOPps"},
         {"precision", "{linear: fp8, scaling: tensor}"},
         {"fused-loss", "true"}},
        {{"implementation", "megatron"},
         {"precision", "{moments: fp8, kept-activation-input: e5m6, kept-attention-output: fp8}"}},
        {{"model.kv-heads", "16"}, {"model.latent", Latent}},
        {{"model.output-projection", "false"},
         {"sharding.kind", "ddp"},
         {"parallel", "{tp: 4, sequence-parallel: true, tensor-chunks: 2}"}}};
    const Folder folder;
    for (const std::vector<Override>& overrides : choices) {
      const Scenario scenario = tiny(overrides);
      const std::string shown = show_scenario(scenario);
      CAPTURE(shown);
      CHECK(shown != show_scenario(tiny({})));
      CHECK(show_scenario(load_scenario(folder.write("tiny-16.yaml", shown))) == shown);
    }
  }

  TEST_CASE("models of the catalogue have the published numbers of parameters") {
    // Billions: SC 2021, Table 1 (GPT); arXiv 2407.21783, 2402.00838 (OLMo, 6.9), 2408.00118, Table 2 with
    // embedding (Gemma 2: 9.24 and 27.2).
    struct Row {
      std::string name;
      double billions;
    };
    for (const Row& row : {Row{"gpt-3.6b", 3.6}, Row{"gpt-18.4b", 18.4}, Row{"gpt-39.1b", 39.1},
                           Row{"gpt-76.1b", 76.1}, Row{"llama3.1-405b", 405.85}, Row{"olmo-7b", 6.89},
                           Row{"gemma2-9b", 9.24}, Row{"gemma2-27b", 27.2}}) {
      CAPTURE(row.name);
      const ModelSpec model = load_model(SYNCLINE_SOURCE_DIR "/models/" + row.name + ".yaml");
      CHECK(std::abs(parameter_count(model) / 1e9 - row.billions) < 0.05);
    }
  }

  TEST_CASE("what does not fit is refused with a way out") {
    const std::vector<RefusedOverrides> rows = {
        {"unknown module",
         {{"recompute", "[norms, mpl]"}},
         "\"recompute[1]\": \"mpl\" is unknown; expected one of norms, core, activation, mlp, "
         "experts, expert-activation, shared-experts, latent; did you mean "
         "\"mlp\"?"},
        {"no module",
         {{"recompute", "[]"}},
         "\"recompute\": lists no module; give some of norms, core, activation, mlp, experts, "
         "expert-activation, shared-experts, latent, or none"},
        {"products wider than the rest",
         {{"precision.linear", "fp32"}},
         "\"precision.linear\" is fp32, wider than precision.compute (bf16); leave it out, or raise "
         "precision.compute"},
        {"no peak",
         {{"precision.linear", "int8"}},
         "\"precision.linear\" is int8, for which device toy has no peak rate; it has fp32, bf16"},
        {"scales of fp4",
         {{"device.peak.fp4", "1000TFLOPps"}, {"precision.linear", "fp4"}},
         "\"precision.linear\" is fp4, which has scales by block; set precision.scaling to block"},
        {"moments of no optimizer that there is",
         {{"precision.moments", "tf32"}},
         "\"precision.moments\": \"tf32\" is unknown; expected one of fp32, bf16, fp16, fp8"},
        {"moments of what is not trained",
         {{"precision.moments", "bf16"}, {"frozen", "true"}},
         "\"precision.moments\" is of an optimizer, and nothing is trained (frozen); leave it out"},
        {"kept in what is no less",
         {{"precision.kept-attention-output", "bf16"}},
         "\"precision.kept-attention-output\": \"bf16\" is unknown; expected one of e5m6, fp8"},
        {"kept by torchtitan",
         {{"precision.kept-attention-output", "fp8"}},
         "\"precision.kept-attention-output\" is of Megatron's layers; set implementation to megatron, or "
         "leave "
         "it out"},
        {"kept by whole layers made again",
         {{"precision.kept-attention-output", "fp8"}, {"implementation", "megatron"}, {"recompute", "full"}},
         "\"precision.kept-attention-output\" is of what layers keep, and recompute is full, which keeps but "
         "their input; leave it out"},
        {"kept under selective-op",
         {{"precision.kept-activation-input", "fp8"},
          {"implementation", "megatron"},
          {"recompute", "selective-op"}},
         "\"precision.kept-activation-input\" is not simulated with recompute selective-op; try selective or "
         "a "
         "list"},
        {"output of unfused attention",
         {{"precision.kept-attention-output", "fp8"},
          {"implementation", "megatron"},
          {"attention", "unfused"}},
         "\"precision.kept-attention-output\" is read by flash attention, and attention is unfused; set that "
         "to "
         "flash, or leave it out"},
        {"input of GeLU",
         {{"precision.kept-activation-input", "fp8"},
          {"implementation", "megatron"},
          {"model.activation", "gelu"}},
         "\"precision.kept-activation-input\" is of SwiGLU, which the model has not; leave it out"},
        {"inputs of SwiGLU of experts with biases",
         {{"model.experts", "{count: 16, top-k: 2, ffn: 512}"},
          {"model.bias", "true"},
          {"precision.kept-activation-input", "fp8"},
          {"implementation", "megatron"}},
         "\"precision.kept-activation-input\" is of one kernel for SwiGLU, which experts with biases have "
         "not; leave it "
         "out"},
        {"inputs of SwiGLU that are made again",
         {{"precision.kept-activation-input", "fp8"}, {"implementation", "megatron"}, {"recompute", "[mlp]"}},
         "\"precision.kept-activation-input\" is of what layers keep, and recompute names all that would "
         "keep it; leave it "
         "out"},
        {"input of SwiGLU one by one",
         {{"precision.kept-activation-input", "fp8"}, {"implementation", "megatron"}, {"kernels", "eager"}},
         "\"precision.kept-activation-input\" is of one kernel for SwiGLU; set kernels to compiled"},
        {"chunks of nothing",
         {{"parallel.tensor-chunks", "2"}},
         "\"parallel.tensor-chunks\" is 2, but nothing is gathered to be cut; set parallel.tp above 1 and "
         "parallel.sequence-parallel to true"},
        {"chunks that do not divide",
         {{"sharding.kind", "ddp"}, {"parallel", "{tp: 2, sequence-parallel: true, tensor-chunks: 3}"}},
         "\"parallel.tensor-chunks\" is 3, which does not divide the 2048 tokens of a rank; try 2 or 4"},
        {"latent with fewer keys",
         {{"model.latent", Latent}},
         "\"model.kv-heads\" is 4, but latent attention has a key for each of its heads; set it to 16"},
        {"latent of none",
         {{"recompute", "[norms, latent]"}},
         "\"recompute\" names latent, and the model has no latent attention; leave it out"},
        {"latent and selective-op",
         {{"model.kv-heads", "16"}, {"model.latent", Latent}, {"recompute", "selective-op"}},
         "\"recompute\" is selective-op, which is not simulated with latent attention; try selective or "
         "full"},
        {"tied to nothing",
         {{"model.output-projection", "false"}, {"model.tied-embedding", "true"}},
         "\"model.output-projection\" is false, but model.tied-embedding is true; leave out one of the two"}};
    check_refused(rows, tiny);
  }
}
