#include "sim/report/gantt.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <stdexcept>

#include "sim/report/text.hpp"
#include "tests/timeline/example.hpp"

using namespace syncline;
using syncline::test::tag;
using syncline::test::TimelineExample;

namespace {

Timeline small_step() {
  TimelineExample example(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    example.collective(rank, "all-gather", 0, rank == 0 ? 2 : 0, 4, Bytes(1e6), "gather",
                       tag(Phase::Other, 0));
    example.compute(rank, 4, 10, tag(Phase::Forward, 0));
    example.compute(rank, 10, 22, tag(Phase::Backward, 0));
    example.collective(rank, "reduce-scatter", 22, 22, 26, Bytes(1e6), "gather", tag(Phase::Other, 0));
    example.compute(rank, 26, 30, tag(Phase::Optimizer));
    example.host(rank, 0, 1);
  }
  return example;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

std::string without_colour(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b')
      i = text.find('m', i);
    else
      plain += text[i];
  }
  return plain;
}

}  // namespace

TEST_CASE("a step of two ranks is drawn to scale") {
  // 45 columns less 14 of labels and a blank: 30 cells of 1 ms each.
  CHECK(gantt(small_step(), {.columns = 45}) ==
        "rank 0 gather  ░0▄▄··················▄0▄▄····\n"
        "rank 0 compute ····██0███▓▓▓▓▓0▓▓▓▓▓▓····▒▒▒▒\n"
        "rank 0 host    ▞·····························\n"
        "rank 1 gather  ▄0▄▄··················▄0▄▄····\n"
        "rank 1 compute ····██0███▓▓▓▓▓0▓▓▓▓▓▓····▒▒▒▒\n"
        "rank 1 host    ▞·····························\n"
        "               ┬─────────┬─────────┬─────────\n"
        "     time [ms] 0         10        20\n"
        "█ forward   ▓ backward   ▒ optimizer, other\n"
        "▞ host at work\n"
        "▄ communication (lower: in part)\n"
        "░ waiting for other ranks   · idle   3 layer\n");
}

TEST_CASE("the axis is the whole step, the host's and other ranks' part included, and keeps its unit") {
  TimelineExample example(2);
  example.host(0, 0, 10);
  example.add(0, {.kind = SpanKind::Compute, .stream = example.stream("s"), .tag = tag(Phase::Forward)}, 10,
              10, 20);
  example.add(1, {.kind = SpanKind::Compute, .stream = example.stream("s"), .tag = tag(Phase::Forward)}, 10,
              10, 30);
  // 42 columns less 11 of labels and a blank: 30 cells of 1 ms each.
  CHECK(gantt(example, {.columns = 42, .most_ranks = 1}) ==
        "rank 0 s    ··········██████████··········\n"
        "rank 0 host ▞▞▞▞▞▞▞▞▞▞····················\n"
        "            ┬─────────┬─────────┬─────────\n"
        "  time [ms] 0         10        20\n"
        "█ forward   ▞ host at work   · idle\n"
        "ranks 0 to 0 of 2; the others are not drawn\n");
  TimelineExample short_name;
  short_name.add(0, {.kind = SpanKind::Compute, .stream = short_name.stream("s")}, 0, 0, 30);
  CHECK(gantt(short_name, {.columns = 40}).find("\ntime [ms] 0") != std::string::npos);
}

TEST_CASE("rows are as wide as asked, whatever the labels are") {
  for (const int columns : {40, 63, 100, 177}) {
    for (const std::string& stream :
         {std::string("compute"), std::string("Überlagerung→αβγ"), std::string(300, 'x')}) {
      for (const bool colour : {false, true}) {
        CAPTURE(columns);
        CAPTURE(stream);
        TimelineExample example(1);
        example.add(0, {.kind = SpanKind::Compute, .stream = example.stream(stream)}, 0, 0, 1.7);
        example.collective(0, "all-gather", 0.3, 0.9, 2);
        const auto rows = lines(without_colour(gantt(example, {.columns = columns, .colour = colour})));
        REQUIRE(rows.size() >= 5);
        CHECK(width(rows[0]) == static_cast<std::size_t>(columns));
        CHECK(width(rows[1]) == static_cast<std::size_t>(columns));
        for (const std::string& line : rows) CHECK(width(line) <= static_cast<std::size_t>(columns));
      }
    }
  }
}

