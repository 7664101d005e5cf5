// Expert layers: what a rank computes, holds and exchanges.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/model/model.hpp"
#include "tests/model/kernels.hpp"

namespace syncline {
namespace {

using test::exchanges;
using test::flop;
using Names = std::vector<std::string>;

constexpr double Hidden = 64, Ffn = 128, Count = 8, TopK = 2, Tokens = 3 * 16;

/// Experts as wide together, those of a token, as the dense MLP.
ModelSpec model() {
  ModelSpec model{.name = "experts",
                  .source = "",
                  .layers = 4,
                  .hidden = 64,
                  .heads = 4,
                  .kv_heads = 2,
                  .ffn = 128,
                  .vocabulary = 96};
  model.experts = ExpertSpec{.count = 8, .top_k = 2, .ffn = 64};
  return model;
}

TrainingShape shape(int parallel = 1, int tensor = 1) {
  TrainingShape shape{.sequence = 16, .microbatch = 3};
  shape.implementation = Implementation::Megatron;
  shape.experts.parallel = parallel;
  shape.experts.tensor = tensor;
  return shape;
}

ModuleCost layer(const ModelSpec& model, const TrainingShape& shape) {
  return layer_cost(model, shape, LayerKind::Experts);
}

double products(const std::vector<Kernel>& kernels) {
  return flop(test::of_kind(kernels, KernelClass::Gemm));
}

TEST_CASE("which layers have experts") {
  struct Row {
    const char* name;
    int layers, dense_layers, every;
    std::vector<int> experts;
  };
  for (const Row& row :
       {Row{"all", 4, 0, 1, {0, 1, 2, 3}}, Row{"all but the first three", 5, 3, 1, {3, 4}},
        Row{"every second", 6, 0, 2, {1, 3, 5}}, Row{"every second but the first", 6, 2, 2, {3, 5}}}) {
    CAPTURE(row.name);
    ModelSpec spec = model();
    spec.layers = row.layers;
    spec.experts->dense_layers = row.dense_layers;
    spec.experts->every = row.every;
    std::vector<int> found;
    for (int i = 0; i < row.layers; ++i)
      if (layer_kind(spec, i) == LayerKind::Experts) found.push_back(i);
    CHECK(found == row.experts);
    CHECK(layers_of(spec, LayerKind::Experts) == static_cast<int>(row.experts.size()));
    CHECK(layers_of(spec, LayerKind::Dense) == row.layers - static_cast<int>(row.experts.size()));
  }
}

TEST_CASE("a router that is not fused has a kernel for each of Megatron-LM's operations") {
  struct Row {
    const char* name;
    bool groups, capacity;
    std::size_t forward, backward;
  };
  // Forward: scores 2, a choice 2 (selection and sort), places 3, a map 4; of the loss that balances scores 1, a choice 2,
  // a map 4, sums 8: 26. Groups: a choice and 8 more; capacity: a choice and 4 more. Backward: 5 of that loss, 4 + 4 of the
  // choice, 1 each of groups and capacity.
  for (const Row& row : {Row{"plain", false, false, 26, 13}, Row{"groups", true, false, 36, 14},
                         Row{"capacity", false, true, 32, 14}, Row{"both", true, true, 42, 15}}) {
    CAPTURE(row.name);
    ModelSpec spec = model();
    TrainingShape how = shape();
    if (row.groups) spec.experts->groups = 4;
    if (row.capacity) how.experts.capacity = 1.0;
    const ModuleCost fused = layer(spec, how);
    how.experts.fused_router = false;
    const ModuleCost apart = layer(spec, how);
    // Fused: two each way.
    CHECK(kernels_of(apart.forward).size() - kernels_of(fused.forward).size() == row.forward - 2);
    CHECK(kernels_of(apart.backward_input).size() - kernels_of(fused.backward_input).size() ==
          row.backward - 2);
    CHECK(flop(apart.forward) == flop(fused.forward));
  }
}

TEST_CASE("without expert parallelism a layer is the dense one of as much width, and a router") {
  const ModuleCost dense = layer_cost(model(), shape()), experts = layer(model(), shape());
  // Forward: 2 · tokens · hidden · 8 scores. Backward as much for each of both gradients.
  const double router = 2 * Tokens * Hidden * Count;
  CHECK(products(kernels_of(experts.forward)) == products(kernels_of(dense.forward)) + router);
  CHECK(products(kernels_of(experts.backward_input)) == products(kernels_of(dense.backward_input)) + router);
  CHECK(products(experts.expert_weight) + products(experts.backward_weight) ==
        products(dense.backward_weight) + router);
  CHECK(exchanges(experts.forward).empty());
  CHECK(exchanges(experts.backward_input).empty());
}

TEST_CASE("parameters: experts apart from all else") {
  const double attention = Hidden * (2 * 64 + 2 * 32), norms = 2 * Hidden, router = Hidden * Count;
  const double expert = 3 * Hidden * 64;
  for (const auto& [parallel, tensor] : {std::pair(1, 1), {4, 1}, {8, 1}, {2, 4}}) {
    CAPTURE(parallel);
    CAPTURE(tensor);
    const ModuleCost cost = layer(model(), shape(parallel, tensor));
    CHECK(cost.parameters == attention + norms + router);
    CHECK(cost.expert_parameters == Count * expert / parallel / tensor);
  }
  ModelSpec shared = model();
  shared.experts->shared_ffn = 32;
  CHECK(layer(shared, shape()).parameters == attention + norms + router + 3 * Hidden * 32);
}

TEST_CASE("published parameter counts") {
  // DeepSeek-V3: 671 billion, 37 of them for a token (arXiv 2412.19437, abstract); without the extra prediction.
  ModelSpec v3{.name = "",
               .source = "",
               .layers = 61,
               .hidden = 7168,
               .heads = 128,
               .kv_heads = 128,
               .ffn = 18432,
               .vocabulary = 129280};
  v3.latent = LatentAttention{1536, 512, 128, 64, 128};
  v3.experts = ExpertSpec{.count = 256, .top_k = 8, .ffn = 2048, .shared_ffn = 2048, .dense_layers = 3};
  CHECK(parameter_count(v3) == doctest::Approx(671e9).epsilon(0.001));
  // 6 FLOP a token and parameter; attention, of a short sequence, hardly any.
  CHECK(model_flop(v3, 2, 1).si() / 6 == doctest::Approx(37e9).epsilon(0.02));
  // Mixtral 8x7B: 47 billion, 13 for a token (arXiv 2401.04088, section 1).
  ModelSpec mixtral{.name = "",
                    .source = "",
                    .layers = 32,
                    .hidden = 4096,
                    .heads = 32,
                    .kv_heads = 8,
                    .ffn = 14336,
                    .vocabulary = 32000};
  mixtral.experts = ExpertSpec{.count = 8, .top_k = 2, .ffn = 14336};
  CHECK(parameter_count(mixtral) == doctest::Approx(47e9).epsilon(0.01));
  CHECK(model_flop(mixtral, 2, 1).si() / 6 == doctest::Approx(13e9).epsilon(0.02));
}

TEST_CASE("ranks that share experts exchange tokens both ways, in both directions") {
  const Names forward{"dispatch", "combine"}, backward{"combine-gradient", "dispatch-gradient"};
  for (const int parallel : {2, 8}) {
    const ModuleCost cost = layer(model(), shape(parallel));
    CHECK(exchanges(cost.forward) == forward);
    CHECK(exchanges(cost.backward_input) == backward);
    for (const LayerCollective& one : test::collectives(cost.forward)) {
      CHECK(one.kind == CollectiveKind::AllToAll);
      CHECK(one.group == LayerGroup::Expert);
      CHECK(one.bytes == Bytes(Tokens * TopK * Hidden * 2));  // bf16
    }
  }
}

TEST_CASE("dispatch in fp8 carries a scale for 128 numbers; what comes back does not") {
  TrainingShape narrow = shape(4);
  narrow.experts.dispatched = Precision::Fp8;
  const std::vector<LayerCollective> forward = test::collectives(layer(model(), narrow).forward);
  CHECK(forward[0].bytes == Bytes(Tokens * TopK * Hidden * (1 + 4.0 / 128)));
  CHECK(forward[1].bytes == Bytes(Tokens * TopK * Hidden * 2));
  const std::vector<LayerCollective> backward = test::collectives(layer(model(), narrow).backward_input);
  CHECK(backward[0].way == TokenWay::ToExperts);
  CHECK(backward[0].bytes == forward[0].bytes);
  CHECK(backward[1].way == TokenWay::Back);
  CHECK(backward[1].bytes == forward[1].bytes);
}

TEST_CASE("all-gather in place of all-to-all: all tokens to all ranks, partial sums back") {
  TrainingShape gathering = shape(4);
  gathering.experts.dispatch = Dispatch::AllGather;
  const std::vector<LayerCollective> forward = test::collectives(layer(model(), gathering).forward);
  REQUIRE(forward.size() == 2);
  CHECK(forward[0].kind == CollectiveKind::AllGather);
  CHECK(forward[1].kind == CollectiveKind::ReduceScatter);
  for (const LayerCollective& one : forward) CHECK(one.bytes == Bytes(4 * Tokens * Hidden * 2));
}

TEST_CASE("expert tensor parallelism: as many FLOP on each rank, tokens gathered and scattered") {
  const ModuleCost one = layer(model(), shape(2, 1)), four = layer(model(), shape(2, 4));
  CHECK(flop(four.forward) == doctest::Approx(flop(one.forward)));
  CHECK(exchanges(four.forward) ==
        Names{"dispatch", "all-gather-experts", "reduce-scatter-experts", "combine"});
  CHECK(exchanges(four.backward_input) ==
        Names{"combine-gradient", "all-gather-experts", "reduce-scatter-experts", "dispatch-gradient"});
}

TEST_CASE("shared experts run beside dispatch and its gradient") {
  ModelSpec spec = model();
  spec.experts->shared_ffn = 32;
  TrainingShape beside = shape(4);
  beside.experts.overlap = ExpertOverlap::SharedExperts;
  for (const bool forward : {true, false}) {
    const ModuleCost cost = layer(spec, beside), apart = layer(spec, shape(4));
    const std::vector<Segment>& segments = forward ? cost.forward : cost.backward_input;
    CHECK(exchanges(segments) ==
          (forward ? Names{"(dispatch)", "combine"} : Names{"combine-gradient", "(dispatch-gradient)"}));
    CHECK(flop(segments) == flop(forward ? apart.forward : apart.backward_input));
    // Behind the exchange come the shared experts, and then what waits for it.
    const auto exchange = std::ranges::find_if(
        segments, [](const Segment& segment) { return segment.then && !segment.then->awaited; });
    REQUIRE(segments.end() - exchange >= 3);
    const std::vector<Kernel> shared = test::of_kind((exchange + 1)->kernels, KernelClass::Gemm);
    // Gate and up are one product, down another: 2 · tokens · hidden · 32 · 3.
    CHECK(flop(shared) == 2 * Tokens * Hidden * 32 * 3);
    CHECK_FALSE((exchange + 1)->then);
  }
}

TEST_CASE("what depends on the tokens that came stands by itself") {
  const ModuleCost cost = layer(model(), shape(4));
  double by_load = 0;
  for (const Segment& segment : cost.forward)
    if (segment.by_load) by_load += products(segment.kernels);
  CHECK(by_load == 2 * Tokens * TopK * Hidden * 64 * 3);
  // Twice the tokens are twice the FLOP, of all directions: 3 times forward.
  const double routed = routed_tokens(model(), shape(4));
  CHECK(routed == Tokens * TopK);
  CHECK(products(expert_kernels(model(), shape(4), routed)) == 3 * by_load);
  CHECK(products(expert_kernels(model(), shape(4), 2 * routed)) == 6 * by_load);
}

TEST_CASE("Megatron's experts with biases go through kernel after kernel, but in a graph of the step") {
  const auto bytes = [](const std::vector<Segment>& segments) {
    double sum = 0;
    for (const Kernel& kernel : test::of_kind(kernels_of(segments), KernelClass::Elementwise))
      sum += kernel.hbm.si();
    return sum;
  };
  ModelSpec biased = model();
  biased.bias = true;
  TrainingShape one_by_one = shape(), captured = shape();
  captured.graphs = Graphs::Step;
  const double elements = Tokens * TopK * 64;  // experts are as wide as the stream
  // Forward: clamps 4 + 4 + 8 bytes an element, gelu(g) · (u + 1) 4 + 4 + 6 + 4 + 6, weight 6 + 6; bias 4 + 10 + 8 + 6; in place of
  // one kernel that reads both halves and writes their product, 6.
  CHECK(bytes(layer(biased, one_by_one).forward) - bytes(layer(biased, captured).forward) ==
        doctest::Approx((52 + 28 - 6) * elements));
  CHECK(bytes(layer(biased, one_by_one).backward_input) > bytes(layer(biased, captured).backward_input));
  one_by_one.implementation = captured.implementation = Implementation::Torchtitan;
  CHECK(bytes(layer(biased, one_by_one).forward) == bytes(layer(biased, captured).forward));

  // Products of MXFP8 in such a graph activate what they write, and the next reads it without a cast, which reads 2 bytes
  // and writes twice 1 + 1/32; forward, and the gradient of gate and the other half.
  TrainingShape narrow = shape(), fused = captured;
  fused.implementation = Implementation::Megatron;
  narrow.linear = fused.linear = Precision::Fp8;
  narrow.scaling = fused.scaling = Scaling::Block;
  const double cast = 2 + 2 * (1 + 1 / 32.0);
  CHECK(bytes(layer(model(), narrow).forward) - bytes(layer(model(), fused).forward) ==
        doctest::Approx((6 + cast) * elements));
  const auto products = [](const ModuleCost& cost) {
    return test::of_kind(kernels_of(cost.forward), KernelClass::Gemm);
  };
  CHECK(std::ranges::count(products(layer(model(), narrow)), true, &Kernel::grouped) == 2);
  CHECK(std::ranges::count(products(layer(model(), fused)), true, &Kernel::grouped) == 0);
  // Of the largest of all first, nothing can be written narrow.
  narrow.scaling = fused.scaling = Scaling::Current;
  CHECK(bytes(layer(model(), narrow).forward) == doctest::Approx(bytes(layer(model(), fused).forward)));
}

TEST_CASE("Megatron's experts sum the gradient of the tokens' weights up in a pass of its own") {
  TrainingShape megatron = shape(), other = shape();
  other.implementation = Implementation::Torchtitan;
  ModelSpec narrow = model();
  narrow.experts->ffn = 40;
  const double bytes = 3 * 2 * Tokens * TopK * 40;  // gate, the other half and the gradient, in bf16
  const auto passes = [&](const TrainingShape& shape) {
    return std::ranges::count_if(kernels_of(layer(narrow, shape).backward_input),
                                 [bytes](const Kernel& kernel) { return kernel.hbm == Bytes(bytes); });
  };
  CHECK(passes(megatron) == passes(other) + 1);
}

TEST_CASE("capacity: padded experts compute as many as they can take, others lose what is beyond") {
  TrainingShape limited = shape(4);
  limited.experts.capacity = 1.5;
  CHECK(routed_tokens(model(), limited) == Tokens * TopK);
  limited.experts.pad = true;
  CHECK(routed_tokens(model(), limited) == 1.5 * Tokens * TopK);
  CHECK(test::collectives(layer(model(), limited).forward)[0].bytes ==
        Bytes(1.5 * Tokens * TopK * Hidden * 2));
  limited.experts = {.parallel = 4, .capacity = 0.5};
  CHECK(routed_tokens(model(), limited) == 0.5 * Tokens * TopK);
}

TEST_CASE("sequence parallel ranks route a part of the tokens each") {
  TrainingShape whole = shape(4);
  whole.tensor_parallel = 2;
  whole.sequence_parallel = true;
  CHECK(tokens_to_route(model(), whole) == Tokens / 2);
  CHECK(test::collectives(layer(model(), whole).forward)[2].bytes == Bytes(Tokens / 2 * TopK * Hidden * 2));
}

TEST_CASE("recomputed parts free what they make, and run again with what they exchange") {
  ModelSpec spec = model();
  spec.experts->shared_ffn = 32;
  const ModuleCost none = layer(spec, shape(4));
  const auto freed = [&](const RecomputedModules& modules) {
    TrainingShape again = shape(4);
    again.recompute = Recompute::Modules;
    again.modules = modules;
    const ModuleCost cost = layer(spec, again);
    CHECK(exchanges(cost.forward) == exchanges(none.forward));
    CHECK(cost.saved + cost.transient >= none.saved);
    return std::pair((none.saved - cost.saved).si(), exchanges(cost.recompute));
  };
  const double routed = Tokens * TopK;
  // Expert activation: what the last product reads, 64 wide. Shared: gate and up, and the product of both.
  CHECK(freed({.expert_activation = true}) == std::pair(routed * 64 * 2, Names{}));
  CHECK(freed({.shared = true}) == std::pair(Tokens * 32 * 3 * 2, Names{}));
  // All: tokens in order, gate and up, their product; the router's weights and map; the shared experts.
  const double all = routed * (Hidden + 3 * 64) * 2 + Tokens * Count * 5 + Tokens * 32 * 3 * 2;
  CHECK(freed({.experts = true}) == std::pair(all, Names{"dispatch", "combine"}));
}

TEST_CASE("an extra prediction is a layer, a product, norms and another head") {
  ModelSpec spec = model();
  spec.extra_predictions = 1;
  const ModuleCost cost = prediction_cost(spec, shape()), one = layer(spec, shape()),
                   head = head_cost(spec, shape());
  CHECK(cost.parameters == one.parameters + 2 * Hidden * Hidden + 3 * Hidden);
  CHECK(cost.expert_parameters == one.expert_parameters);
  const double product = 2 * Tokens * 2 * Hidden * Hidden;
  CHECK(products(kernels_of(cost.forward)) ==
        products(kernels_of(one.forward)) + products(kernels_of(head.forward)) + product);
  CHECK(parameter_count(spec) - parameter_count(model()) == cost.parameters + cost.expert_parameters);
}

TEST_CASE("attention within a window: a band of the triangle, the mean of all layers") {
  ModelSpec spec = model();
  const double whole = flop(test::of_kind(kernels_of(layer(spec, shape()).forward), KernelClass::Attention));
  spec.window = 4;  // of 16: 4 · (32 − 4) / 16 = 7 in place of 16
  CHECK(flop(test::of_kind(kernels_of(layer(spec, shape()).forward), KernelClass::Attention)) ==
        whole * 7 / 16);
  spec.window_every = 2;  // half of the layers: (7 + 16) / 2
  CHECK(flop(test::of_kind(kernels_of(layer(spec, shape()).forward), KernelClass::Attention)) ==
        whole * 11.5 / 16);
  spec.window = 16;
  CHECK(flop(test::of_kind(kernels_of(layer(spec, shape()).forward), KernelClass::Attention)) == whole);
}

}  // namespace
}  // namespace syncline
