// What tensor and sequence parallelism change: widths, collectives, and nothing else.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/model/model.hpp"
#include "tests/model/gpt.hpp"
#include "tests/model/kernels.hpp"

namespace syncline {
namespace {

using test::gpt;
using test::megatron_shape;

using Names = std::vector<std::string>;
using test::exchanges;
using test::flop;

const ModelSpec Llama{.name = "llama3-8b",
                      .source = {},
                      .layers = 32,
                      .hidden = 4096,
                      .heads = 32,
                      .kv_heads = 8,
                      .ffn = 14336,
                      .vocabulary = 128256};

TEST_CASE("without tensor parallelism there is one segment and no collective") {
  for (const ModelSpec& model : {Llama, gpt(2, 256, 8)}) {
    for (const bool sequence_parallel : {false, true}) {
      TrainingShape shape = megatron_shape(2, 1);
      shape.sequence_parallel = sequence_parallel;  // of one rank: means nothing
      shape.recompute = Recompute::Full;
      for (const ModuleCost& cost :
           {embedding_cost(model, shape), layer_cost(model, shape), head_cost(model, shape)}) {
        CHECK(cost.forward.size() == 1);
        for (const auto part : {&ModuleCost::forward, &ModuleCost::recompute, &ModuleCost::backward_input}) {
          CHECK((cost.*part).size() <= 1);
          CHECK(exchanges(cost.*part).empty());
        }
      }
    }
  }
}

TEST_CASE("a layer all-reduces twice forward and twice backward") {
  // Shoeybi et al., arXiv 1909.08053, figure 4. S = 2 B · 2048 · 4 · 6144.
  const ModuleCost layer = layer_cost(gpt(48, 6144, 64), megatron_shape(4, 8));
  CHECK(exchanges(layer.forward) == Names{"all-reduce-attention", "all-reduce-mlp"});
  CHECK(exchanges(layer.backward_input) == Names{"all-reduce-mlp", "all-reduce-attention"});
  CHECK(layer.forward.size() == 3);
  CHECK(layer.forward[0].then->bytes == Bytes(2.0 * 2048 * 4 * 6144));
  CHECK(layer.forward[0].then->kind == CollectiveKind::AllReduce);
  // After the last there is bias, dropout and sum; backward ends with the first norm.
  CHECK(layer.forward[2].kernels.size() == 1);
  CHECK(layer.backward_input[2].kernels.size() == 3);
}

TEST_CASE(
    "sequence parallel layers gather and scatter instead, and gather the inputs again beside the gradients") {
  // Korthikanti et al., arXiv 2205.05198, figure 5 and section 4.2.2.
  TrainingShape shape = megatron_shape(4, 8);
  shape.sequence_parallel = true;
  const ModuleCost layer = layer_cost(gpt(48, 6144, 64), shape);
  CHECK(exchanges(layer.forward) ==
        Names{"all-gather-attention", "reduce-scatter-attention", "all-gather-mlp", "reduce-scatter-mlp"});
  CHECK(exchanges(layer.backward_input) == Names{"all-gather-mlp", "(all-gather-mlp-input)",
                                                 "reduce-scatter-mlp", "all-gather-attention",
                                                 "(all-gather-attention-input)", "reduce-scatter-attention"});
  for (const Segment& segment : layer.forward)
    if (segment.then)
      CHECK(segment.then->bytes == Bytes(2.0 * 2048 * 4 * 6144));  // the whole, also when gathered
  // Beside the gathering of its input runs the gradient of the first product of the MLP, alone.
  REQUIRE(layer.backward_input[2].kernels.size() == 1);
  CHECK(layer.backward_input[2].kernels[0].k == 4 * 6144 / 8);
}

TEST_CASE("recomputation repeats the collectives of what it repeats") {
  TrainingShape shape = megatron_shape(4, 8);
  shape.recompute = Recompute::Selective;
  CHECK(exchanges(layer_cost(gpt(48, 6144, 64), shape).recompute).empty());
  shape.recompute = Recompute::Full;
  CHECK(exchanges(layer_cost(gpt(48, 6144, 64), shape).recompute) ==
        Names{"all-reduce-attention", "all-reduce-mlp"});
  // k, attention output and up are made again: gathered inputs, and the sum of the attention output.
  shape.recompute = Recompute::SelectiveOp;
  shape.sequence_parallel = true;
  CHECK(exchanges(layer_cost(Llama, shape).recompute) ==
        Names{"all-gather-attention", "reduce-scatter-attention", "all-gather-mlp"});
}

TEST_CASE("embedding and loss are cut by vocabulary") {
  TrainingShape shape = megatron_shape(4, 8);
  const ModelSpec model = gpt(48, 6144, 64);
  const ModuleCost embedding = embedding_cost(model, shape), head = head_cost(model, shape);
  CHECK(embedding.parameters == (51200 / 8 + 2048) * 6144);
  CHECK(exchanges(embedding.forward) == Names{"all-reduce-embedding"});
  CHECK(exchanges(embedding.backward_input).empty());
  CHECK(exchanges(head.forward) ==
        Names{"all-reduce-loss-maximum", "all-reduce-loss-chosen", "all-reduce-loss-sum"});
  CHECK(head.forward[0].then->bytes == Bytes(4.0 * 2048 * 4));
  CHECK(exchanges(head.backward_input) == Names{"all-reduce-head"});

  shape.sequence_parallel = true;
  CHECK(exchanges(embedding_cost(model, shape).forward) == Names{"reduce-scatter-embedding"});
  CHECK(exchanges(embedding_cost(model, shape).backward_input) == Names{"all-gather-embedding"});
  CHECK(exchanges(head_cost(model, shape).forward).front() == "all-gather-head");
  CHECK(exchanges(head_cost(model, shape).backward_input) ==
        Names{"(all-gather-head-input)", "reduce-scatter-head"});
}

TEST_CASE("the ranks' products sum up to the whole model's, and their parameters but for what each holds") {
  for (const ModelSpec& model : {Llama, gpt(2, 256, 8)}) {
    for (const bool sequence_parallel : {false, true}) {
      TrainingShape whole = megatron_shape(2, 1), part = megatron_shape(2, 8);
      part.sequence_parallel = sequence_parallel;
      whole.recompute = part.recompute = Recompute::Full;
      const ModuleCost all = layer_cost(model, whole), one = layer_cost(model, part);
      CHECK(8 * flop(kernels_of(one.forward)) == flop(kernels_of(all.forward)));
      CHECK(8 * flop(kernels_of(one.recompute)) == flop(kernels_of(all.recompute)));
      CHECK(8 * flop(kernels_of(one.backward_input)) == flop(kernels_of(all.backward_input)));
      CHECK(8 * flop(one.backward_weight) == flop(all.backward_weight));
      // Norms, and biases of what is summed up, stand on every rank: 4h and 2h of a GPT layer, 2h of a Llama
      // layer.
      const double everywhere = (model.bias ? 6.0 : 2.0) * model.hidden;
      CHECK(8 * (one.parameters - everywhere) == all.parameters - everywhere);
    }
  }
}

TEST_CASE("sequence parallelism cuts the bytes of norms and sums, and no product") {
  TrainingShape shape = megatron_shape(2, 8);
  const ModelSpec model = gpt(2, 256, 8);
  const std::vector<Kernel> before = kernels_of(layer_cost(model, shape).forward);
  shape.sequence_parallel = true;
  const std::vector<Kernel> after = kernels_of(layer_cost(model, shape).forward);
  REQUIRE(before.size() == after.size());
  CHECK(8 * after.front().hbm == before.front().hbm);  // the norm
  CHECK(8 * after.back().hbm == before.back().hbm);    // bias, dropout and sum
  CHECK(after[1] == before[1]);                        // q, k, v
}

TEST_CASE("chunks put each part of a product beside the collective of the next, and lose no FLOP or byte") {
  TrainingShape whole = megatron_shape(4, 8);
  whole.sequence_parallel = true;
  TrainingShape cut = whole;
  cut.tensor_chunks = 4;
  const ModelSpec model = gpt(48, 6144, 64);
  const ModuleCost one = layer_cost(model, whole), many = layer_cost(model, cut);
  for (const auto part : {&ModuleCost::forward, &ModuleCost::backward_input}) {
    CHECK(flop(many.*part) == flop(one.*part));
    CHECK(test::exchanged(many.*part, LayerGroup::Tensor) == test::exchanged(one.*part, LayerGroup::Tensor));
    CHECK(test::collectives(many.*part).size() >= 3 * test::collectives(one.*part).size());
  }
  CHECK(many.backward_weight == one.backward_weight);
  CHECK(many.saved == one.saved);

  // The first: norm, gather of a quarter; the second quarter is not awaited by the product of the first.
  const std::vector<Segment>& forward = many.forward;
  Names gathers = exchanges(forward);
  gathers.resize(8);
  CHECK(gathers == Names{"all-gather-attention", "(all-gather-attention)", "(all-gather-attention)",
                         "(all-gather-attention)", "(reduce-scatter-attention)", "(reduce-scatter-attention)",
                         "(reduce-scatter-attention)", "reduce-scatter-attention"});
  CHECK(forward[0].kernels.size() == 1);
  CHECK(forward[1].kernels.empty());
  CHECK(forward[2].kernels.size() == 1);
  CHECK(forward[2].kernels[0].m == 2048 * 4 / 4);
  CHECK(forward[0].then->bytes == Bytes(2.0 * 2048 * 4 * 6144 / 4));
  // A quarter of the activations is moved each time, and all of the weights: 3 h²/8 in 2 bytes, three times
  // more.
  const double weights = 2.0 * 3 * 6144 * 6144 / 8;
  CHECK(4 * forward[2].kernels[0].hbm.si() ==
        doctest::Approx(one.forward[1].kernels[0].hbm.si() + 3 * weights).epsilon(1e-12));
}

TEST_CASE("chunks change nothing where there is no sequence parallelism") {
  TrainingShape whole = megatron_shape(4, 8);
  TrainingShape cut = whole;
  cut.tensor_chunks = 4;
  const ModelSpec model = gpt(48, 6144, 64);
  CHECK(layer_cost(model, cut).forward == layer_cost(model, whole).forward);
  CHECK(layer_cost(model, cut).backward_input == layer_cost(model, whole).backward_input);
}

}  // namespace
}  // namespace syncline
