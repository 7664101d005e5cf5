#include "sim/sweep/row.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/sweep/fixture.hpp"

using namespace syncline;
using namespace syncline::test;
using sweep::Row;

namespace {

const std::string Axes =
    "cross: {batch.global: [{label: \"small, or not\", value: 32}, 64]}\nmetrics: [step-time, mfu]\n";

}  // namespace

TEST_SUITE("sweep: rows") {
  TEST_CASE("a line of CSV and the row it was are one") {
    const SweepFolder folder;
    const sweep::Sweep sweep = folder.parse(Axes);
    CHECK(csv_header(sweep) == "point,batch.global,step_time_s,mfu,error\n");
    for (const Row& row : {
             Row{0, {"small, or not"}, {0.1, std::nullopt}, ""},
             Row{1, {"64"}, {1.0 / 3, 1e-300}, ""},
             Row{1, {"64"}, {std::nullopt, std::nullopt}, "w.yaml:3:4: error: \"a\", b"},
         }) {
      const std::string line = sweep::csv_line(row);
      CAPTURE(line);
      const std::optional<Row> again = row_of_line(sweep, line);
      REQUIRE(again);
      CHECK(again->point == row.point);
      CHECK(again->labels == row.labels);
      CHECK(again->values == row.values);
      CHECK(again->error == row.error);
    }
    CHECK(sweep::csv_line({0, {"small, or not"}, {0.25, std::nullopt}, ""}) ==
          "1,\"small, or not\",0.25,,\n");
  }

  TEST_CASE("a line that was cut short, or is of another sweep, is no row") {
    const SweepFolder folder;
    const sweep::Sweep sweep = folder.parse(Axes);
    const std::string line = sweep::csv_line({1, {"64"}, {0.125, 0.5}, "\"x\", y"});
    REQUIRE(row_of_line(sweep, line));
    for (std::size_t length = 0; length < line.size(); ++length) {
      CAPTURE(length);
      CHECK_FALSE(row_of_line(sweep, line.substr(0, length)));
    }
    for (const std::string other :
         {"3,64,0.1,0.2,\n", "0,64,0.1,0.2,\n", "x,64,0.1,0.2,\n", "2,32,0.1,0.2,\n", "2,64,fast,0.2,\n",
          "2,64,0.1,\n", "2,64,0.1,0.2,,\n"}) {
      CAPTURE(other);
      CHECK_FALSE(row_of_line(sweep, other));
    }
  }

  TEST_CASE("an error is one line, however many it had") {
    const SweepFolder folder;
    const Row row = failed_row(folder.parse(Axes), 1, "first\nsecond\r\n");
    CHECK(sweep::csv_line(row) == "2,64,,,first second  \n");
    CHECK(sweep::in_one_line(InputError({{{"f", 1, 2, "text"}, "bad"}, {{"f", 3, 4, ""}, "worse"}})) ==
          "f:1:2: error: bad; f:3:4: error: worse");
  }

  TEST_CASE("a timeline is kept only for metrics that are read from it") {
    const SweepFolder folder;
    CHECK_FALSE(needs(folder.parse("seeds: [1]\nmetrics: [step-time, mfu, peak-memory]\n"), MetricOf::Spans));
    CHECK(needs(folder.parse("seeds: [1]\nmetrics: [step-time, exposed-communication]\n"), MetricOf::Spans));
  }

  TEST_CASE("JSON has every row with its values, null where there is none") {
    const SweepFolder folder;
    const sweep::Sweep sweep = folder.parse(Axes);
    const auto json =
        nlohmann::json::parse(rows_json(sweep, {{0, {"small, or not"}, {0.25, std::nullopt}, ""}}, "1.2.3"));
    CHECK(json.at("schema") == 1);
    CHECK(json.at("version") == "1.2.3");
    CHECK(json.at("columns").size() == 5);
    const auto& row = json.at("rows").at(0);
    CHECK(row.at("point") == 1);
    CHECK(row.at("set").at("batch.global") == "small, or not");
    CHECK(row.at("step_time_s") == 0.25);
    CHECK(row.at("mfu").is_null());
    CHECK(row.at("error").is_null());
  }
}
