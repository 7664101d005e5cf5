// Training runs whose memory decides, from their scenario files to the result.
#include <doctest/doctest.h>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/report/summary.hpp"
#include "sim/training/remedies.hpp"
#include "tools/question.hpp"

using namespace syncline;

namespace {

const std::string Memory = SYNCLINE_SOURCE_DIR "/scenarios/memory/";

struct Run {
  Question question;
  RunSummary summary;
};

Run run(const std::string& file, const std::vector<Override>& overrides = {}) {
  Question question = read_question(Memory + file, overrides, {});
  const RunResult result = make_simgrid_backend()->run(question.schedule, question.cluster, {});
  RunSummary summary = summarise(result, question.schedule, question.cluster, {});
  return {std::move(question), std::move(summary)};
}

double gigabytes(const RunSummary& summary, MemoryCategory category) {
  return summary.memory->by_category[static_cast<std::size_t>(category)].si() / 1e9;
}

}  // namespace

TEST_SUITE("training runs: memory") {
  TEST_CASE("GPT-2 large fits 40 GB with flash attention or half the microbatch, and runs out without") {
    const Run flash = run("gpt2-large-40gb.yaml");
    CHECK(flash.summary.memory->ranks_out_of_memory == 0);

    const Run unfused = run("gpt2-large-40gb.yaml", {{"attention", "unfused"}});
    const MemorySummary& memory = *unfused.summary.memory;
    CHECK(memory.ranks_out_of_memory == 8);
    CHECK(memory.out_of_memory_op.starts_with("F layer "));  // 24 GB of 1.2 GB each are free for layers
    CHECK(memory.peak > Bytes(57e9));
    // States: 2, 4 and 12 bytes of 774 M parameters.
    CHECK(gigabytes(unfused.summary, MemoryCategory::Parameters) == doctest::Approx(1.548).epsilon(0.001));
    CHECK(gigabytes(unfused.summary, MemoryCategory::Gradients) == doctest::Approx(3.096).epsilon(0.001));
    CHECK(gigabytes(unfused.summary, MemoryCategory::Optimizer) == doctest::Approx(9.288).epsilon(0.001));
    CHECK(gigabytes(unfused.summary, MemoryCategory::Activations) > 43.0);
    const std::string table = summary_table(unfused.summary);
    CHECK(table.find("OUT OF MEMORY on 8 of 8 ranks") != std::string::npos);
    CHECK(table.find("activations") != std::string::npos);

    const std::vector<Remedy> found =
        remedies(unfused.question.scenario->job, unfused.question.cluster.device);
    REQUIRE_FALSE(found.empty());
    CHECK(found.front().fits);

    const Run half = run("gpt2-large-40gb.yaml", {{"attention", "unfused"}, {"batch.microbatch", "4"}});
    CHECK(half.summary.memory->ranks_out_of_memory == 0);
  }

  TEST_CASE("what is walked in the order of the host is what the run shows") {
    for (const std::vector<Override>& overrides : {std::vector<Override>{},
                                                   {{"attention", "unfused"}},
                                                   {{"recompute", "full"}},
                                                   {{"sharding.kind", "zero-1"}}}) {
      const Run one = run("gpt2-large-40gb.yaml", overrides);
      CHECK(peak_in_order(one.question.schedule).si() ==
            doctest::Approx(one.summary.memory->peak.si()).epsilon(0.001));
    }
  }

  TEST_CASE("the limit of all-gathers saves most of the peak and costs hardly any time") {
    // A public report of the kind: 38.6 GB and 236.5 ms without, 7.2 GB and 247.6 ms with it.
    const Run with = run("fsdp-limiter.yaml");
    const Run without = run("fsdp-limiter.yaml", {{"sharding.limit-all-gathers", "0"}});
    CAPTURE(with.summary.memory->peak.si());
    CAPTURE(without.summary.memory->peak.si());
    CHECK(without.summary.memory->peak > 3.0 * with.summary.memory->peak);
    CAPTURE(with.summary.step_time.si());
    CAPTURE(without.summary.step_time.si());
    CHECK(with.summary.step_time < without.summary.step_time * 1.05);
  }
}
