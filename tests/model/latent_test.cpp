// Multi-head latent attention, against DeepSeek's sizes.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/model/model.hpp"
#include "tests/model/kernels.hpp"

namespace syncline {
namespace {

using test::flop;

/// Layers without experts of DeepSeek-V3 (arXiv 2412.19437, section 4.2), DeepSeek-V2 and V2-Lite (arXiv
/// 2405.04434, section 3.1.2 and appendix B).
ModelSpec deepseek(int hidden, int heads, int query_rank, int ffn, int vocabulary) {
  return {.name = "deepseek",
          .source = {},
          .layers = 1,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .ffn = ffn,
          .vocabulary = vocabulary,
          .latent = LatentAttention{.query_rank = query_rank,
                                    .key_value_rank = 512,
                                    .plain_size = 128,
                                    .rotary_size = 64,
                                    .value_size = 128}};
}
const ModelSpec V3 = deepseek(7168, 128, 1536, 18432, 129280);

TrainingShape shape_of(int t) {
  return {.sequence = 4096,
          .implementation = Implementation::Megatron,
          .tensor_parallel = t,
          .sequence_parallel = t > 1};
}

TEST_CASE("parameters of a dense layer are those of the sizes") {
  struct Row {
    const char* name;
    ModelSpec model;
    double count;
  };
  const std::vector<Row> rows = {
      // 7168 · 1536 + 1536 · 128 · 192 + 7168 · 576 + 512 · 128 · 256 + 128 · 128 · 7168 = 187,105,280; MLP
      // 3 · 7168 · 18432 = 396,361,728; norms 1536 + 512 + 2 · 7168 = 16,384.
      {"V3", V3, 187'105'280.0 + 396'361'728 + 16'384},
      // 5120 · 1536 + 1536 · 128 · 192 + 5120 · 576 + 512 · 128 · 256 + 128 · 128 · 5120 = 149,225,472; MLP
      // 3 · 5120 · 12288 = 188,743,680; norms 1536 + 512 + 2 · 5120.
      {"V2", deepseek(5120, 128, 1536, 12288, 102400), 149'225'472.0 + 188'743'680 + 12'288},
      // Queries are not compressed: 2048 · 16 · 192 + 2048 · 576 + 512 · 16 · 256 + 16 · 128 · 2048 =
      // 13,762,560; MLP
      // 3 · 2048 · 10944 = 67,239,936; norms 512 + 2 · 2048.
      {"V2-Lite", deepseek(2048, 16, 0, 10944, 102400), 13'762'560.0 + 67'239'936 + 4'608}};
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      const ModuleCost layer = layer_cost(row.model, shape_of(1));
      CHECK(layer.parameters == row.count);
      // Every matrix once a token forward, and scores of 192 and values of 128 a head over half the square.
      const double norms = row.count - (row.model.hidden * 2.0 + 512 + row.model.latent->query_rank);
      const double core = 4096.0 * 4096 * row.model.heads * (192 + 128);
      CHECK(flop(layer.forward) == 2 * 4096 * norms + core);
      // Backward of the core: 3 products 192 wide and 2 of 128 instead of one each.
      CHECK(flop(backward_kernels(layer)) ==
            4 * 4096 * norms + 4096.0 * 4096 * row.model.heads * (3 * 192 + 2 * 128));
    }
  }
}

TEST_CASE("a layer keeps both compressed vectors and all heads' queries, keys and values") {
  // Elements a token of V3: input, two norms' outputs and the sum 4 · 7168; latents 2 (1536 + 512); q and k
  // 128 · 192, v and output 128 · 128; gate, up, product 3 · 18432. Row statistics: 4 B a head.
  const double elements = 4 * 7168 + 2 * 2048 + 2 * 128 * 192 + 2 * 128 * 128 + 3 * 18432;
  CHECK(layer_cost(V3, shape_of(1)).saved == Bytes(4096 * (2 * elements + 4 * 128)));
}

TEST_CASE("queries are rotated in place, keys and values read and written once, where kernels are fused") {
  // 16-bit numbers a token of V3. Fused: 64 of each query head, twice; keys of 128 and values of 128 read, keys of 192 and
  // values written. Else queries, keys and values of all heads are copied, after rotations that go by fp32: 6 + 8 + 6
  // bytes.
  const double fused = 2 * (2 * 128 * 64 + 128 * (128 + 128 + 192 + 128)),
               eager = 4 * 128 * (192 + 192 + 128) + 20 * (128 + 1) * 64;
  TrainingShape shape = shape_of(1);
  shape.recompute = Recompute::Modules;
  shape.modules.latent = true;
  const auto again = [&shape] {
    const std::vector<Kernel> all = kernels_of(layer_cost(V3, shape).recompute);
    return test::hbm(test::of_kind(all, KernelClass::Elementwise)) / 4096;
  };
  CHECK(again() == doctest::Approx(fused));
  shape.fusion = Fusion::Eager;
  CHECK(again() == doctest::Approx(eager));
}

TEST_CASE("norms made again are those of the compressed vectors, too") {
  TrainingShape shape = shape_of(1);
  const ModuleCost all = layer_cost(V3, shape);
  shape.recompute = Recompute::Modules;
  shape.modules.norms = true;
  CHECK(all.saved - layer_cost(V3, shape).saved == Bytes(4096.0 * 2 * (2 * 7168 + 1536 + 512)));
}

TEST_CASE("a layer of DeepSeek-V3 keeps 651 MB of a sequence, and 1.23 GB from I to W") {
  // As it was trained (arXiv 2412.19437, sections 3.2.3 and 3.3.3): products in fp8 with a scale of 4 bytes for 128
  // numbers; attention's output in E5M6, inputs of SwiGLU in fp8; norms, up-projections and the experts' SwiGLU again.
  ModelSpec model = V3;
  model.experts = ExpertSpec{.count = 256, .top_k = 8, .ffn = 2048, .shared_ffn = 2048};
  TrainingShape shape = shape_of(1);
  shape.linear = Precision::Fp8;
  shape.scaling = Scaling::Block;
  shape.experts.parallel = 64;
  shape.recompute = Recompute::Modules;
  shape.modules = {.norms = true, .expert_activation = true, .latent = true};
  shape.kept_activation_input = KeptPrecision::Fp8;
  shape.kept_attention_output = KeptPrecision::E5m6;
  const ModuleCost layer = layer_cost(model, shape, LayerKind::Experts);
  const double scale = 1 / 32.0, narrow = 1 + scale;
  // A token: its input and the sum behind attention, the compressed vectors, row statistics, attention's output; gate,
  // up and their product of the shared expert; scores and map of the router; eight copies, with gate and up of each.
  const double kept = 2 * 2 * 7168 + 2 * (1536 + 512) + 4 * 128 + (1.5 + scale) * 128 * 128 +
                      narrow * 3 * 2048 + (4 + 1) * 256 + 8 * narrow * (7168 + 2 * 2048);
  CHECK(layer.saved == Bytes(4096 * kept));
  CHECK(layer.saved.si() / 1e6 == doctest::Approx(650.9).epsilon(1e-4));
  // Into each product and out of it: compressed 7168 (once) → 1536 and 576, expanded 1536 → 128 · 192 and 512 → 128 ·
  // 256, 128 · 128 → 7168; nine MLPs 7168 → 4096, 2048 → 7168. The router's in bf16: 7168 → 256.
  const double attention = 7168 + 1536 + 576 + 1536 + 128 * 192 + 512 + 128 * 256 + 128 * 128 + 7168;
  const double mlp = 7168 + 4096 + 2048 + 7168;
  CHECK(layer.kept_for_weight == Bytes(4096 * (narrow * (attention + 9 * mlp) + 2 * (7168 + 256))));
  CHECK(layer.kept_for_weight.si() / 1e9 == doctest::Approx(1.229).epsilon(1e-3));
}

TEST_CASE("tensor-parallel ranks hold the compressing products whole and gather what they make") {
  const ModuleCost layer = layer_cost(V3, shape_of(8));
  const double compressing = 7168.0 * (1536 + 576), norms = 1536 + 512 + 2 * 7168;
  const double all = 187'105'280.0 + 396'361'728;
  CHECK(layer.parameters == (all - compressing) / 8 + compressing + norms);
  CHECK(test::exchanges(layer.forward) == std::vector<std::string>{"all-gather-query", "all-gather-key-value",
                                                                   "reduce-scatter-attention",
                                                                   "all-gather-mlp", "reduce-scatter-mlp"});
  const auto exchanged = test::collectives(layer.forward);
  CHECK(exchanged[0].bytes == Bytes(2.0 * 4096 * 1536));
  CHECK(exchanged[1].bytes == Bytes(2.0 * 4096 * 576));
  // Each rank compresses its own tokens: the FLOP are conserved.
  CHECK(8 * flop(layer.forward) == flop(layer_cost(V3, shape_of(1)).forward));
}

TEST_CASE("model FLOP count the mean of both head sizes") {
  // 1 layer: 6 (matrices + V h) + 6 · 128 · 160 · s.
  const double matrices = 187'105'280.0 + 396'361'728 + 129280.0 * 7168;
  CHECK(model_flop(V3, 4096, 1).si() == 6 * (matrices + 128.0 * 160 * 4096));
}

}  // namespace
}  // namespace syncline
