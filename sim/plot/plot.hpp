// Plots as SVG: grouped bars, lines, a heat map, a scatter with its Pareto front. Figures come in the unit
// that the axis' label names; nothing is scaled here. Colours follow the reader's light or dark setting;
// equal plots are equal bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace syncline::plot {

struct Frame {
  std::string title;
  std::string x_label, y_label;  // with unit: "step time [ms]"
  std::string legend{};          // what the series differ in; stands before their names
};

/// A group of bars a category; a series is a colour. Bars begin at zero.
struct Bars {
  Frame frame;
  std::vector<std::string> categories;
  struct Series {
    std::string name;
    std::vector<std::optional<double>> values;  // by category; none: no bar
  };
  std::vector<Series> series;
};

struct Point {
  double x = 0, y = 0;
};

/// The y axis begins at zero unless all of it lies far from there. The x axis is logarithmic where `log_x`.
struct Lines {
  Frame frame;
  bool log_x = false;  // every x > 0
  struct Series {
    std::string name;
    std::vector<Point> points;  // by x
  };
  std::vector<Series> series;
};

/// A cell for each column (x) and row (y), coloured and with its figure in it.
struct HeatMap {
  Frame frame;
  std::string value_label;
  std::vector<std::string> columns, rows;
  std::vector<std::vector<std::optional<double>>> cells;  // [row][column]
};

struct Scatter {
  Frame frame;
  struct Series {
    std::string name;
    std::vector<Point> points;
    std::vector<std::string> labels;  // by point; shown when the pointer rests on it
  };
  std::vector<Series> series;
  std::vector<Point> front;  // by x; drawn as steps, with labels where there is room
  std::vector<std::string> front_labels;
};

[[nodiscard]] std::string to_svg(const Bars& plot);
[[nodiscard]] std::string to_svg(const Lines& plot);
[[nodiscard]] std::string to_svg(const HeatMap& plot);
[[nodiscard]] std::string to_svg(const Scatter& plot);

}  // namespace syncline::plot
