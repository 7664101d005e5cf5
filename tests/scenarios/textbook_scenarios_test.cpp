// Textbook pipelines as scenarios: their step is what the closed forms say.
#include <doctest/doctest.h>

#include "backends/simgrid/simgrid_backend.hpp"
#include "tests/config/fixture.hpp"
#include "tools/question.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

const std::string OneForwardOneBackward = R"(version: 1
pipeline:
  schedule: 1f1b
  stages: 4
  microbatches: 8
  forward: 10ms
  backward-input: 12ms
  backward-weight: 7ms
)";

Seconds step_time(const Question& question) {
  return make_simgrid_backend()->run(question.schedule, question.cluster, {}).step_time;
}

Seconds step_time(const std::string& text, const std::vector<Override>& overrides) {
  use_test_data();
  const Folder folder;
  return step_time(read_question(folder.write("s.yaml", text), overrides, {}));
}

}  // namespace

TEST_CASE("a textbook scenario takes the time of the closed form") {
  struct Row {
    const char* name;
    std::vector<Override> overrides;
    double milliseconds;
  };
  const std::vector<Row> rows{
      // (m + p − 1)(F + B + W)
      {"1F1B", {}, 11 * 29.0},
      {"GPipe", {{"pipeline.schedule", "gpipe"}}, 11 * 29.0},
      // m·p·w
      {"naive", {{"pipeline.schedule", "naive"}}, 8 * 4 * 29.0},
      // m·v·w + (p − 1)w, of chunks half as long: 16 · 14.5 + 3 · 14.5
      {"interleaved",
       {{"pipeline.schedule", "interleaved-1f1b"},
        {"pipeline.forward", "5ms"},
        {"pipeline.backward-input", "6ms"},
        {"pipeline.backward-weight", "3.5ms"}},
       19 * 14.5},
      // m·w + (p − 1)·max(F + B − W, B, F)
      {"ZB-H1", {{"pipeline.schedule", "zb-h1"}}, 8 * 29.0 + 3 * 15.0},
      // one microbatch down and up: p·w and 2(p − 1) hops
      {"a latency", {{"pipeline.microbatches", "1"}, {"pipeline.hop", "1ms"}}, 4 * 29.0 + 2 * 3 * 1.0},
      // ... and 100 MB at 100 Gbps: 8 ms
      {"bytes",
       {{"pipeline.microbatches", "1"},
        {"pipeline.hop", "1ms"},
        {"pipeline.bytes", "100MB"},
        {"pipeline.bandwidth", "100Gbps"}},
       4 * 29.0 + 2 * 3 * 9.0},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name) {
      CHECK(step_time(OneForwardOneBackward, row.overrides).si() ==
            doctest::Approx(row.milliseconds * 1e-3).epsilon(1e-9));
    }
  }
}

TEST_CASE("one slow stage sets the pace") {
  // Stage 1 of 2 is busy without a gap once it has its first input: 10 + 2 (20 + 19) + 19.
  CHECK(step_time("version: 1\npipeline: {order: [0F0 0F1 0B0 0B1, 1F0 1B0 1F1 1B1], forward: [10ms, 20ms], "
                  "backward-input: 12ms, backward-weight: 7ms}\n",
                  {})
            .si() == doctest::Approx(0.107).epsilon(1e-9));
}

TEST_CASE("over a topology, transfers take what its links do") {
  // Ranks of one node: 100 MB at 400 GB/s · 0.8, and 2 · 1 us. One microbatch goes down and up: 6 transfers.
  const Seconds time =
      step_time(OneForwardOneBackward,
                {{"pipeline.microbatches", "1"}, {"topology", "small-tree"}, {"pipeline.bytes", "100MB"}});
  CHECK(time.si() == doctest::Approx(4 * 0.029 + 6 * (100e6 / 320e9 + 2e-6)).epsilon(1e-6));
}

TEST_CASE("every schedule runs as a scenario") {
  for (const std::string& name : pipeline::generator_names()) {
    CAPTURE(name);
    const Seconds time = step_time(OneForwardOneBackward, {{"pipeline.schedule", name}});
    CHECK(time > Seconds(0.2));
    CHECK(time < Seconds(2));
  }
}
