// GPT-like models against the formulas of the papers of Megatron-LM and Zero Bubble.
#include "tests/model/gpt.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sim/model/model.hpp"

namespace syncline {
namespace {

using test::gpt;

TEST_CASE("parameters follow equation 2 of Narayanan et al., but for the final norm") {
  struct Row {
    std::string name;
    int layers, hidden, heads;
    double billions;  // arXiv 2104.04473, Tables 1 and 2
  };
  for (const Row& row : {Row{"3.6B", 30, 3072, 32, 3.6}, Row{"145.6B", 80, 12288, 96, 145.6},
                         Row{"174.6B", 96, 12288, 96, 174.6}, Row{"310.1B", 96, 16384, 128, 310.1},
                         Row{"529.6B", 105, 20480, 128, 529.6}, Row{"1008.0B", 128, 25600, 160, 1008.0}}) {
    CAPTURE(row.name);
    const double L = row.layers, h = row.hidden, V = 51200, s = 2048;
    const double count = parameter_count(gpt(row.layers, row.hidden, row.heads));
    CHECK(count == 12 * L * h * h + 13 * L * h + (V + s) * h + 2 * h);
    const double published = 12 * L * h * h * (1 + 13 / (12 * h) + (V + s) / (12 * L * h));
    CHECK(count - 2 * h == doctest::Approx(published).epsilon(1e-12));
    CHECK(std::abs(count / 1e9 - row.billions) < 0.05);
  }
}

TEST_CASE("Megatron-LM's FLOP give the published time and rate of a run") {
  // arXiv 2104.04473, Table 1: 145.6B on 1536 GPUs, 2304 sequences of 2048, 148 TFLOP/s a GPU.
  // 96 · 2304 · 2048 · 80 · 12288² (1 + 2048/73,728 + 51,200/15,728,640) = 5.6416e18 FLOP.
  const double flop = megatron_flop(gpt(80, 12288, 96), 2048, 2304).si();
  CHECK(flop == doctest::Approx(5.6416e18).epsilon(1e-4));
  CHECK(flop / 1536 / 148e12 == doctest::Approx(24.817).epsilon(1e-4));
}

TEST_CASE("Megatron-LM's FLOP are those of our kernels with full recomputation and unfused attention") {
  // Each layer forward, again, and two parts of backward; the output projection three times.
  const ModelSpec model = gpt(4, 256, 8);
  TrainingShape shape{.sequence = 2048, .microbatch = 3};
  shape.recompute = Recompute::Full;
  shape.attention = AttentionKernels::Unfused;
  double flop = 0;
  const ModuleCost layer = layer_cost(model, shape), head = head_cost(model, shape);
  const auto add = [&flop](const std::vector<Kernel>& kernels, int times) {
    for (const Kernel& kernel : kernels) flop += times * kernel.flop.si();
  };
  add(kernels_of(layer.forward), 4);
  add(kernels_of(layer.recompute), 4);
  add(backward_kernels(layer), 4);
  add(kernels_of(head.forward), 1);
  add(backward_kernels(head), 1);
  CHECK(flop == doctest::Approx(megatron_flop(model, 2048, 3).si()).epsilon(1e-12));
}

TEST_CASE("activations of a layer are those of Korthikanti et al.") {
  // arXiv 2205.05198, Table 2: bytes of a layer in 16 bit with dropout, unfused attention.
  struct Row {
    const char* name;
    int t;
    bool sequence_parallel;
    Recompute recompute;
    double (*bytes)(double sbh, double scores, double t);  // scores: 5 a s / h
  };
  const std::vector<Row> rows = {
      {"equation 1", 1, false, Recompute::None,
       [](double sbh, double scores, double) { return sbh * (34 + scores); }},
      {"equation 2, tensor parallel", 8, false, Recompute::None,
       [](double sbh, double scores, double t) { return sbh * (10 + 24 / t + scores / t); }},
      {"equation 4, sequence parallel", 8, true, Recompute::None,
       [](double sbh, double scores, double t) { return sbh * (34 + scores) / t; }},
      {"selective", 8, false, Recompute::Selective,
       [](double sbh, double, double t) { return sbh * (10 + 24 / t); }},
      {"sequence parallel, selective", 8, true, Recompute::Selective,
       [](double sbh, double, double t) { return 34 * sbh / t; }},
      {"full", 8, false, Recompute::Full, [](double sbh, double, double) { return 2 * sbh; }},
  };
  const double sbh = 2048.0 * 4 * 6144, scores = 5 * 64 * 2048 / 6144.0;
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      for (const Fusion fusion : {Fusion::Eager, Fusion::Compiled}) {
        TrainingShape shape = test::megatron_shape(4, row.t);
        shape.fusion = fusion;
        shape.sequence_parallel = row.sequence_parallel;
        shape.recompute = row.recompute;
        CHECK(layer_cost(gpt(48, 6144, 64), shape).saved.si() ==
              doctest::Approx(row.bytes(sbh, scores, row.t)).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("activations relative to tensor parallelism alone are those of figure 7 of Korthikanti et al.") {
  // Per cent, as digitised; the first figure of each model is a bar read off, so within one per cent of the
  // whole.
  struct Row {
    std::string name;
    int layers, hidden, heads;
    bool sequence_parallel;
    Recompute recompute;
    double percent;
  };
  for (const Row& row : {Row{"22B selective", 48, 6144, 64, false, Recompute::Selective, 49.42},
                         Row{"175B sequence parallel", 96, 12288, 96, true, Recompute::None, 62.04},
                         Row{"175B both", 96, 12288, 96, true, Recompute::Selective, 18.49},
                         Row{"530B sequence parallel", 105, 20480, 128, true, Recompute::None, 58.31},
                         Row{"530B selective", 105, 20480, 128, false, Recompute::Selective, 62.04},
                         Row{"530B both", 105, 20480, 128, true, Recompute::Selective, 20.27},
                         Row{"1T both", 128, 25600, 160, true, Recompute::Selective, 20.27},
                         Row{"1T full", 128, 25600, 160, false, Recompute::Full, 9.42}}) {
    CAPTURE(row.name);
    const ModelSpec model = gpt(row.layers, row.hidden, row.heads);
    TrainingShape shape = test::megatron_shape(1, 8);
    const Bytes baseline = layer_cost(model, shape).saved;
    shape.sequence_parallel = row.sequence_parallel;
    shape.recompute = row.recompute;
    CHECK(std::abs(100 * (layer_cost(model, shape).saved / baseline) - row.percent) < 1.0);
  }
}

TEST_CASE("activations of embedding and loss are those of Korthikanti et al., section 4.3") {
  // Dropout mask of the embedding: sbh/t; final norm, projection and loss: 4sbh(1 + V/h)/t.
  TrainingShape shape = test::megatron_shape(4, 8);
  shape.sequence_parallel = true;
  const ModelSpec model = gpt(48, 6144, 64);
  const double sbh = 2048.0 * 4 * 6144;
  CHECK(embedding_cost(model, shape).saved == Bytes(sbh / 8));
  CHECK(head_cost(model, shape).saved.si() ==
        doctest::Approx(4 * sbh * (1 + 51200 / 6144.0) / 8).epsilon(1e-12));
}

TEST_CASE("without dropout no masks are kept, and one copy of the probabilities") {
  // 34 − 2 bytes of masks; of 5 bytes a score 2 remain.
  TrainingShape shape = test::megatron_shape(4, 1);
  shape.dropout = false;
  CHECK(layer_cost(gpt(48, 6144, 64), shape).saved ==
        Bytes(2048.0 * 4 * 6144 * 32 + 2.0 * 4 * 64 * 2048 * 2048));
}

TEST_CASE("flash attention keeps four bytes a row and head of the scores") {
  TrainingShape shape = test::megatron_shape(4, 1);
  shape.attention = AttentionKernels::Flash;
  const ModelSpec model = gpt(48, 6144, 64);
  CHECK(layer_cost(model, shape).saved == Bytes(2048.0 * 4 * (6144 * 34 + 4 * 64)));
  shape.recompute = Recompute::Selective;
  CHECK(layer_cost(model, shape).saved == Bytes(2048.0 * 4 * 6144 * 34));
}

TEST_CASE("a split backward holds 32 sbh from I to W") {
  // arXiv 2401.10241, Table 1: 32sbh. Inputs of the products 2 + 2 + 2 + 8, gradients of their outputs 6 + 2
  // + 8 + 2.
  const ModelSpec model = gpt(48, 6144, 64);
  TrainingShape shape = test::megatron_shape(4, 1);
  const double sbh = 2048.0 * 4 * 6144;
  CHECK(layer_cost(model, shape).kept_for_weight == Bytes(32 * sbh));
  // Cut among 8 ranks: all but the two products' inputs and the two gradients of width h, 2 sbh each.
  shape.tensor_parallel = 8;
  CHECK(layer_cost(model, shape).kept_for_weight == Bytes((8 + 24 / 8) * sbh));
}

TEST_CASE("selective recompute repeats the core of attention, full recompute all") {
  TrainingShape shape = test::megatron_shape(4, 8);
  const ModelSpec model = gpt(48, 6144, 64);
  shape.recompute = Recompute::Selective;
  const std::vector<Kernel> again = kernels_of(layer_cost(model, shape).recompute);
  // q kᵀ, softmax, dropout, times v, copy; 4 · 8 heads on a rank of 96 wide.
  REQUIRE(again.size() == 5);
  CHECK(again[0].kind == KernelClass::Gemm);
  CHECK(again[0].batch == 4 * 8);
  CHECK(again[0].flop == Flop(2.0 * 32 * 2048 * 2048 * 96));
  CHECK(again[2].hbm == Bytes(5.0 * 32 * 2048 * 2048));
  CHECK(again[3].k == 2048);
  shape.recompute = Recompute::Full;
  const ModuleCost full = layer_cost(model, shape);
  CHECK(full.recompute == full.forward);
}

TEST_CASE("fused kernels of a GPT layer: softmax with mask, bias with GeLU, bias with dropout and sum") {
  // Eager: softmax in 4 kernels instead of 1, GeLU in 2 instead of 1, twice 3 instead of 1: 3 + 1 + 4 more
  // forward; backward of softmax in 4 instead of 1.
  const ModelSpec model = gpt(48, 6144, 64);
  TrainingShape fused = test::megatron_shape(4, 1), eager = fused;
  eager.fusion = Fusion::Eager;
  const ModuleCost one = layer_cost(model, fused), many = layer_cost(model, eager);
  CHECK(kernels_of(many.forward).size() == kernels_of(one.forward).size() + 8);
  CHECK(kernels_of(many.backward_input).size() == kernels_of(one.backward_input).size() + 3);
  CHECK(many.backward_weight == one.backward_weight);
}

}  // namespace
}  // namespace syncline
