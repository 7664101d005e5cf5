// What is kept: recomputed modules, frozen weights, implementations, losses.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/model/model.hpp"
#include "tests/model/gpt.hpp"
#include "tests/model/kernels.hpp"

namespace syncline {
namespace {

using test::flop;

const ModelSpec Llama{.name = "llama3-8b",
                      .source = {},
                      .layers = 32,
                      .hidden = 4096,
                      .heads = 32,
                      .kv_heads = 8,
                      .ffn = 14336,
                      .vocabulary = 128256};
constexpr double T = 8192, H = 4096, Kv = 1024, F = 14336;

TrainingShape megatron() {
  return {.sequence = 8192, .microbatch = 1, .implementation = Implementation::Megatron};
}

TEST_CASE("a Llama layer of Megatron keeps what its kernels read") {
  // Two norms' inputs and outputs 4h, q and output 2h, k and v, gate, up and product; row statistics.
  const ModuleCost layer = layer_cost(Llama, megatron());
  CHECK(layer.saved == Bytes(T * (2 * (6 * H + 2 * Kv + 3 * F) + 4 * 32)));
  // q, k, v; output; gate and up; down.
  CHECK(test::of_kind(kernels_of(layer.forward), KernelClass::Gemm).size() == 4);
  // Two norms, rotary embedding of q and of k, two sums, SwiGLU: one kernel each.
  CHECK(test::of_kind(kernels_of(layer.forward), KernelClass::Elementwise).size() == 7);
}

TEST_CASE("models with LayerNorm are Megatron's where nothing else is said, others torchtitan's") {
  TrainingShape shape = megatron();
  const ModelSpec gpt = test::gpt(2, 256, 8);
  CHECK(implementation_of(Llama, shape) == Implementation::Megatron);
  shape.implementation.reset();
  CHECK(implementation_of(Llama, shape) == Implementation::Torchtitan);
  CHECK(implementation_of(gpt, shape) == Implementation::Megatron);
}

TEST_CASE("recomputed modules free their outputs and run their own kernels again") {
  struct Row {
    const char* name;
    RecomputedModules modules;
    double freed, again;  // bytes; FLOP
  };
  const double core = 2 * T * T * H;  // q kᵀ and p v over half the square
  const double mlp = 2 * T * 3 * H * F;
  const std::vector<Row> rows = {
      {"norms", {.norms = true}, 2 * 2 * T * H, 0},
      {"core", {.core = true}, 4 * T * 32, core},
      {"activation", {.activation = true}, 2 * T * F, 0},
      {"mlp", {.mlp = true}, 2 * T * 3 * F, mlp},
      {"mlp and its activation", {.activation = true, .mlp = true}, 2 * T * 3 * F, mlp},
      {"norms and core", {.norms = true, .core = true}, 2 * 2 * T * H + 4 * T * 32, core}};
  const ModuleCost all = layer_cost(Llama, megatron());
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      TrainingShape shape = megatron();
      shape.recompute = Recompute::Modules;
      shape.modules = row.modules;
      const ModuleCost layer = layer_cost(Llama, shape);
      CHECK(all.saved - layer.saved == Bytes(row.freed));
      CHECK(layer.transient - all.transient == Bytes(row.freed));
      CHECK(flop(layer.recompute) == row.again);
      CHECK(!layer.recompute.empty());
      CHECK(layer.backward_input == all.backward_input);
    }
  }
}

TEST_CASE("no named module is no recomputation, and the core alone is selective recompute") {
  TrainingShape shape = megatron();
  shape.recompute = Recompute::Modules;
  CHECK(layer_cost(Llama, shape).recompute.empty());
  shape.modules.core = true;
  const ModuleCost core = layer_cost(Llama, shape);
  shape.recompute = Recompute::Selective;
  CHECK(core.recompute == layer_cost(Llama, shape).recompute);
  CHECK(core.saved == layer_cost(Llama, shape).saved);
}

TEST_CASE("what is kept in less takes a cast forward and one back, whose result lives in backward alone") {
  struct Row {
    const char* name;
    std::optional<Precision> linear;
    std::optional<KeptPrecision> input, output;  // of SwiGLU, of attention
    double freed, moved, widened;                // bytes; moved: each way
  };
  constexpr auto E5m6 = KeptPrecision::E5m6, Fp8 = KeptPrecision::Fp8;
  const double gate_and_up = T * 2 * F, output = T * H, scale = 1 / 32.0;
  // 2 bytes a number in bf16. Beside products in fp8 attention's output had a copy in fp8, with its scales.
  const std::vector<Row> rows = {
      {"gate and up in fp8", {}, Fp8, {}, gate_and_up, 3 * gate_and_up, 2 * gate_and_up},
      {"... in 12 bits", {}, E5m6, {}, 0.5 * gate_and_up, 3.5 * gate_and_up, 2 * gate_and_up},
      {"attention's output in fp8", {}, {}, Fp8, output, 3 * output, 2 * output},
      {"... in 12 bits", {}, {}, E5m6, 0.5 * output, 3.5 * output, 2 * output},
      {"both", {}, Fp8, E5m6, gate_and_up + 0.5 * output, 3 * gate_and_up + 3.5 * output, 2 * gate_and_up},
      {"both, by block", Precision::Fp8, Fp8, E5m6, (1 - scale) * gate_and_up + 1.5 * output,
       (3 + scale) * gate_and_up + (3.5 + scale) * output, 2 * gate_and_up}};
  const auto passes = [](const std::vector<Segment>& segments) {
    return test::hbm(test::of_kind(kernels_of(segments), KernelClass::Elementwise));
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    TrainingShape shape = megatron();
    shape.linear = row.linear;
    shape.scaling = Scaling::Block;
    const ModuleCost before = layer_cost(Llama, shape);
    shape.kept_activation_input = row.input;
    shape.kept_attention_output = row.output;
    const ModuleCost layer = layer_cost(Llama, shape);
    CHECK(before.saved - layer.saved == Bytes(row.freed));
    CHECK(layer.transient - before.transient == Bytes(row.widened));
    CHECK(passes(layer.forward) - passes(before.forward) == row.moved);
    CHECK(passes(layer.backward_input) - passes(before.backward_input) == row.moved);
    CHECK(layer.backward_weight == before.backward_weight);
    CHECK(layer.kept_for_weight == before.kept_for_weight);
  }
}

