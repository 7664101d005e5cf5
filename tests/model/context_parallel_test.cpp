// What ranks that share a sequence compute, hold and exchange.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/model/model.hpp"
#include "tests/model/kernels.hpp"

namespace syncline {
namespace {

using Names = std::vector<std::string>;
using test::exchanges;
using test::flop;

/// 8 heads of 16 sharing 4 key heads, h = 128.
const ModelSpec Small{.name = "small",
                      .source = {},
                      .layers = 2,
                      .hidden = 128,
                      .heads = 8,
                      .kv_heads = 4,
                      .ffn = 256,
                      .vocabulary = 512};

TrainingShape shape_of(int c, ContextExchange exchange) {
  return {.sequence = 64, .microbatch = 3, .context_parallel = c, .context_exchange = exchange};
}

struct Row {
  const char* name;
  ContextExchange exchange;
};
const std::vector<Row> Exchanges = {{"ring", ContextExchange::Ring},
                                    {"all-gather", ContextExchange::AllGather},
                                    {"all-to-all", ContextExchange::AllToAll}};

TEST_CASE("the ranks of a sequence have a c-th of all FLOP each, embedding and head included") {
  for (const Row& row : Exchanges) {
    SUBCASE(row.name) {
      for (const int c : {2, 4}) {
        CAPTURE(c);
        const TrainingShape one = shape_of(1, row.exchange), shared = shape_of(c, row.exchange);
        using Module = ModuleCost (*)(const ModelSpec&, const TrainingShape&);
        const Module layer = [](const ModelSpec& model, const TrainingShape& shape) {
          return layer_cost(model, shape);
        };
        for (const Module module : {layer, Module(&head_cost)}) {
          const ModuleCost all = module(Small, one), part = module(Small, shared);
          CHECK(c * flop(part.forward) == doctest::Approx(flop(all.forward)).epsilon(1e-12));
          CHECK(c * flop(part.backward_input) == doctest::Approx(flop(all.backward_input)).epsilon(1e-12));
          CHECK(c * flop(part.backward_weight) == flop(all.backward_weight));
          CHECK(part.parameters == all.parameters);
        }
        CHECK(c * test::hbm(kernels_of(embedding_cost(Small, shared).forward)) ==
              test::hbm(kernels_of(embedding_cost(Small, one).forward)));
      }
    }
  }
}

TEST_CASE("a ring passes keys and values on beside each block but the last, backward their gradients too") {
  // Of 16 tokens of 3 sequences: keys and values 2 · 4 · 16 wide in 2 bytes: 48 · 128 · 2 = 12,288.
  const ModuleCost layer = layer_cost(Small, shape_of(4, ContextExchange::Ring));
  CHECK(exchanges(layer.forward) == Names(3, "(shift-key-value)"));
  CHECK(exchanges(layer.backward_input) == Names(4, "(shift-key-value)"));
  for (const LayerCollective& shift : test::collectives(layer.forward)) {
    CHECK(shift.group == LayerGroup::Context);
    CHECK(shift.kind == CollectiveKind::Shift);
    CHECK(shift.bytes == Bytes(12'288));
  }
  std::vector<Bytes> backward;
  for (const LayerCollective& shift : test::collectives(layer.backward_input))
    backward.push_back(shift.bytes);
  CHECK(backward == std::vector{Bytes(12'288), Bytes(24'576), Bytes(24'576), Bytes(12'288)});
  // Four blocks of equal FLOP each way, each beside the shift before it.
  for (const auto& segments : {layer.forward, layer.backward_input}) {
    const auto blocks = test::of_kind(kernels_of(segments), KernelClass::Attention);
    REQUIRE(blocks.size() == 4);
    for (const Kernel& block : blocks) CHECK(block.flop == blocks.front().flop);
    for (const Segment& segment : segments)
      CHECK(test::of_kind(segment.kernels, KernelClass::Attention).size() <= 1);
  }
  // What makes q, k and v waits for the last of the gradients.
  CHECK(test::of_kind(layer.backward_input.back().kernels, KernelClass::Attention).empty());
  // Its own block first: 16 × 16 / 2 pairs, (q kᵀ, p v) · 2 FLOP · 128 wide, of 3 sequences: 196,608.
  CHECK(test::of_kind(kernels_of(layer.forward), KernelClass::Attention).front().flop == Flop(196'608));
}

TEST_CASE("two ranks of a ring exchange once forward, and in backward keys first, then gradients") {
  const ModuleCost layer = layer_cost(Small, shape_of(2, ContextExchange::Ring));
  CHECK(exchanges(layer.forward) == Names{"(shift-key-value)"});
  CHECK(exchanges(layer.backward_input) == Names(2, "(shift-key-value)"));
}

TEST_CASE("all-gather moves all keys and values once forward, twice backward") {
  // The whole: 64 · 3 tokens · 128 wide · 2 B = 49,152.
  const ModuleCost layer = layer_cost(Small, shape_of(4, ContextExchange::AllGather));
  CHECK(exchanges(layer.forward) == Names{"all-gather-key-value"});
  CHECK(exchanges(layer.backward_input) ==
        Names{"all-gather-key-value", "reduce-scatter-key-value-gradient"});
  CHECK(test::exchanged(layer.forward, LayerGroup::Context) == 49'152);
  CHECK(test::exchanged(layer.backward_input, LayerGroup::Context) == 2 * 49'152);
}

TEST_CASE("all-to-all turns q, k and v to heads and the output back, backward the reverse") {
  // Of a rank's 48 tokens: q 128 and k and v 64 each, 2 B: 24,576; the output 12,288.
  const ModuleCost layer = layer_cost(Small, shape_of(4, ContextExchange::AllToAll));
  CHECK(exchanges(layer.forward) == Names{"all-to-all-query-key-value", "all-to-all-attention"});
  CHECK(exchanges(layer.backward_input) == Names{"all-to-all-attention", "all-to-all-query-key-value"});
  for (const auto& segments : {layer.forward, layer.backward_input})
    CHECK(test::exchanged(segments, LayerGroup::Context) == 24'576 + 12'288);
  const auto core = test::of_kind(kernels_of(layer.forward), KernelClass::Attention);
  REQUIRE(core.size() == 1);
  CHECK(core.front().batch == 3 * 8 / 4);
  CHECK(core.front().m == 64);
}

TEST_CASE("activations are a c-th; all-to-all keeps attention's output before and after the exchange") {
  const Bytes all = layer_cost(Small, shape_of(1, ContextExchange::Ring)).saved;
  // Without a copy of keys and values to all heads: 2 · 64 tokens · 3 · 64 wide · 2 B less than with one.
  const Bytes copies(64.0 * 3 * 128 * 2);
  for (const Row& row : Exchanges) {
    CAPTURE(row.name);
    const Bytes part = layer_cost(Small, shape_of(4, row.exchange)).saved;
    const Bytes again(row.exchange == ContextExchange::AllToAll ? 48.0 * 128 * 2 : 0.0);
    CHECK(part == (all - copies) / 4 + again);
  }
}

TEST_CASE("with tensor and sequence parallelism each rank passes on the keys of its heads") {
  TrainingShape shape = shape_of(2, ContextExchange::Ring);
  shape.tensor_parallel = 4;
  shape.sequence_parallel = true;
  const ModuleCost layer = layer_cost(Small, shape);
  CHECK(exchanges(layer.forward) == Names{"all-gather-attention", "(shift-key-value)",
                                          "reduce-scatter-attention", "all-gather-mlp",
                                          "reduce-scatter-mlp"});
  // 96 tokens; one key head of 16 and one value head: 96 · 32 · 2 B. The stream: 96 · 128 · 2 B, four times.
  CHECK(test::exchanged(layer.forward, LayerGroup::Context) == 96 * 32 * 2);
  CHECK(test::exchanged(layer.forward, LayerGroup::Tensor) == 4 * 96 * 128 * 2);
}

TEST_CASE("recomputing the core of attention exchanges again") {
  TrainingShape shape = shape_of(4, ContextExchange::AllGather);
  shape.recompute = Recompute::Selective;
  CHECK(exchanges(layer_cost(Small, shape).recompute) == Names{"all-gather-key-value"});
}

}  // namespace
}  // namespace syncline
