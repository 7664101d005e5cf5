// Products in less than 16 bit: what is cast, moved and kept; and sums of gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "sim/model/model.hpp"
#include "sim/model/steps.hpp"
#include "sim/model/weight_casts.hpp"
#include "tests/model/kernels.hpp"

namespace syncline {
namespace {

using test::flop;

/// 4 heads of 16, h = 64, f = 128; 40 tokens.
const ModelSpec Small{.name = "small",
                      .source = {},
                      .layers = 2,
                      .hidden = 64,
                      .heads = 4,
                      .kv_heads = 4,
                      .ffn = 128,
                      .vocabulary = 512};

TrainingShape shape_of(Implementation implementation, std::optional<Precision> linear, Scaling scaling) {
  return {.sequence = 20,
          .microbatch = 2,
          .linear = linear,
          .scaling = scaling,
          .implementation = implementation};
}
constexpr double T = 40, H = 64, F = 128;
// Of a layer in Megatron's products (q, k, v; output; gate and up; down): elements of inputs, weights and
// outputs.
constexpr double Inputs = T * (H + H + H + F), Weights = H * (3 * H + H + 3 * F),
                 Outputs = T * (3 * H + H + 2 * F + H);

TEST_CASE("casts by Transformer Engine cost a pass over every operand, and one more for current scales") {
  struct Row {
    const char* name;
    Precision linear;
    Scaling scaling;
    double read, copy;  // bytes of an element: read, and each of its two copies
    std::ptrdiff_t passes;
  };
  const std::vector<Row> rows = {{"delayed", Precision::Fp8, Scaling::Tensor, 2, 1, 1},
                                 {"current", Precision::Fp8, Scaling::Current, 4, 1, 2},
                                 {"blocks of 32", Precision::Fp8, Scaling::Block, 2, 1 + 1 / 32.0, 1},
                                 {"blocks of 16", Precision::Fp4, Scaling::Block, 2, 0.5 + 1 / 16.0, 1}};
  const ModuleCost wide = layer_cost(Small, shape_of(Implementation::Megatron, {}, Scaling::Block));
  const auto elementwise = [](const std::vector<Kernel>& kernels) {
    return test::of_kind(kernels, KernelClass::Elementwise);
  };
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      const ModuleCost layer = layer_cost(Small, shape_of(Implementation::Megatron, row.linear, row.scaling));
      const auto more = [&](auto part) {
        return std::pair(elementwise(kernels_of(layer.*part)), elementwise(kernels_of(wide.*part)));
      };
      const auto [forward, forward_before] = more(&ModuleCost::forward);
      CHECK(std::ssize(forward) - std::ssize(forward_before) == 4 * row.passes);
      CHECK(test::hbm(forward) - test::hbm(forward_before) ==
            doctest::Approx(Inputs * (row.read + 2 * row.copy)).epsilon(1e-12));
      const auto [backward, backward_before] = more(&ModuleCost::backward_input);
      CHECK(test::hbm(backward) - test::hbm(backward_before) ==
            doctest::Approx(Outputs * (row.read + 2 * row.copy)).epsilon(1e-12));
      CHECK(elementwise(layer.backward_weight).empty());
      // Weights once a step, beside the layers.
      TrainingShape shape = shape_of(Implementation::Megatron, row.linear, row.scaling);
      CHECK(weight_cast_bytes(Small, shape) == doctest::Approx(row.read + 2 * row.copy).epsilon(1e-12));
      shape.frozen = true;
      CHECK(weight_cast_bytes(Small, shape) == 0);
      CHECK(weight_cast_bytes(Small, shape_of(Implementation::Megatron, {}, row.scaling)) == 0);
      CHECK(weight_cast_bytes(Small, shape_of(Implementation::Torchtitan, row.linear, row.scaling)) == 0);
      // ... but with each product where they come for each.
      shape.frozen = false;
      shape.weights_come_and_go = true;
      CHECK(weight_cast_bytes(Small, shape) == 0);
      const auto each = elementwise(kernels_of(layer_cost(Small, shape).forward));
      CHECK(test::hbm(each) - test::hbm(forward) ==
            doctest::Approx(Weights * (row.read + 2 * row.copy)).epsilon(1e-12));
    }
  }
}