TEST_CASE("frozen weights have no gradients, and what only these read is not kept") {
  TrainingShape shape = megatron();
  const ModuleCost trained = layer_cost(Llama, shape), head = head_cost(Llama, shape);
  shape.frozen = true;
  const ModuleCost frozen = layer_cost(Llama, shape), frozen_head = head_cost(Llama, shape);
  CHECK(frozen.backward_weight.empty());
  CHECK(frozen_head.backward_weight.empty());
  CHECK(frozen.parameters == trained.parameters);
  CHECK(trained.trainable_parameters == trained.parameters);
  CHECK(frozen.trainable_parameters == 0);
  CHECK(frozen.forward == trained.forward);
  CHECK(flop(frozen.backward_input) == flop(trained.backward_input));
  // Both norms' outputs and the inner product; attention's output is read by attention itself.
  CHECK(trained.saved - frozen.saved == Bytes(2 * T * (2 * H + F)));
  CHECK(head.saved - frozen_head.saved == Bytes(2 * T * H));
  CHECK(frozen.kept_for_weight == Bytes(0));
  const ModuleCost embedding = embedding_cost(Llama, shape);
  CHECK(embedding.backward_weight.empty());
  CHECK(embedding.backward_input.empty());
}

TEST_CASE("the loss keeps softmax in fp32, or one kernel the gradient in place of the logits") {
  TrainingShape shape = megatron();
  const double logits = T * 128256, norm = 4 * T * H;
  CHECK(head_cost(Llama, shape).saved == Bytes(4 * logits + norm));
  CHECK(head_cost(Llama, shape).transient == Bytes(2 * logits));
  shape.fused_loss = true;
  const ModuleCost fused = head_cost(Llama, shape);
  CHECK(fused.saved == Bytes(2 * logits + norm));
  CHECK(fused.transient == Bytes(0));
  // Forward: the sums read the logits, the gradient reads and writes them, a program a row; the norm as without.
  CHECK(test::hbm(test::of_kind(kernels_of(fused.forward), KernelClass::Gather)) == 6 * logits);
  CHECK(test::hbm(test::of_kind(kernels_of(fused.forward), KernelClass::Elementwise)) == norm);
  shape.tensor_parallel = 8;
  CHECK(test::exchanges(head_cost(Llama, shape).forward) == std::vector<std::string>{"all-gather-loss"});
  CHECK(test::exchanged(head_cost(Llama, shape).forward, LayerGroup::Tensor) == 8 * T * 3 * 4);
}

TEST_CASE("a model without an output projection ends in its norm") {
  ModelSpec model = Llama;
  model.output_projection = false;
  const ModuleCost head = head_cost(model, megatron());
  CHECK(head.parameters == H);
  CHECK(flop(head.forward) == 0);
  CHECK(head.saved == Bytes(2 * T * H));
  CHECK(model_flop(Llama, 8192, 1) - model_flop(model, 8192, 1) == Flop(6.0 * 128256 * H));
}

TEST_CASE("6 N D: products of a step are six FLOP a token and matrix parameter") {
  struct Row {
    const char* name;
    ModelSpec model;
    double matrices;  // of the layers and the output projection
  };
  ModelSpec gpt2 = test::gpt(48, 1600, 25);
  gpt2.vocabulary = 50257;
  const std::vector<Row> rows = {
      {"GPT-2 XL", gpt2, 12.0 * 48 * 1600 * 1600 + 50257.0 * 1600},
      {"GPT-3 175B", test::gpt(96, 12288, 96), 12.0 * 96 * 12288 * 12288 + 51200.0 * 12288},
      {"Llama-3-8B", Llama, 32 * H * (2 * H + 2 * Kv + 3 * F) + 128256 * H}};
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      for (const Implementation implementation : {Implementation::Megatron, Implementation::Torchtitan}) {
        const TrainingShape shape{.sequence = 1024, .microbatch = 2, .implementation = implementation};
        const auto products = [](const ModuleCost& cost) {
          return flop(test::of_kind(kernels_of(cost.forward), KernelClass::Gemm)) +
                 flop(test::of_kind(backward_kernels(cost), KernelClass::Gemm));
        };
        const ModuleCost layer = layer_cost(row.model, shape), head = head_cost(row.model, shape);
        CHECK(row.model.layers * products(layer) + products(head) == 6 * row.matrices * 2048);
        // Attention: 2 products forward and 5 backward, half a square of 1024² and hidden wide each, of 2
        // sequences.
        const double core = flop(test::of_kind(kernels_of(layer.forward), KernelClass::Attention)) +
                            flop(test::of_kind(backward_kernels(layer), KernelClass::Attention));
        CHECK(core == 7 * 1024.0 * 1024 * row.model.hidden * 2);
      }
    }
  }
}

}  // namespace
}  // namespace syncline
