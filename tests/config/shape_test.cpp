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
