// FLOP, bytes and activations of a transformer, against sums done by hand.
#include "sim/model/model.hpp"

#include <doctest/doctest.h>

#include <algorithm>

namespace syncline {
namespace {

const ModelSpec Llama3_8B{.name = "llama3-8b",
                          .source = {},
                          .layers = 32,
                          .hidden = 4096,
                          .heads = 32,
                          .kv_heads = 8,
                          .head_size = 128,
                          .ffn = 14336,
                          .vocabulary = 128256};
/// Two layers, 4 heads of 4 sharing 2 key heads, h = 16, f = 32, V = 100.
const ModelSpec Tiny{.name = "tiny",
                     .source = {},
                     .layers = 2,
                     .hidden = 16,
                     .heads = 4,
                     .kv_heads = 2,
                     .ffn = 32,
                     .vocabulary = 100};

TrainingShape shape_of(Recompute recompute, Fusion fusion) {
  return {.sequence = 8, .microbatch = 3, .recompute = recompute, .fusion = fusion};
}

double flop(const std::vector<Kernel>& kernels, KernelClass kind) {
  double sum = 0;
  for (const Kernel& kernel : kernels)
    if (kernel.kind == kind) sum += kernel.flop.si();
  return sum;
}
double flop(const std::vector<Kernel>& kernels) {
  return flop(kernels, KernelClass::Gemm) + flop(kernels, KernelClass::Attention);
}
double bytes(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& kernel : kernels) sum += kernel.hbm.si();
  return sum;
}
double flop(const std::vector<Segment>& segments, KernelClass kind) {
  return flop(kernels_of(segments), kind);
}
double flop(const std::vector<Segment>& segments) {
  return flop(kernels_of(segments));
}
std::ptrdiff_t count(const std::vector<Kernel>& kernels, KernelClass kind) {
  return std::count_if(kernels.begin(), kernels.end(),
                       [&](const Kernel& kernel) { return kernel.kind == kind; });
}

TEST_CASE("parameter counts are those published") {
  struct Row {
    ModelSpec model;
    double count;
  };
  const ModelSpec llama2_7b{.name = "llama2-7b",
                            .source = {},
                            .layers = 32,
                            .hidden = 4096,
                            .heads = 32,
                            .kv_heads = 32,
                            .ffn = 11008,
                            .vocabulary = 32000};
  const ModelSpec llama2_70b{.name = "llama2-70b",
                             .source = {},
                             .layers = 80,
                             .hidden = 8192,
                             .heads = 64,
                             .kv_heads = 8,
                             .ffn = 28672,
                             .vocabulary = 32000};
  ModelSpec llama3_70b = llama2_70b;
  llama3_70b.name = "llama3-70b";
  llama3_70b.vocabulary = 128256;
  for (const Row& row : {Row{Llama3_8B, 8'030'261'248}, Row{llama2_7b, 6'738'415'616},
                         Row{llama2_70b, 68'976'648'192}, Row{llama3_70b, 70'553'706'496}}) {
    CAPTURE(row.model.name);
    CHECK(parameter_count(row.model) == row.count);
  }
}

TEST_CASE("a tied output projection has no parameters of its own") {
  ModelSpec tied = Tiny;
  tied.tied_embedding = true;
  CHECK(parameter_count(Tiny) - parameter_count(tied) == 100 * 16);
}

TEST_CASE("a layer's forward has 2 FLOP per matrix parameter and token, and half a square of attention") {
  // h(2q + 2kv + 3f) = 16 (2·16 + 2·8 + 3·32) = 2304 parameters; 24 tokens: 2 · 2304 · 24 = 110,592.
  // Attention: 4 · 8² · 16 / 2 = 2048 a sequence, three of them.
  const ModuleCost layer = layer_cost(Tiny, shape_of(Recompute::None, Fusion::Eager));
  CHECK(layer.parameters == 2304 + 2 * 16);
  CHECK(flop(layer.forward, KernelClass::Gemm) == 110'592);
  CHECK(flop(layer.forward, KernelClass::Attention) == 3 * 2048);
  CHECK(flop(backward_kernels(layer), KernelClass::Gemm) == 2 * 110'592);
  CHECK(flop(backward_kernels(layer), KernelClass::Attention) == 2.5 * 3 * 2048);
  CHECK(layer.recompute.empty());
}

TEST_CASE(
    "forward and backward without recomputation are the model's FLOP, but for attention's extra product") {
  // Backward of flash attention makes the scores again: 2.5 forwards instead of 2.
  for (const Fusion fusion : {Fusion::Eager, Fusion::Compiled}) {
    const TrainingShape shape{
        .sequence = 8192, .microbatch = 1, .recompute = Recompute::None, .fusion = fusion};
    const ModuleCost layer = layer_cost(Llama3_8B, shape), head = head_cost(Llama3_8B, shape);
    const double attention = flop(layer.forward, KernelClass::Attention);
    const double step = 32 * (flop(layer.forward) + flop(backward_kernels(layer)) - 0.5 * attention) +
                        flop(head.forward) + flop(backward_kernels(head));
    CHECK(step == doctest::Approx(model_flop(Llama3_8B, 8192, 8192).si()).epsilon(1e-12));
  }
}

TEST_CASE("model FLOP per token of Llama-3-8B at 8192 tokens") {
  // Matrices: 32 · 4096 (2·4096 + 2·1024 + 3·14336) + 128256 · 4096 = 7,504,658,432 parameters, 6 FLOP each;
  // attention: 6 · 32 · 4096 · 8192 = 6,442,450,944.
  CHECK(model_flop(Llama3_8B, 8192, 1).si() == 6 * 7'504'658'432.0 + 6'442'450'944.0);
}

TEST_CASE("selective recompute repeats k, attention output and up of the seven products, and no attention") {
  // 2 · 24 tokens · h (kv + q + f) = 48 · 16 (8 + 16 + 32) = 43,008 FLOP.
  for (const Fusion fusion : {Fusion::Eager, Fusion::Compiled}) {
    const ModuleCost layer = layer_cost(Tiny, shape_of(Recompute::SelectiveOp, fusion));
    CHECK(count(kernels_of(layer.recompute), KernelClass::Gemm) == 3);
    CHECK(count(kernels_of(layer.recompute), KernelClass::Attention) == 0);
    CHECK(flop(layer.recompute) == 43'008);
  }
}

TEST_CASE("full recompute repeats the forward and keeps the input alone") {
  const ModuleCost layer = layer_cost(Tiny, shape_of(Recompute::Full, Fusion::Eager));
  CHECK(layer.recompute == layer.forward);
  CHECK(layer.saved == Bytes(24 * 16 * 2));  // tokens · h · bf16
}

TEST_CASE("what selective recompute keeps of Llama-3-8B") {
  // Per token in bf16: input 4096, q 4096, v 1024, gate 14336, attention 4096 and 32 row statistics in fp32:
  // 2 · 27,648 + 128 = 55,424 bytes; eagerly the down product's output too: 8,192 more.
  const TrainingShape compiled{
      .sequence = 8192, .microbatch = 2, .recompute = Recompute::SelectiveOp, .fusion = Fusion::Compiled};
  TrainingShape eager = compiled;
  eager.fusion = Fusion::Eager;
  CHECK(layer_cost(Llama3_8B, compiled).saved == Bytes(16384.0 * 55'424));
  CHECK(layer_cost(Llama3_8B, eager).saved == Bytes(16384.0 * (55'424 + 8'192)));
}

TEST_CASE("the more is recomputed the less is kept and the more is done again") {
  for (const Fusion fusion : {Fusion::Eager, Fusion::Compiled}) {
    const auto cost = [&](Recompute recompute) { return layer_cost(Llama3_8B, shape_of(recompute, fusion)); };
    const ModuleCost none = cost(Recompute::None), selective = cost(Recompute::SelectiveOp),
                     full = cost(Recompute::Full);
    CHECK(none.saved > selective.saved);
    CHECK(selective.saved > full.saved);
    CHECK(flop(none.recompute) < flop(selective.recompute));
    CHECK(flop(selective.recompute) < flop(full.recompute));
    CHECK(none.transient < selective.transient);
    CHECK(selective.transient < full.transient);
    CHECK(none.forward == full.forward);
    CHECK(none.backward_input == full.backward_input);
    CHECK(none.backward_weight == full.backward_weight);
  }
}

TEST_CASE("fused kernels do the same arithmetic with fewer kernels and bytes") {
  const ModuleCost eager = layer_cost(Llama3_8B, shape_of(Recompute::SelectiveOp, Fusion::Eager));
  const ModuleCost compiled = layer_cost(Llama3_8B, shape_of(Recompute::SelectiveOp, Fusion::Compiled));
  for (const auto part : {&ModuleCost::forward, &ModuleCost::recompute, &ModuleCost::backward_input}) {
    const std::vector<Kernel> one_by_one = kernels_of(eager.*part), fused = kernels_of(compiled.*part);
    CHECK(flop(one_by_one) == flop(fused));
    CHECK(one_by_one.size() > fused.size());
    CHECK(bytes(one_by_one) > bytes(fused));
  }
}

TEST_CASE("the eager norm moves 36 bytes an element in bf16") {
  // Cast 2+4, square 4+4, mean 4, scale 4+4, cast 4+2, weight 2+2. The first kernels of a layer, over 24 · 16
  // elements.
  const ModuleCost layer = layer_cost(Tiny, shape_of(Recompute::None, Fusion::Eager));
  const std::vector<Kernel> forward = kernels_of(layer.forward);
  CHECK(bytes({forward.begin(), forward.begin() + 6}) == 36 * 24 * 16);
  CHECK(forward[6].kind == KernelClass::Gemm);
}

TEST_CASE("the loss holds the logits in fp32") {
  // 24 tokens · 100 logits: kept in bf16 and as log-softmax in fp32; two more in fp32 in backward. The norm
  // keeps its input in fp32 and two outputs in bf16: 8 bytes an element.
  const ModuleCost head = head_cost(Tiny, shape_of(Recompute::None, Fusion::Compiled));
  CHECK(head.saved == Bytes(24 * 100 * 6 + 24 * 16 * 8));
  CHECK(head.transient == Bytes(24 * 100 * 8));
  CHECK(flop(head.forward) == 2 * 24 * 16 * 100);
  CHECK(flop(backward_kernels(head)) == 4 * 24 * 16 * 100);
}

TEST_CASE("weight gradients are products whose inner size is the tokens") {
  const ModuleCost layer = layer_cost(Tiny, shape_of(Recompute::None, Fusion::Eager));
  const auto over_tokens = [](const Kernel& kernel) {
    return kernel.kind == KernelClass::Gemm && kernel.k == 24;
  };
  const std::vector<Kernel> input = kernels_of(layer.backward_input), &weight = layer.backward_weight;
  CHECK(std::count_if(weight.begin(), weight.end(), over_tokens) == 7);
  CHECK(count(weight, KernelClass::Gemm) == 7);
  CHECK(std::count_if(input.begin(), input.end(), over_tokens) == 0);
  CHECK(count(input, KernelClass::Gemm) == 7);
}

TEST_CASE("equal heads need no repeated keys and values") {
  ModelSpec equal = Tiny;
  equal.kv_heads = equal.heads;
  const TrainingShape shape = shape_of(Recompute::None, Fusion::Eager);
  CHECK(kernels_of(layer_cost(Tiny, shape).forward).size() ==
        kernels_of(layer_cost(equal, shape).forward).size() + 2);
}

}  // namespace
}  // namespace syncline
