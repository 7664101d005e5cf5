// The step time that a row was measured at, by hand.
#include <doctest/doctest.h>

#include "sim/score/measured_time.hpp"
#include "tests/score/table.hpp"

namespace syncline::score {
namespace {

using test::row_of;

/// One layer of width 4 with two heads, plain MLP of 16, vocabulary 10, 8 tokens a sequence; 6 sequences on 2
/// accelerators of 1 TFLOP/s.
Scenario toy() {
  Scenario scenario;
  ModelSpec& model = scenario.job.model;
  model.layers = 1;
  model.hidden = 4;
  model.heads = model.kv_heads = 2;
  model.ffn = 16;
  model.vocabulary = 10;
  model.norm = Norm::Layer;
  model.activation = Activation::Gelu;
  model.position = Position::Learned;
  model.max_sequence = 8;
  scenario.job.shape.sequence = 8;
  scenario.global_batch = 6;
  scenario.device.peak[Precision::Bf16] = FlopPerSecond(1e12);
  return scenario;
}

TEST_CASE("FLOP are counted as the source counts them") {
  // Matrices: 4·4² + 2·4·16 + 4·10 = 64 + 128 + 40 = 232; tokens: 48; 6 · 232 · 48 = 66,816.
  // Attention, lower triangle: 6 · 1 · 4 · 8 = 192 a token, 9,216; the whole square is twice that.
  CHECK(counted_flop(toy(), "causal").si() == 66816 + 9216);
  CHECK(counted_flop(toy(), "full-square").si() == 66816 + 2 * 9216);
  // 96·6·8·1·16·(1 + 8/24 + 10/64) = 73,728 · 1.489583 = 109,824
  CHECK(counted_flop(toy(), "recomputed").si() == doctest::Approx(109824));
  CHECK_THROWS_AS(static_cast<void>(counted_flop(toy(), "")), std::invalid_argument);
}

TEST_CASE(
    "of experts those count that a token goes to, with router and shared experts; a square knows no "
    "windows") {
  Scenario scenario = toy();
  scenario.job.model.experts = ExpertSpec{.count = 3, .top_k = 2, .ffn = 8, .shared_ffn = 16};
  // Attention 4·4² = 64, router 4·3 = 12, two experts 2·(2·4·8) = 128, shared 2·4·16 = 128, head 40: 372.
  CHECK(counted_flop(scenario, "causal").si() == 6 * 372 * 48 + 9216);
  scenario.job.model.window = 2;  // reaches 2·(16 − 2) / 8 = 3.5 of 8: 6 · 1 · 4 · 3.5 = 84 a token, 4,032
  CHECK(counted_flop(scenario, "causal").si() == 6 * 372 * 48 + 4032);
  CHECK(counted_flop(scenario, "full-square").si() == 6 * 372 * 48 + 2 * 9216);
}

TEST_CASE("the step time is taken from the first figure that the row has") {
  struct Row {
    const char* cells;
    const char* from;
    double seconds;
  };
  const std::string header =
      "id,iter_time_s,tokens_per_s_per_gpu,samples_per_s,samples_per_s_per_gpu,tflops_per_gpu,mfu_pct";
  for (const Row& row : {Row{"a,3,1,1,1,1,1", "step_time", 3},
                         Row{"a,,12,1,1,1,1", "tokens_per_s_per_gpu", 2},  // 48 / (12 · 2)
                         Row{"a,,,4,1,1,1", "samples_per_s", 1.5},         // 6 / 4
                         Row{"a,,,,3,1,1", "samples_per_s_per_gpu", 1},    // 6 / (3 · 2)
                         Row{"a,,,,,0.5,1", "flops_per_gpu", 76032e-12},   // 76,032 / (0.5e12 · 2)
                         Row{"a,,,,,,25", "mfu", 2 * 76032e-12},           // 76,032 / (0.25 · 1e12 · 2)
                         Row{"a,0,,4,,,", "samples_per_s", 1.5}}) {        // 0 is no time
    CAPTURE(row.cells);
    TrainingRow read = row_of(header, row.cells);
    read.put("n_gpus", "2");
    read.put("flop_count", "causal");
    const auto measured = measured_time(read, toy());
    REQUIRE(measured);
    CHECK(measured->from == row.from);
    CHECK(measured->step.si() == doctest::Approx(row.seconds));
  }
}

TEST_CASE("without a figure there is no time; a rate whose count is not known is refused") {
  CHECK_FALSE(measured_time(row_of("id,n_gpus", "a,2"), toy()));
  CHECK_THROWS_AS(static_cast<void>(measured_time(row_of("id,n_gpus,mfu_pct", "a,2,50"), toy())), InputError);
}

}  // namespace
}  // namespace syncline::score
