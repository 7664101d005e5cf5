#include "sim/moe/counts_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "sim/core/error.hpp"
#include "sim/moe/routing.hpp"
#include "tests/moe/groups.hpp"

using namespace syncline;
using namespace syncline::moe;
using doctest::Approx;

namespace {

const std::string Good =
    "layer,rank,expert,tokens\n"
    "0,0,0,6\n0,0,1,2\n0,0,3,2\n"
    "0,1,2,5\n0,1,3,5\n"
    "1,0,0,1\n1,1,1,1\n";

std::vector<std::int64_t> row(std::span<const std::int64_t> cells) {
  return {cells.begin(), cells.end()};
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_counts(text, "counts.csv"));
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_SUITE("moe: measured counts") {
  TEST_CASE("rows are read in any order, and those that are missing are 0") {
    const MeasuredCounts counts = parse_counts(Good, "counts.csv");
    CHECK(counts.steps == 1);
    CHECK(counts.layers == 2);
    CHECK(counts.ranks == 2);
    CHECK(counts.experts == 4);
    CHECK(row(counts.sent(0, 0, 0)) == std::vector<std::int64_t>{6, 2, 0, 2});
    CHECK(row(counts.sent(0, 0, 1)) == std::vector<std::int64_t>{0, 0, 5, 5});
    CHECK(row(counts.sent(0, 2, 0)) == row(counts.sent(0, 0, 0)));  // begins again
    CHECK(row(counts.sent(9, 1, 1)) == std::vector<std::int64_t>{0, 1, 0, 0});

    const MeasuredCounts steps =
        parse_counts("expert,tokens,step,rank,layer\n1,7,1,0,0\n0,3,0,0,0\n0,2,1,0,0\n", "steps.csv");
    CHECK(steps.steps == 2);
    CHECK(row(steps.sent(0, 0, 0)) == std::vector<std::int64_t>{3, 0});
    CHECK(row(steps.sent(3, 0, 0)) == std::vector<std::int64_t>{2, 7});
  }

  TEST_CASE("what is wrong is said with its line") {
    struct Row {
      const char* name;
      std::string text;
      const char* message;
    };
    const Row rows[] = {
        {"empty", "", "counts.csv:1: error: expected a line with the names of the columns"},
        {"no names of columns", "0,0,0,4\n0,0,1,4\n",
         "counts.csv:1: error: begins with a number; add a line with the names of the columns, such as "
         "step,layer,rank,expert,tokens"},
        {"no rows", "layer,rank,expert,tokens\n",
         "counts.csv: error: has no counts; expected a row for each layer, rank and expert"},
        {"no such column", "layer,rank,experts,tokens\n0,0,0,1\n",
         "counts.csv:1: error: unknown column \"experts\"; did you mean \"expert\"? (known: step, layer, "
         "rank, expert, "
         "tokens)"},
        {"missing column", "layer,rank,tokens\n0,0,1\n", "counts.csv:1: error: missing column \"expert\""},
        {"not a number", "layer,rank,expert,tokens\n0,0,0,1.5\n",
         "counts.csv:2: error: tokens is \"1.5\", expected a whole number from 0 to 1000000000000"},
        {"negative", "layer,rank,expert,tokens\n0,0,0,1\n0,-1,0,1\n",
         "counts.csv:3: error: rank is \"-1\", expected a whole number from 0 to 262143"},
        {"twice", "layer,rank,expert,tokens\n0,0,0,1\n0,0,0,2\n",
         "counts.csv:3: error: layer 0, rank 0, expert 0 of step 0 is there twice"},
        {"a field too many", "layer,rank,expert,tokens\n0,0,0,1,1\n",
         "counts.csv:2: error: 5 fields, but the header names 4 columns"},
        {"nothing sent", "layer,rank,expert,tokens\n0,0,0,1\n0,2,0,1\n",
         "counts.csv: error: rank 1 has no tokens in layer 0, step 0; each rank of each layer and step needs "
         "some"},
        {"far too many", "layer,rank,expert,tokens\n9999,262143,65535,1\n",
         "counts.csv: error: 1 steps, 10000 layers, 262144 ranks and 65536 experts are more than 100000000 "
         "counts"},
    };
    for (const Row& each : rows) {
      SUBCASE(each.name) {
        CHECK(refusal(each.text) == each.message);
      }
    }
  }

  TEST_CASE("they are scaled to the tokens of each rank") {
    const auto counts = std::make_shared<MeasuredCounts>(parse_counts(Good, "counts.csv"));
    const FromFile routing{"counts.csv", counts};
    // 20 tokens choose one expert: 6, 2, 0, 2 of 10 become 12, 4, 0, 4.
    ExpertGroup group{.ranks = 2, .experts = 4, .tokens = 20, .top_k = 1};
    CHECK(row(route(routing, group, 1).experts[0]) == std::vector<std::int64_t>{12, 4, 0, 4});
    CHECK(row(route(routing, group, 1).experts[1]) == std::vector<std::int64_t>{0, 0, 10, 10});
    CHECK(row(route(routing, group, 1).ranks[0]) == std::vector<std::int64_t>{16, 4});
    // With another number of ranks all have the sum: 6, 2, 5, 7 of 20.
    group.ranks = 4;
    for (int source = 0; source < 4; ++source)
      CHECK(row(route(routing, group, 1).experts[source]) == std::vector<std::int64_t>{6, 2, 5, 7});
    // Two experts a token: 40 copies, the first expert has at most one of each token, and the others share
    // the rest.
    group = {.ranks = 2, .experts = 4, .tokens = 20, .top_k = 2};
    CHECK(row(route(routing, group, 1).experts[0]) == std::vector<std::int64_t>{20, 10, 0, 10});
    CHECK(row(route(routing, group, 1).ranks[0]) == std::vector<std::int64_t>{20, 10});
  }

  TEST_CASE("experts beyond the measured ones get nothing") {
    const auto counts = std::make_shared<MeasuredCounts>(parse_counts(Good, "counts.csv"));
    const ExpertGroup group{.ranks = 2, .experts = 6, .tokens = 20};
    const TokenCounts routed = route(FromFile{"counts.csv", counts}, group, 1);
    CHECK(row(routed.experts[0]) == std::vector<std::int64_t>{12, 4, 0, 4, 0, 0});
    CHECK(row(routed.experts[1]) == std::vector<std::int64_t>{0, 0, 10, 10, 0, 0});
  }

  TEST_CASE("fewer experts than are measured are a caller's mistake") {
    const auto counts = std::make_shared<MeasuredCounts>(parse_counts(Good, "counts.csv"));
    const ExpertGroup group{.ranks = 2, .experts = 2, .tokens = 20};
    CHECK_THROWS_AS(static_cast<void>(route(FromFile{"counts.csv", counts}, group, 1)), std::logic_error);
    CHECK_THROWS_AS(static_cast<void>(route(FromFile{}, group, 1)), std::logic_error);
  }
}
