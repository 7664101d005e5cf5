#include "sim/sweep/journal.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "tests/sweep/fixture.hpp"

using namespace syncline;
using namespace syncline::test;
using sweep::Identity;
using sweep::Journal;
using sweep::Row;

namespace {

const Identity Same{{"program", "1"}, {"sweep-file", "aa"}};

Row row_of(const sweep::Sweep& sweep, std::size_t point) {
  return {point, labels_of(sweep, point), {0.5 * static_cast<double>(point + 1)}, ""};
}

sweep::Sweep four_points(const SweepFolder& folder) {
  return folder.parse("seeds: [1, 2, 3, 4]\nmetrics: [step-time]\n");
}

const std::string Whole = "point,run.seed,step_time_s,error\n1,1,0.5,\n2,2,1,\n3,3,1.5,\n4,4,2,\n";

/// The rest of the points, whatever the journal holds.
void go_on(const sweep::Sweep& sweep, const std::string& output) {
  Journal journal(sweep, output, Same, "again", Journal::Open::Resume);
  for (std::size_t point = 0; point < sweep.size(); ++point)
    if (!journal.rows().contains(point)) journal.add(row_of(sweep, point));
  journal.finish({});
}

}  // namespace

TEST_SUITE("sweep: journal") {
  TEST_CASE("rows stand in the journal at once, and in the output in the order of points") {
    const SweepFolder folder;
    const sweep::Sweep sweep = four_points(folder);
    Journal journal(sweep, folder / "o.csv", Same, "syncline sweep w.yaml", Journal::Open::Anew);
    for (const std::size_t point : {2U, 0U, 3U, 1U}) {
      journal.add(row_of(sweep, point));
      CHECK(read(folder / "o.csv.journal").ends_with(csv_line(row_of(sweep, point))));
    }
    CHECK_FALSE(std::filesystem::exists(folder / "o.csv"));
    journal.finish({});
    CHECK(read(folder / "o.csv") == Whole);
    CHECK(read(folder / "o.csv.journal")
              .starts_with("syncline-sweep-journal 1\ncommand syncline sweep w.yaml\nprogram 1\n"));
  }

  TEST_CASE("wherever a kill cuts the journal, going on ends with the same bytes") {
    const SweepFolder folder;
    const sweep::Sweep sweep = four_points(folder);
    const std::string output = folder / "o.csv", journal = output + ".journal";
    go_on(sweep, output);
    const std::string whole = read(journal);
    for (std::size_t length = 0; length <= whole.size(); ++length) {
      CAPTURE(length);
      std::filesystem::remove(output);
      folder.write("o.csv.journal", whole.substr(0, length));
      {
        const Journal opened(sweep, output, Same, "again", Journal::Open::Resume);
        // Every row whose line is whole is there.
        const std::string cut = whole.substr(0, length);
        const std::size_t rows = cut.find("\nrows\n");
        std::size_t lines = 0;
        for (std::size_t at = rows == std::string::npos ? rows : cut.find('\n', rows + 6);
             at != std::string::npos; at = cut.find('\n', at + 1))
          ++lines;
        CHECK(opened.rows().size() == std::min<std::size_t>(lines, 4));
      }
      go_on(sweep, output);
      CHECK(read(output) == Whole);
      if (length >= whole.find("\nrows\n") + 6) CHECK(read(journal) == whole);
    }
  }

  TEST_CASE("a journal of another sweep is refused, with what has changed") {
    const SweepFolder folder;
    const sweep::Sweep sweep = four_points(folder);
    const std::string output = folder / "o.csv";
    go_on(sweep, output);
    const std::string message = message_of(
        [&] {
          Journal(sweep, output, {{"program", "2"}, {"sweep-file", "aa"}}, "", Journal::Open::Resume);
        },
        folder / "");
    CHECK_MESSAGE(message.starts_with(
                      "o.csv.journal: error: holds rows of another sweep, which this one cannot go on with: "
                      "the program was \"1\", is \"2\""),
                  message);
    CHECK(message.find("sweep file") == std::string::npos);
    folder.write("o.csv.journal", "my notes\n");
    CHECK(message_of([&] { Journal(sweep, output, Same, "", Journal::Open::Resume); }, folder / "")
              .starts_with("o.csv.journal: error: is no journal of a sweep"));
    CHECK(read(folder / "o.csv.journal") == "my notes\n");
  }

  TEST_CASE("rows of an interrupted sweep are not overwritten, those of a finished one are") {
    const SweepFolder folder;
    const sweep::Sweep sweep = four_points(folder);
    const std::string output = folder / "o.csv";
    { Journal(sweep, output, Same, "", Journal::Open::Anew).add(row_of(sweep, 0)); }
    CHECK(message_of([&] { Journal(sweep, output, Same, "", Journal::Open::Anew); }, folder / "")
              .starts_with(
                  "o.csv.journal: error: holds the rows of a sweep that was interrupted; add --resume"));
    go_on(sweep, output);
    CHECK(Journal(sweep, output, Same, "", Journal::Open::Anew).rows().empty());
  }

  TEST_CASE("a point whose worker was lost stands in the output, and is tried again") {
    const SweepFolder folder;
    const sweep::Sweep sweep = four_points(folder);
    const std::string output = folder / "o.csv";
    {
      Journal journal(sweep, output, Same, "", Journal::Open::Anew);
      for (const std::size_t point : {0U, 1U, 3U}) journal.add(row_of(sweep, point));
      journal.finish({{2, failed_row(sweep, 2, "lost")}});
    }
    CHECK(read(output) == "point,run.seed,step_time_s,error\n1,1,0.5,\n2,2,1,\n3,3,,lost\n4,4,2,\n");
    CHECK(Journal(sweep, output, Same, "", Journal::Open::Resume).rows().size() == 3);
    go_on(sweep, output);
    CHECK(read(output) == Whole);
  }

  TEST_CASE("an output that cannot be written is the environment's fault") {
    const SweepFolder folder;
    const sweep::Sweep sweep = four_points(folder);
    CHECK_THROWS_AS(Journal(sweep, folder / "no/such/o.csv", Same, "", Journal::Open::Anew),
                    EnvironmentError);
  }
}