TEST_CASE("colour is added only when asked and changes nothing else") {
  const std::string plain = gantt(small_step(), {.columns = 80}),
                    coloured = gantt(small_step(), {.columns = 80, .colour = true});
  CHECK(plain.find('\x1b') == std::string::npos);
  CHECK(coloured.find("\x1b[34m█") != std::string::npos);
  CHECK(without_colour(coloured) == plain);
}

TEST_CASE("short communication is drawn as low as it is short") {
  // 30 cells of 1 ms: gathers of 0.005, 0.2, 0.25, 0.5, 0.75 and 1 ms at the begin of a cell each, waiting 0.4 and 0.6 ms.
  TimelineExample example;
  const double lengths[] = {0.005, 0.2, 0.25, 0.5, 0.75, 1};
  for (int i = 0; i < 6; ++i) example.collective(0, "all-gather", i, i, i + lengths[i]);
  example.collective(0, "all-gather", 7, 7.4, 7.4).collective(0, "all-gather", 8, 8.6, 8.6);
  example.compute(0, 10, 10.4).compute(0, 11, 11.5).compute(0, 12, 30);
  const auto rows = lines(gantt(example, {.columns = 45}));
  CHECK(rows.at(0) == "rank 0 gather  ·▁▂▃▄▄··░·····················");
  CHECK(rows.at(1) == "rank 0 compute ···········▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒");
}

TEST_CASE("the picture says which ranks it leaves out") {
  TimelineExample example(64);
  for (std::size_t rank = 0; rank < 64; ++rank) example.compute(rank, 0, 1);
  const std::string text = gantt(example, {.most_ranks = 3});
  CHECK(text.find("rank 2 compute") != std::string::npos);
  CHECK(text.find("rank 3 compute") == std::string::npos);
  CHECK(text.find("ranks 0 to 2 of 64; the others are not drawn\n") != std::string::npos);
}

TEST_CASE("the axis has round times, a unit, and room between its labels") {
  struct Row {
    double end;  // ms
    const char* ticks;
    const char* labels;
  };
  // 46 columns less 14 of the label and a blank: 31 cells.
  const Row rows[] = {
      {31, "               ┬─────────┬─────────┬─────────┬\n", "     time [ms] 0         10        20\n"},
      {0.5, "               ┬───────────┬───────────┬──────\n",
       "     time [µs] 0           200         400\n"},
      {4000, "               ┬──────────────┬───────────────\n", "      time [s] 0              2\n"},
  };
  for (const Row& row : rows) {
    const std::string picture = gantt(TimelineExample().compute(0, 100, 100 + row.end), {.columns = 46});
    CAPTURE(picture);
    CHECK(picture.find(row.ticks) != std::string::npos);
    CHECK(picture.find(row.labels) != std::string::npos);
  }
}

TEST_CASE("nothing to draw is said") {
  CHECK(gantt({}, {}) == "nothing ran: there is no picture to draw\n");
  CHECK(gantt(TimelineExample().compute(0, 1, 1), {}) == "nothing ran: there is no picture to draw\n");
}

TEST_CASE("too few columns are refused") {
  CHECK_THROWS_WITH_AS((void)gantt(small_step(), {.columns = 39}),
                       "39 columns are too few for a picture; at least 40 are needed", std::invalid_argument);
}

TEST_CASE("text is clipped by characters, not bytes") {
  struct Row {
    const char* text;
    std::size_t columns;
    const char* expected;
  };
  const Row rows[] = {{"plain", 5, "plain"}, {"plain", 4, "pla…"}, {"αβγδ", 4, "αβγδ"},
                      {"αβγδ", 3, "αβ…"},    {"αβ", 1, "…"},       {"αβ", 0, ""}};
  for (const Row& row : rows) CHECK(clipped(row.text, row.columns) == row.expected);
  CHECK(left("αβ", 4) == "αβ  ");
  CHECK(right("αβ", 4) == "  αβ");
}
