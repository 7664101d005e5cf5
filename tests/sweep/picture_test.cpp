#include "sim/sweep/picture.hpp"

#include <doctest/doctest.h>

#include "tests/sweep/fixture.hpp"
#include "tests/text.hpp"

using namespace syncline;
using namespace syncline::test;
using sweep::PlotRequest;
using sweep::Row;

namespace {

const std::string TwoPaths =
    "cross: {batch.global: [32, 64], batch.microbatch: [1, 2]}\nmetrics: [step-time, peak-memory]\n";

std::vector<Row> four_rows(const sweep::Sweep& sweep) {
  std::vector<Row> rows;
  for (std::size_t point = 0; point < sweep.size(); ++point)
    rows.push_back({point,
                    labels_of(sweep, point),
                    {0.010 * static_cast<double>(point + 1), 4e9 - 1e9 * static_cast<double>(point)},
                    ""});
  return rows;
}

}  // namespace

TEST_SUITE("sweep: plots") {
  TEST_CASE("what a request leaves open is filled in") {
    const SweepFolder folder;
    const sweep::Sweep sweep = folder.parse(TwoPaths);
    struct Case {
      PlotRequest asked, filled;
    };
    for (const Case& row : {
             Case{{}, {"bars", "batch.global", "step-time", "batch.microbatch"}},
             Case{{"lines", "batch.microbatch", "peak-memory", ""},
                  {"lines", "batch.microbatch", "peak-memory", "batch.global"}},
             Case{{"pareto", "", "", ""}, {"pareto", "step-time", "peak-memory", "batch.global"}},
         }) {
      CAPTURE(row.asked.kind);
      const PlotRequest filled = completed(sweep, row.asked);
      CHECK(filled.kind == row.filled.kind);
      CHECK(filled.x == row.filled.x);
      CHECK(filled.y == row.filled.y);
      CHECK(filled.group == row.filled.group);
    }
  }

  TEST_CASE("a column that the sweep lacks is refused with the nearest") {
    const SweepFolder folder;
    struct Case {
      std::string rest;
      PlotRequest asked;
      std::string message;
    };
    const std::string one_path = "cross: {batch.global: [32, 64]}\nmetrics: [step-time]\n";
    for (const Case& row : {
             Case{TwoPaths,
                  {"bar", "", "", ""},
                  "--kind: error: unknown kind of plot \"bar\"; did you mean \"bars\"?"},
             Case{TwoPaths,
                  {"", "batch.globl", "", ""},
                  "--x: error: unknown path of the sweep \"batch.globl\"; did you mean"},
             Case{TwoPaths, {"", "", "mfu", ""}, "--y: error: unknown metric of the sweep \"mfu\""},
             Case{TwoPaths, {"pareto", "batch.global", "", ""}, "--x: error: unknown metric of the sweep"},
             Case{one_path,
                  {"heat", "", "", ""},
                  "--group: error: a heat map is of two paths; the sweep has one"},
             Case{one_path,
                  {"pareto", "", "", ""},
                  "--kind: error: a Pareto front is of two metrics; the sweep has one"},
         }) {
      const sweep::Sweep sweep = folder.parse(row.rest);
      const std::string message = message_of([&] { static_cast<void>(completed(sweep, row.asked)); });
      CHECK_MESSAGE(message.starts_with(row.message), message);
    }
  }

  TEST_CASE("figures stand in a unit that fits them, beside what they are of") {
    const SweepFolder folder;
    const sweep::Sweep sweep = folder.parse(TwoPaths + "question: how fast?\n");
    const std::string svg = picture_of(sweep, four_rows(sweep), completed(sweep, {}));
    for (const std::string part :
         {"step time [ms]", "batch.global", "batch.microbatch:", "how fast?", "64, 2: 40"})
      CHECK_MESSAGE(contains(svg, part), svg);
    CHECK(contains(picture_of(sweep, four_rows(sweep), completed(sweep, {"heat", "", "peak-memory", ""})),
                   "peak memory [GB]"));
  }

  TEST_CASE("of rows at one place the mean is drawn, and rows with an error are left out") {
    const SweepFolder folder;
    const sweep::Sweep sweep =
        folder.parse("cross: {batch.global: [32, 64]}\nseeds: [1, 2, 3]\nmetrics: [step-time]\n");
    std::vector<Row> rows;
    for (std::size_t point = 0; point < 6; ++point)
      rows.push_back({point, labels_of(sweep, point), {static_cast<double>(point + 1)}, ""});
    rows[5] = failed_row(sweep, 5, "bad");
    const std::string svg = picture_of(sweep, rows, completed(sweep, {}));
    CHECK(contains(svg, "<title>32: 2</title>"));    // (1 + 2 + 3) / 3
    CHECK(contains(svg, "<title>64: 4.5</title>"));  // (4 + 5) / 2
  }

  TEST_CASE("lines need numbers of one unit along x") {
    const SweepFolder folder;
    const sweep::Sweep sweep =
        folder.parse("cross: {topology.scale-out.link.bandwidth: [100Gbps, 50GBps]}\nmetrics: [step-time]\n");
    std::vector<Row> rows;
    for (std::size_t point = 0; point < 2; ++point)
      rows.push_back({point, labels_of(sweep, point), {1.0}, ""});
    const PlotRequest lines = completed(sweep, {"lines", "", "", ""});
    CHECK(message_of([&] { static_cast<void>(picture_of(sweep, rows, lines)); })
              .starts_with("--kind lines: error: lines need numbers of one unit along x; "
                           "topology.scale-out.link.bandwidth has 100Gbps "
                           "and 50GBps"));
    rows.pop_back();
    CHECK(contains(picture_of(sweep, rows, lines), "topology.scale-out.link.bandwidth [Gbps]"));
  }

  TEST_CASE("a Pareto plot rings the front") {
    const SweepFolder folder;
    const sweep::Sweep sweep = folder.parse(TwoPaths);
    std::vector<Row> rows = four_rows(sweep);  // time rises as memory falls: all of them
    rows.back().values[1] = 9e9;               // worst in both
    const std::string svg = picture_of(sweep, rows, completed(sweep, {"pareto", "", "", ""}));
    std::size_t rings = 0;
    for (std::size_t at = svg.find("class=\"ring\""); at != std::string::npos;
         at = svg.find("class=\"ring\"", at + 1))
      ++rings;
    CHECK(rings == 3);
  }
}
