// What `run` shows of a pipeline without a model: all that there is to say of it, and no more.
#include <doctest/doctest.h>

#include <array>

#include "sim/report/pipeline_text.hpp"
#include "tests/report/textbook_run.hpp"
#include "tests/text.hpp"

using namespace syncline;
using pipeline::TransferMode;
using test::make_order;
using test::run_textbook;

namespace {

constexpr pipeline::StageTimes Unit{Seconds(1), Seconds(1), Seconds(1)};

using syncline::test::contains;

}  // namespace

TEST_SUITE("summary of a textbook pipeline") {
  TEST_CASE("without bytes nothing is said of communication, links and nodes; with bytes it is") {
    const std::string free = summary_table(run_textbook(make_order("1f1b", 2, 4), Unit).summary());
    // (m + p − 1) · 3 = 15, of which a rank computes 12.
    for (const char* shown : {"2 ranks, blocks of fixed time\n", "  step time  15 s\n  compute    12 s\n",
                              "bubble 3 s = 20.0 % of the total"})
      CHECK_MESSAGE(contains(free, shown), free);
    for (const char* hidden : {"idle share", "communication", "exposed", "links", "node", "utilisation"})
      CHECK_MESSAGE(!contains(free, hidden), free);
    const std::string sending = summary_table(
        run_textbook(make_order("1f1b", 2, 4), Unit, TransferMode::Overlapped, Bytes(1)).summary());
    for (const char* shown : {"2 × ideal on 2 nodes of links\n", "exposed", "Link utilisation"})
      CHECK_MESSAGE(contains(sending, shown), sending);
    CHECK_FALSE(contains(sending, "idle share"));
  }

  TEST_CASE("peak activations are in microbatches, and of a chunk where there are several") {
    const auto shows = [](const pipeline::Order& order, const char* text) {
      const std::string table = summary_table(run_textbook(order, Unit).summary());
      return contains(table, std::string("peak activations of a rank: ") + text + "\n");
    };
    CHECK(shows(make_order("1f1b", 4, 8), "1 to 4 microbatches"));  // p − rank
    CHECK(shows(make_order("gpipe", 2, 4), "4 microbatches"));      // m on each
    CHECK(shows(make_order("naive", 2, 4), "1 microbatch"));
    CHECK(shows(make_order("zb-v", 2, 8), "4 microbatches of a chunk"));  // 2p on each
  }

  TEST_CASE("of a range of ranks with the same peak the one figure is shown") {
    CHECK(peaks_text(std::vector<int>(17, 4)) == "4 on every rank");
    std::vector<int> falling;
    for (int rank = 0; rank < 17; ++rank) falling.push_back(17 - rank);
    CHECK(peaks_text(falling) == "1 to 17; 17 on rank 0");
    CHECK(peaks_text({4, 4}) == "4 4");
  }

  TEST_CASE("a pipeline of one stage has no bubble, which is known") {
    const RunSummary run = run_textbook(make_order("1f1b", 1, 4), Unit).summary();
    for (const char* metric : {"bubble-of-total", "bubble-of-ideal", "bubble-of-span"})
      CHECK(metric_value(run, metric).value() == doctest::Approx(0));
    CHECK(contains(summary_table(run), "Pipeline of 1 stage: 12 s"));
  }

  TEST_CASE("a training run on one stage is no pipeline") {
    test::TextbookRun run = run_textbook(make_order("1f1b", 1, 4), Unit);
    run.schedule.job.model_flop = run.schedule.job.hardware_flop = Flop(1);
    CHECK_FALSE(run.summary().pipeline.has_value());
  }

  TEST_CASE("a tolerance too small for two decimals is shown all the same") {
    CHECK(expectation_text({"bubble-of-ideal", 0.375, 1e-6, {}, {}}) == "37.5 % ± 0.0001 %");
    CHECK(expectation_text({"bubble-of-ideal", 0.375, 0.01, {}, {}}) == "37.5 % ± 1.00 %");
    CHECK(expectation_text({"bubble-of-ideal", 0.375, 0.0, {}, {}}) == "37.5 % ± 0.00 %");
    CHECK(expectation_text({"step-time", 1.0, 1e-6, {}, {}}) == "1 s ± 1 us");
  }
}

TEST_SUITE("comparison of textbook pipelines") {
  TEST_CASE("the bubble stands in time too; what no run has is left out") {
    const std::array runs{run_textbook(make_order("gpipe", 2, 4), Unit).summary(),
                          run_textbook(make_order("1f1b", 2, 4), Unit).summary()};
    const std::string text = comparison_table(runs);
    CHECK_MESSAGE(contains(text, "\nbubble  "), text);
    CHECK_MESSAGE(contains(text, "  3 s\nbubble of total"), text);
    for (const char* hidden :
         {"topology", "communication", "waiting", "busiest", "peak memory", "the same work"})
      CHECK_MESSAGE(!contains(text, hidden), text);
  }

  TEST_CASE("rows of links stay where one run sends bytes") {
    const std::array runs{
        run_textbook(make_order("1f1b", 2, 4), Unit).summary(),
        run_textbook(make_order("1f1b", 2, 4), Unit, TransferMode::Overlapped, Bytes(1)).summary()};
    for (const char* shown : {"\ntopology", "\nexposed communication", "\nbusiest link"})
      CHECK(contains(comparison_table(runs), shown));
  }

  TEST_CASE("runs that do other work are told apart from a smaller bubble") {
    const auto text = [](int microbatches, double forward) {
      const std::array runs{
          run_textbook(make_order("1f1b", 2, 4), Unit).summary(),
          run_textbook(make_order("1f1b", 2, microbatches), {Seconds(forward), Seconds(1), Seconds(1)})
              .summary()};
      return comparison_table(runs);
    };
    // 4 · 3 = 12 s and 8 · 3 = 24 s.
    CHECK(contains(text(8, 1), "the runs do not do the same work: ideal times differ, from 12 s to 24 s\n"));
    CHECK_FALSE(contains(text(4, 1.02), "the same work"));  // 0.67 % more
    CHECK(contains(text(4, 1.04), "the same work"));        // 1.33 %
  }
}
