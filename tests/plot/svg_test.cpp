#include "sim/plot/svg.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/text.hpp"

using namespace syncline::plot;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

using syncline::test::contains;

/// Every element is closed, and no text breaks out of its own.
void check_well_formed(const std::string& svg) {
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(svg.ends_with("</svg>\n"));
  for (const std::string name : {"text", "rect", "circle", "style", "title"}) {
    CAPTURE(name);
    const std::size_t empty = name == "rect" ? count(svg, "height=\"100%\"/>") : 0;  // the paper
    CHECK(count(svg, "<" + name + " ") + count(svg, "<" + name + ">") ==
          count(svg, "</" + name + ">") + empty);
  }
  CHECK_FALSE(contains(svg, "nan"));
  CHECK_FALSE(contains(svg, "inf"));
}

const Frame SomeFrame{"how fast?", "ranks", "step time [ms]", "fabric"};

}  // namespace

TEST_SUITE("plot: SVG") {
  TEST_CASE("bars are as high as their values, and begin at zero") {
    const std::string svg =
        to_svg(Bars{SomeFrame, {"8", "16"}, {{"ring", {10, 5}}, {"tree", {std::nullopt, 10}}}});
    check_well_formed(svg);
    // The axis is 0 to 10, so a bar of 10 is the area and one of 5 half of it.
    const Picture same(SomeFrame, {"ring", "tree"});
    const double high = same.area().height();
    CHECK(count(svg, "height=\"" + std::to_string(static_cast<int>(high)) + "\"") == 2);
    CHECK(count(svg, "height=\"" + std::to_string(static_cast<int>(high / 2)) + "\"") == 1);
    for (const std::string part :
         {"how fast?", "ranks", "step time [ms]", "fabric:", "ring", "tree", "16, tree: 10"})
      CHECK_MESSAGE(contains(svg, part), part);
  }

  TEST_CASE("doubling steps are evenly apart on a logarithmic axis") {
    const Scale scale{{1, 16}, 0, 400, true};
    for (int i = 0; i <= 4; ++i) CHECK(scale(1 << i) == doctest::Approx(100.0 * i));
    CHECK(Scale{{1, 17}, 0, 400}(5) == doctest::Approx(100));
  }

  TEST_CASE("lines have a mark at every point, and a tick for every x that has room") {
    Lines lines{SomeFrame, true, {{"a", {{1, 2}, {2, 3}, {4, 5}}}, {"b", {{1, 1}, {4, 1}}}}};
    const std::string svg = to_svg(lines);
    check_well_formed(svg);
    CHECK(count(svg, "<circle") == 5);
    CHECK(count(svg, "<polyline") == 2);
    for (int i = 0; i < 1000; ++i) lines.series[1].points.push_back({5.0 + i, 1});
    CHECK(count(to_svg(lines), "class=\"small\"") < 60);
  }

  TEST_CASE("a heat map leaves cells without a figure empty") {
    const std::string svg =
        to_svg(HeatMap{SomeFrame, "step time [ms]", {"1", "2"}, {"x", "y"}, {{1, 2}, {3, std::nullopt}}});
    check_well_formed(svg);
    CHECK(count(svg, "</title></rect>") == 3);
    CHECK(contains(svg, "2, x: 2"));
  }

  TEST_CASE("a front is drawn in steps, its points ringed, its labels not upon each other") {
    const Scatter scatter{SomeFrame,
                          {{"all", {{1, 9}, {5, 5}, {9, 1}, {9, 9}, {5, 5}}, {"a", "b", "c", "d", "e"}}},
                          {{1, 9}, {5, 5}, {5, 5}, {9, 1}},
                          {"first", "second", "third", "fourth"}};
    const std::string svg = to_svg(scatter);
    check_well_formed(svg);
    CHECK(count(svg, "<circle") == 5);
    CHECK(count(svg, "class=\"ring\"") == 4);
    CHECK(contains(svg, "second"));
    CHECK_FALSE(contains(svg, "third"));
  }

  TEST_CASE("names that are XML stay text") {
    const std::string svg = to_svg(Bars{{"a < b & \"c\"", "", ""}, {"<script>"}, {{"", {1}}}});
    check_well_formed(svg);
    CHECK(contains(svg, "a &lt; b &amp; &quot;c&quot;"));
    CHECK_FALSE(contains(svg, "<script>"));
  }

  TEST_CASE("plots of nothing are pictures") {
    check_well_formed(to_svg(Bars{}));
    check_well_formed(to_svg(Lines{}));
    check_well_formed(to_svg(HeatMap{}));
    check_well_formed(to_svg(Scatter{}));
  }
}
