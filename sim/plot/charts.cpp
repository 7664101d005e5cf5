// The four plots, each a few lines over the picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/plot/svg.hpp"

namespace syncline::plot {
namespace {

template <class Series>
std::vector<std::string> names_of(const std::vector<Series>& series) {
  std::vector<std::string> names;
  for (const Series& one : series) names.push_back(one.name);
  return names;
}

/// Room below for names that are slanted when they are wider than their part of the axis.
double room_for(const std::vector<std::string>& names, double width) {
  double widest = 0;
  for (const std::string& name : names) widest = std::max(widest, std::min(text_width(name), 190.0));
  return widest > width / static_cast<double>(std::max<std::size_t>(1, names.size())) - 6 ? widest / 2 : 0;
}

template <class Series>
std::vector<double> figures(const std::vector<Series>& series, double Point::*part) {
  std::vector<double> all;
  for (const Series& one : series)
    for (const Point& point : one.points) all.push_back(point.*part);
  return all;
}

struct Colour {
  double red, green, blue;
};

/// From dark blue to light yellow, evenly lighter (after the map cividis: Nuñez, Anderton and Renslow, PLOS
/// ONE 13 (2018)).
Colour shade(double share) {
  constexpr Colour Low{0, 34, 78}, Middle{124, 123, 120}, High{254, 232, 56};
  const Colour &from = share < 0.5 ? Low : Middle, &to = share < 0.5 ? Middle : High;
  const double part = share < 0.5 ? 2 * share : 2 * share - 1;
  return {std::lerp(from.red, to.red, part), std::lerp(from.green, to.green, part),
          std::lerp(from.blue, to.blue, part)};
}

std::string hex(const Colour& colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", std::lround(colour.red), std::lround(colour.green),
                     std::lround(colour.blue));
}

std::string short_figure(double value) {
  return fmt::format("{:.4g}", value);
}

/// The scale of colours beside a heat map.
void colour_bar(Picture& picture, const std::string& label, Range range) {
  const Area& area = picture.area();
  constexpr int Steps = 24;
  const double x = area.right + 18, step = area.height() / Steps;
  for (int i = 0; i < Steps; ++i)
    picture.rectangle(x, area.bottom - step * (i + 1), 14, step + 0.5, hex(shade((i + 0.5) / Steps)), "");
  picture.text({x + 20, area.bottom}, short_figure(range.low), Anchor::Start, "small");
  picture.text({x + 20, area.top + 10}, short_figure(range.high), Anchor::Start, "small");
  picture.text({area.right + 90, area.top - 10}, label, Anchor::End, "small");
}

}  // namespace

std::string to_svg(const Bars& plot) {
  Picture picture(plot.frame, names_of(plot.series));
  picture.keep_below(room_for(plot.categories, picture.area().width()));
  std::vector<double> all{0};
  for (const Bars::Series& series : plot.series)
    for (const auto& value : series.values)
      if (value) all.push_back(*value);
  const Scale y = picture.y_axis(range_of(all));
  picture.x_names(plot.categories);

  const double group =
      picture.area().width() / static_cast<double>(std::max<std::size_t>(1, plot.categories.size()));
  const double bar = 0.8 * group / static_cast<double>(std::max<std::size_t>(1, plot.series.size()));
  for (std::size_t s = 0; s < plot.series.size(); ++s)
    for (std::size_t c = 0; c < plot.series[s].values.size(); ++c) {
      const auto& value = plot.series[s].values[c];
      if (!value) continue;
      const double x =
          picture.area().left + group * (static_cast<double>(c) + 0.1) + bar * static_cast<double>(s);
      const std::string tip =
          fmt::format("{}{}{}: {}", plot.categories[c], plot.series[s].name.empty() ? "" : ", ",
                      plot.series[s].name, short_figure(*value));
      picture.rectangle(x, std::min(y(*value), y(0)), bar * 0.94, std::abs(y(0) - y(*value)), colour(s), tip);
    }
  return picture.finish();
}

