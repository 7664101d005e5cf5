// What the picture of a pipeline says where it cannot show all, and what it says of itself.
#include "sim/report/pipeline_picture.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "sim/core/units.hpp"
#include "sim/pipeline/lower.hpp"
#include "sim/report/text.hpp"
#include "tests/report/textbook_run.hpp"

using namespace syncline;
using doctest::Contains;
using pipeline::Order;

namespace {

constexpr Seconds sec(double value) {
  return Seconds(value);
}

/// As the exact replay has it: F = 1, I = 1, W = 1 in seconds, a whole backward 2.
std::string picture(const Order& order, PictureOptions options,
                    pipeline::StageTimes times = {sec(1), sec(1), sec(1)}) {
  const pipeline::Replay exact = replay(order, pipeline::uniform_costs(order.stages, times));
  return pipeline_picture({order, exact.blocks, {}}, options);
}

std::string without_colours(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b')
      while (text[i] != 'm') ++i;
    else
      plain += text[i];
  }
  return plain;
}

}  // namespace

TEST_SUITE("pipeline picture: what it says") {
  TEST_CASE(
      "where blocks are narrower than a column the picture says what a column covers, and what is enough") {
    // 1F1B, p = 2, m = 48: (48 + 1) · 3 = 147 in 100 − 8 = 92 columns: 147 / 92 = 1.598 each. A column that
    // begins within an F of 1 has at most 0.598 of it ahead: F, B and no more, or the end of B, F, B.
    const Order order = test::make_order("1f1b", 2, 48);
    const std::string text = picture(order, {.columns = 100});
    CHECK_MESSAGE(
        text.ends_with(
            "        a column covers 1.598: up to 3 blocks of a rank, and shows what takes most of it; "
            "--columns\n        155 would show each\n"),
        text);
    // 8 + 147 columns show each block, one column a unit.
    const std::string wide = picture(order, {.columns = 155});
    CHECK(wide.find("a column covers") == std::string::npos);
    CHECK(wide.starts_with("rank 0  FF··B0FB1FB2"));
    CHECK(picture(order, {.columns = 154}).find("a column covers") != std::string::npos);
  }

  TEST_CASE("a width that is never given is not proposed, and times are written as asked") {
    const Order order = test::make_order("1f1b", 2, 400);  // 401 · 3 = 1203 columns
    PictureOptions options{.columns = 90};
    options.time = [](Seconds time) { return to_text(time); };
    const std::string text = picture(order, options, {Seconds(0.01), Seconds(0.01), Seconds(0.01)});
    CHECK_MESSAGE(
        text.ends_with("a column covers 146.7 ms: up to 11 blocks of a rank, and shows what takes most "
                       "of\n        it\n"),
        text);  // 12.03 s / 82; 14.67 units hold 9 2/3 blocks of 1.5, and the ends of two more
    CHECK(text.find("        0 s ") != std::string::npos);
  }

  TEST_CASE("second chunks are explained where there are several, in letters or colours") {
    const auto says = [](const char* schedule, bool colour, const char* sentence) {
      const Order order = test::make_order(schedule, 2, 4);
      return without_colours(picture(order, {.columns = 120, .colour = colour})).find(sentence) !=
             std::string::npos;
    };
    CHECK(says("zb-v", false, "idle; small letters: a rank's second chunk\n"));
    CHECK(says("zb-v", true, "idle; lighter colours: a rank's second chunk\n"));
    CHECK_FALSE(says("1f1b", false, "small letters"));
    const Order four = pipeline::parse_order("0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0", "");
    const std::string text = picture(four, {.columns = 120});
    CHECK(text.find("small letters: a rank's second, fourth, ... chunk") != std::string::npos);
    CHECK(text.starts_with("rank 0  F0───────f0───────F0───────f0───────b0"));
  }

  TEST_CASE("the halves of a backward and the whole of it have fillings of their own") {
    const Order order = pipeline::parse_order("0F0 0F1 0I0 0W0 0B1", "");
    // 6 units: 32 columns hold 5 a unit.
    CHECK(picture(order, {.columns = 40}) ==
          "rank 0  F0───F1───I0≡≡≡W0~~~B1════════\n"
          "        0         2         4\n"
          "        F─ forward, B═ backward,\n"
          "        I≡ backward for inputs,\n"
          "        W~ backward for weights, · idle\n");
  }

  TEST_CASE("no line is wider than the picture may be") {
    for (const char* schedule : {"1f1b", "zb-h1", "zb-v", "dualpipe-v"})
      for (const int columns : {40, 53, 80})
        for (const bool colour : {false, true}) {
          std::istringstream lines(without_colours(
              picture(test::make_order(schedule, 4, 30), {.columns = columns, .colour = colour})));
          for (std::string line; std::getline(lines, line);) {
            CAPTURE(line);
            CHECK(width(line) <= static_cast<std::size_t>(columns));
          }
        }
  }

  TEST_CASE("of the chunk that took most of a column is the letter") {
    // 64 s on 32 columns: the first covers 0.4 + 0.4 of the first chunk and 0.6 + 0.6 of the second.
    const Order order = pipeline::parse_order("0F0 1F0 0F1 1F1 1B0 0B0 1B1 0B1", "");
    const pipeline::Costs costs{{{sec(0.4), sec(5), sec(5)}, {sec(0.6), sec(5), sec(5)}}};
    const pipeline::Replay exact = replay(order, costs);
    CHECK(pipeline_picture({order, exact.blocks, {}}, {.columns = 40, .end = sec(64)})
              .starts_with("rank 0  fb0══"));
  }

  TEST_CASE("a run of a textbook is drawn by its compute, with the transfers of its data") {
    const Order order = test::make_order("1f1b", 2, 2);
    const test::TextbookRun run =
        test::run_textbook(order, {sec(1), sec(1), sec(1)}, pipeline::TransferMode::Overlapped,
                           Bytes(1));  // a second a transfer
    PipelinePicture drawn = picture_of_textbook(order, run.schedule, run.result.timeline);
    // rank 1's first forward is at 2: a second after rank 0's has ended.
    CHECK(drawn.blocks[0][0].end.si() == doctest::Approx(1));
    CHECK(drawn.blocks[1][0].start.si() == doctest::Approx(2));
    CHECK(drawn.blocks[1].size() == 4);
    CHECK(drawn.transfers[0].size() == 4);  // two activations out, two gradients in
    CHECK(drawn.transfers[0][0].start.si() == doctest::Approx(1));
    CHECK(drawn.transfers[0][0].end.si() == doctest::Approx(2));
    CHECK_THROWS_AS(
        (void)picture_of_textbook(test::make_order("1f1b", 2, 1), run.schedule, run.result.timeline),
        std::logic_error);
  }
}