TEST_CASE("an operand that was written narrow is not cast again") {
  const transformer::Slice slice(Small, shape_of(Implementation::Megatron, Precision::Fp8, Scaling::Current));
  const auto product = [&slice](transformer::Handed handed) {
    return transformer::linear(slice, T, H, F, transformer::Again::No, 3, handed);
  };
  const transformer::Step all = product({}), input = product({.input = true}),
                          gradient = product({.gradient = true});
  constexpr double Cast = 2 + 2 + 2;  // bytes of an element: the largest, then read and written twice
  CHECK(test::hbm(all.forward) - test::hbm(input.forward) == doctest::Approx(3 * T * H * Cast));
  CHECK(test::hbm(all.input) == test::hbm(input.input));
  CHECK(test::hbm(all.input) - test::hbm(gradient.input) == doctest::Approx(3 * T * F * Cast));
  CHECK(test::hbm(all.forward) == test::hbm(gradient.forward));
  // Weights that come for each use are cast all the same.
  TrainingShape fsdp = shape_of(Implementation::Megatron, Precision::Fp8, Scaling::Current);
  fsdp.weights_come_and_go = true;
  const transformer::Step each = transformer::linear(transformer::Slice(Small, fsdp), T, H, F,
                                                     transformer::Again::No, 3, {.input = true});
  CHECK(test::hbm(each.forward) - test::hbm(input.forward) == doctest::Approx(3 * H * F * Cast));
}

TEST_CASE("torchao casts inputs and weights again in backward, and keeps the inputs in 16 bit") {
  const TrainingShape narrow = shape_of(Implementation::Torchtitan, Precision::Fp8, Scaling::Current);
  const ModuleCost layer = layer_cost(Small, narrow);
  const ModuleCost wide = layer_cost(Small, shape_of(Implementation::Torchtitan, {}, Scaling::Current));
  CHECK(layer.saved == wide.saved);
  // Seven products, each two passes over its input and two over its weight; the same again split over both
  // parts of backward, beside two over the gradient of its output.
  CHECK(kernels_of(layer.forward).size() == kernels_of(wide.forward).size() + 7 * 4);
  CHECK(kernels_of(layer.backward_input).size() == kernels_of(wide.backward_input).size() + 7 * 4);
  CHECK(layer.backward_weight.size() == wide.backward_weight.size() + 7 * 2);
}

TEST_CASE("products move narrow operands and 16-bit results, and do the same arithmetic") {
  const ModuleCost narrow =
      layer_cost(Small, shape_of(Implementation::Megatron, Precision::Fp8, Scaling::Tensor));
  const ModuleCost wide = layer_cost(Small, shape_of(Implementation::Megatron, {}, Scaling::Tensor));
  CHECK(flop(narrow.forward) == flop(wide.forward));
  CHECK(flop(backward_kernels(narrow)) == flop(backward_kernels(wide)));
  const auto products = test::of_kind(kernels_of(narrow.forward), KernelClass::Gemm);
  REQUIRE(products.size() == 4);
  CHECK(products[0].precision == Precision::Fp8);
  CHECK(products[0].hbm == Bytes(T * H + H * 3 * H + 2 * T * 3 * H));
  // Attention, and the projection to the vocabulary, stay as they were.
  CHECK(test::of_kind(kernels_of(narrow.forward), KernelClass::Attention).front().precision ==
        Precision::Bf16);
  const TrainingShape shape = shape_of(Implementation::Megatron, Precision::Fp8, Scaling::Tensor);
  for (const Kernel& kernel : test::of_kind(kernels_of(head_cost(Small, shape).forward), KernelClass::Gemm))
    CHECK(kernel.precision == Precision::Bf16);
}

