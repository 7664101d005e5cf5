// What all plots are drawn with: a picture with title, legend and axes, to which marks are added.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sim/plot/plot.hpp"
#include "sim/plot/ticks.hpp"

namespace syncline::plot {

/// The area inside the axes, in pixels; y grows downwards.
struct Area {
  double left = 0, top = 0, right = 0, bottom = 0;
  [[nodiscard]] double width() const { return right - left; }
  [[nodiscard]] double height() const { return bottom - top; }
};

/// From figures to pixels.
struct Scale {
  Range figures;
  double from = 0, to = 0;  // pixels of the range's ends
  bool logarithmic = false;
  [[nodiscard]] double operator()(double figure) const;
};

enum class Anchor { Start, Middle, End };

class Picture {
 public:
  /// @param legend  names of series, in the order of their colours; none is drawn for a single nameless one
  Picture(const Frame& frame, const std::vector<std::string>& legend);

  [[nodiscard]] const Area& area() const { return area_; }
  /// Room for more beside or below the axes.
  void keep_right(double pixels) { area_.right -= pixels; }
  void keep_below(double pixels) { area_.bottom -= pixels; }

  /// The y axis with its grid. Its ends are those of the ticks.
  Scale y_axis(Range range);
  Scale x_axis(Range range);
  /// An x axis whose ticks are at given figures, as many as have room.
  Scale x_axis_at(const std::vector<double>& figures, bool logarithmic);
  /// Names below equal parts of the axis; slanted where they are too wide.
  void x_names(const std::vector<std::string>& names);
  void y_names(const std::vector<std::string>& names);

  void rectangle(double x, double y, double width, double height, std::string_view fill,
                 std::string_view tip);
  void circle(Point at, double radius, std::string_view fill, std::string_view tip, bool ringed = false);
  /// @param colour  empty: that of text
  void polyline(const std::vector<Point>& points, std::string_view colour, std::string_view dash = "");
  void text(Point at, std::string_view text, Anchor anchor, std::string_view style = "");

  [[nodiscard]] std::string finish() const;

 private:
  void grid_line(Point from, Point to);
  void labels(const Frame& frame);
  void legend(const std::vector<std::string>& names);

  Frame frame_;
  Area area_;
  std::string body_;
};

/// Of the series at an index; the same again after eight, told apart by dashes in lines.
[[nodiscard]] std::string_view colour(std::size_t series);
[[nodiscard]] std::string_view dash(std::size_t series);

/// Pixels that a text takes, about.
[[nodiscard]] double text_width(std::string_view text);

/// The least and largest; {0, 1} of none.
[[nodiscard]] Range range_of(const std::vector<double>& figures);

}  // namespace syncline::plot