std::string to_svg(const Lines& plot) {
  Picture picture(plot.frame, names_of(plot.series));
  std::vector<double> xs = figures(plot.series, &Point::x);
  std::ranges::sort(xs);
  xs.erase(std::unique(xs.begin(), xs.end()), xs.end());
  const Scale y = picture.y_axis(with_zero(range_of(figures(plot.series, &Point::y))));
  const Scale x = picture.x_axis_at(xs, plot.log_x);
  for (std::size_t s = 0; s < plot.series.size(); ++s) {
    std::vector<Point> path;
    for (const Point& point : plot.series[s].points) path.push_back({x(point.x), y(point.y)});
    picture.polyline(path, colour(s), dash(s));
    for (std::size_t i = 0; i < path.size(); ++i) {
      const Point& point = plot.series[s].points[i];
      picture.circle(path[i], 3.5, colour(s),
                     fmt::format("{}{}{}: {}", plot.series[s].name, plot.series[s].name.empty() ? "" : ", ",
                                 short_figure(point.x), short_figure(point.y)));
    }
  }
  return picture.finish();
}

std::string to_svg(const HeatMap& plot) {
  Picture picture(plot.frame, {});
  picture.keep_below(room_for(plot.columns, picture.area().width()));
  picture.keep_right(100);
  std::vector<double> all;
  for (const auto& row : plot.cells)
    for (const auto& value : row)
      if (value) all.push_back(*value);
  const Range range = range_of(all);
  const Area& area = picture.area();
  const double wide = area.width() / static_cast<double>(std::max<std::size_t>(1, plot.columns.size()));
  const double high = area.height() / static_cast<double>(std::max<std::size_t>(1, plot.rows.size()));
  for (std::size_t r = 0; r < plot.cells.size(); ++r)
    for (std::size_t c = 0; c < plot.cells[r].size(); ++c) {
      const auto& value = plot.cells[r][c];
      if (!value) continue;
      const double share = range.high > range.low ? (*value - range.low) / (range.high - range.low) : 0.5;
      const double x = area.left + wide * static_cast<double>(c),
                   y = area.top + high * static_cast<double>(r);
      picture.rectangle(x + 1, y + 1, wide - 2, high - 2, hex(shade(share)),
                        fmt::format("{}, {}: {}", plot.columns[c], plot.rows[r], short_figure(*value)));
      const std::string figure = short_figure(*value);
      if (text_width(figure) < wide - 4 && high > 15)
        picture.text({x + wide / 2, y + high / 2 + 4}, figure, Anchor::Middle,
                     share < 0.55 ? "small pale" : "small dark");
    }
  picture.x_names(plot.columns);
  picture.y_names(plot.rows);
  colour_bar(picture, plot.value_label, range);
  return picture.finish();
}

std::string to_svg(const Scatter& plot) {
  std::vector<std::string> names = names_of(plot.series);
  Picture picture(plot.frame, names);
  const Scale y = picture.y_axis(with_zero(range_of(figures(plot.series, &Point::y))));
  const Scale x = picture.x_axis(with_zero(range_of(figures(plot.series, &Point::x))));
  std::vector<Point> steps;
  for (const Point& point : plot.front) {
    if (!steps.empty()) steps.push_back({x(point.x), steps.back().y});
    steps.push_back({x(point.x), y(point.y)});
  }
  if (!steps.empty()) picture.polyline(steps, "", "5 4");
  const auto on_front = [&](const Point& point) {
    return std::ranges::any_of(plot.front,
                               [&](const Point& it) { return it.x == point.x && it.y == point.y; });
  };
  for (std::size_t s = 0; s < plot.series.size(); ++s)
    for (std::size_t i = 0; i < plot.series[s].points.size(); ++i) {
      const Point& point = plot.series[s].points[i];
      picture.circle({x(point.x), y(point.y)}, on_front(point) ? 6 : 4, colour(s), plot.series[s].labels[i],
                     on_front(point));
    }
  std::vector<Point> labelled;  // where labels stand; one that would lie on another is left to the tip
  for (std::size_t i = 0; i < plot.front.size(); ++i) {
    const Point at{x(plot.front[i].x), y(plot.front[i].y)};
    const double wide = text_width(plot.front_labels[i]);
    const auto hidden = [&](const Point& it) {
      return std::abs(it.y - at.y) < 14 && std::abs(it.x - at.x) < wide + 18;
    };
    if (std::ranges::any_of(labelled, hidden)) continue;
    labelled.push_back(at);
    const bool room = at.x + 9 + wide < picture.area().right;
    picture.text({at.x + (room ? 9 : -9), at.y - 8}, plot.front_labels[i], room ? Anchor::Start : Anchor::End,
                 "small");
  }
  return picture.finish();
}

}  // namespace syncline::plot