TEST_CASE("Transformer Engine keeps the narrow copies of what only products read") {
  // In bf16: both norms' outputs and the MLP's inner product, 2 B each. In fp8 1 B each, and attention's
  // output in both.
  const Bytes wide = layer_cost(Small, shape_of(Implementation::Megatron, {}, Scaling::Tensor)).saved;
  const Bytes narrow =
      layer_cost(Small, shape_of(Implementation::Megatron, Precision::Fp8, Scaling::Tensor)).saved;
  CHECK(wide - narrow == Bytes(T * (2 * H + F) - T * H));
}

TEST_CASE("from I to W operands wait as the products read them, and RMSNorms whose weight is not done in I") {
  struct Row {
    const char* name;
    Implementation implementation;
    std::optional<Precision> linear;
    Scaling scaling;
    Fusion fusion;
    double element, norms;  // bytes of an operand; of the numbers of a norm
  };
  constexpr auto Megatron = Implementation::Megatron, Torchtitan = Implementation::Torchtitan;
  constexpr auto Compiled = Fusion::Compiled;
  const std::vector<Row> rows = {
      {"bf16", Megatron, {}, Scaling::Tensor, Compiled, 2, 0},
      {"fp8", Megatron, Precision::Fp8, Scaling::Tensor, Compiled, 1, 0},
      {"fp8 by block", Megatron, Precision::Fp8, Scaling::Block, Compiled, 1 + 1 / 32.0, 0},
      {"fp4", Megatron, Precision::Fp4, Scaling::Block, Compiled, 0.5 + 1 / 16.0, 0},
      {"eager", Megatron, {}, Scaling::Tensor, Fusion::Eager, 2, 4},
      {"torchao casts once more", Torchtitan, Precision::Fp8, Scaling::Tensor, Compiled, 2, 4}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    TrainingShape shape = shape_of(row.implementation, row.linear, row.scaling);
    shape.fusion = row.fusion;
    // Both norms: the normalised input and the gradient of the output.
    CHECK(layer_cost(Small, shape).kept_for_weight ==
          Bytes(row.element * (Inputs + Outputs) + row.norms * 2 * T * H));
    // The output projection is in bf16: its input and the gradient of the logits.
    CHECK(head_cost(Small, shape).kept_for_weight == Bytes(2 * T * (H + 512) + row.norms * T * H));
  }
}

TEST_CASE("TF32 and wider products cost no casts") {
  TrainingShape shape = shape_of(Implementation::Megatron, Precision::Tf32, Scaling::Current);
  shape.compute = Precision::Fp32;
  TrainingShape plain = shape;
  plain.linear.reset();
  const ModuleCost tf32 = layer_cost(Small, shape), fp32 = layer_cost(Small, plain);
  CHECK(kernels_of(tf32.forward).size() == kernels_of(fp32.forward).size());
  CHECK(test::hbm(kernels_of(tf32.forward)) == test::hbm(kernels_of(fp32.forward)));
  CHECK(test::of_kind(kernels_of(tf32.forward), KernelClass::Gemm).front().precision == Precision::Tf32);
  CHECK(tf32.saved == fp32.saved);
}

TEST_CASE("sums of weight gradients in fp32 are read and written by a pass, or by the product itself") {
  TrainingShape shape = shape_of(Implementation::Megatron, {}, Scaling::Current);
  const double plain = test::hbm(layer_cost(Small, shape).backward_weight);
  shape.weight_gradients = WeightGradients::Added;
  CHECK(test::hbm(layer_cost(Small, shape).backward_weight) == plain + Weights * (2 + 4 + 4));
  shape.weight_gradients = WeightGradients::Fused;
  CHECK(test::hbm(layer_cost(Small, shape).backward_weight) == plain + Weights * (4 + 4 - 2));
  // Autograd has an unused gradient of each weight instead.
  CHECK(layer_cost(Small, shape).workspace == Bytes(2 * Weights));
  shape.weight_gradients = WeightGradients::Added;
  CHECK(layer_cost(Small, shape).workspace == Bytes(0));
}

}  // namespace
}  // namespace syncline
