#include "sim/plot/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/report/text.hpp"

namespace syncline::plot {
namespace {

// Pixels.
constexpr double Width = 820, Height = 500;
constexpr double Margin = 16, TitleLine = 20, LegendRow = 22, AxisLabel = 24, TickLength = 5;
constexpr double YTicks = 66;  // room for the tick labels of the y axis
constexpr double CharacterWidth = 7.2;
constexpr std::size_t WidestTitle = 82;  // characters of a line; a longer title takes two
constexpr std::size_t WidestName = 26;   // characters; longer ones are cut, and whole in the tip

// Told apart with all common forms of colour blindness, on white and on black: Okabe and Ito (2008),
// jfly.uni-koeln.de/color, with grey for their yellow and black.
constexpr std::array<std::string_view, 8> Colours{"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                                  "#56b4e9", "#d55e00", "#8c8c8c", "#7a5cc0"};
constexpr std::array<std::string_view, 4> Dashes{"", "6 3", "2 3", "8 3 2 3"};

// No CSS variables: many programs that show SVG do not know them. Those without media queries show the light
// form.
constexpr std::string_view Style = R"(<style>
  text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .small { font-size: 12px; } .pale { fill: #ffffff; } .dark { fill: #111111; }
  .paper { fill: #ffffff; } .grid { stroke: #d8dce0; } .axis, .ring { stroke: #1f2328; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .pale { fill: #ffffff; } .dark { fill: #111111; }
    .paper { fill: #0d1117; } .grid { stroke: #3a414a; } .axis, .ring { stroke: #e6edf3; }
  }
</style>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  return out;
}

/// A tenth of a pixel is finer than anybody sees.
std::string px(double pixels) {
  std::string text = fmt::format("{:.1f}", pixels);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

/// Broken at a blank where it is too wide for one line.
std::vector<std::string> lines_of_title(const std::string& title) {
  if (width(title) <= WidestTitle) return {title};
  const std::size_t blank = title.rfind(' ', WidestTitle);
  if (blank == std::string::npos || blank == 0) return {clipped(title, WidestTitle)};
  return {title.substr(0, blank), clipped(title.substr(blank + 1), WidestTitle)};
}

std::string_view word(Anchor anchor) {
  constexpr std::array<std::string_view, 3> Words{"start", "middle", "end"};
  return Words[static_cast<std::size_t>(anchor)];
}

std::string tip_of(std::string_view tip) {
  return tip.empty() ? "" : fmt::format("<title>{}</title>", escaped(tip));
}

}  // namespace

double Scale::operator()(double figure) const {
  const auto at = [this](double value) { return logarithmic ? std::log(value) : value; };
  const double span = at(figures.high) - at(figures.low);
  return from + (to - from) * (span == 0 ? 0.5 : (at(figure) - at(figures.low)) / span);
}

std::string_view colour(std::size_t series) {
  return Colours[series % Colours.size()];
}
std::string_view dash(std::size_t series) {
  return Dashes[series / Colours.size() % Dashes.size()];
}

double text_width(std::string_view text) {
  return CharacterWidth * static_cast<double>(width(text));
}

Range range_of(const std::vector<double>& figures) {
  if (figures.empty()) return {};
  const auto [low, high] = std::ranges::minmax(figures);
  return {low, high};
}

Picture::Picture(const Frame& frame, const std::vector<std::string>& names)
    : frame_(frame),
      area_{Margin + AxisLabel + YTicks,
            Margin + 10 + TitleLine * static_cast<double>(lines_of_title(frame.title).size()),
            Width - Margin - 10, Height - Margin - 2 * AxisLabel} {
  if (names.size() > 1 || (names.size() == 1 && !names.front().empty())) legend(names);
}

void Picture::legend(const std::vector<std::string>& names) {
  double x = area_.left, y = area_.top;
  if (!frame_.legend.empty()) {
    text({x, y + 11}, frame_.legend + ":", Anchor::Start);
    x += text_width(frame_.legend) + 20;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = clipped(names[i], WidestName);
    const double wide = 20 + text_width(name) + 18;
    if (x + wide > Width - Margin && x > area_.left) x = area_.left, y += LegendRow;
    rectangle(x, y, 13, 13, colour(i), names[i]);
    text({x + 19, y + 11}, name, Anchor::Start);
    x += wide;
  }
  area_.top = y + LegendRow + 8;
}

void Picture::grid_line(Point from, Point to) {
  body_ += fmt::format("<line class=\"grid\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", px(from.x),
                       px(from.y), px(to.x), px(to.y));
}

Scale Picture::y_axis(Range range) {
  const std::vector<double> at = ticks(range);
  const Scale scale{{at.front(), at.back()}, area_.bottom, area_.top};
  for (const double tick : at) {
    grid_line({area_.left, scale(tick)}, {area_.right, scale(tick)});
    text({area_.left - TickLength - 3, scale(tick) + 4}, tick_text(tick), Anchor::End, "small");
  }
  return scale;
}

Scale Picture::x_axis(Range range) {
  const std::vector<double> at = ticks(range);
  const Scale scale{{at.front(), at.back()}, area_.left, area_.right};
  for (const double tick : at) {
    grid_line({scale(tick), area_.top}, {scale(tick), area_.bottom});
    text({scale(tick), area_.bottom + TickLength + 14}, tick_text(tick), Anchor::Middle, "small");
  }
  return scale;
}

Scale Picture::x_axis_at(const std::vector<double>& figures, bool logarithmic) {
  const double inset = figures.size() > 1 ? 0.03 * area_.width() : 0;
  const Scale scale{range_of(figures), area_.left + inset, area_.right - inset, logarithmic};
  double free_from = 0;  // ticks whose labels would touch are left out
  for (const double figure : figures) {
    const double x = scale(figure), half = text_width(tick_text(figure)) / 2 + 3;
    if (x - half < free_from) continue;
    free_from = x + half;
    grid_line({x, area_.top}, {x, area_.bottom});
    text({x, area_.bottom + TickLength + 14}, tick_text(figure), Anchor::Middle, "small");
  }
  return scale;
}

void Picture::x_names(const std::vector<std::string>& names) {
  const double part = area_.width() / static_cast<double>(std::max<std::size_t>(1, names.size()));
  double widest = 0;
  for (const std::string& name : names) widest = std::max(widest, text_width(clipped(name, WidestName)));
  const bool slanted = widest > part - 6;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Point at{area_.left + part * (static_cast<double>(i) + 0.5), area_.bottom + TickLength + 14};
    const std::string turn =
        slanted ? fmt::format(" transform=\"rotate(-30 {} {})\"", px(at.x), px(at.y)) : "";
    body_ += fmt::format("<text class=\"small\" x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}{}</text>\n",
                         px(at.x), px(at.y), slanted ? "end" : "middle", turn, tip_of(names[i]),
                         escaped(clipped(names[i], WidestName)));
  }
}

void Picture::y_names(const std::vector<std::string>& names) {
  const double part = area_.height() / static_cast<double>(std::max<std::size_t>(1, names.size()));
  for (std::size_t i = 0; i < names.size(); ++i)
    text({area_.left - TickLength - 3, area_.top + part * (static_cast<double>(i) + 0.5) + 4},
         clipped(names[i], WidestName), Anchor::End, "small");
}

void Picture::rectangle(double x, double y, double wide, double high, std::string_view fill,
                        std::string_view tip) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\">{}</rect>\n", px(x),
                       px(y), px(wide), px(high), fill, tip_of(tip));
}

void Picture::circle(Point at, double radius, std::string_view fill, std::string_view tip, bool ringed) {
  body_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"{}>{}</circle>\n", px(at.x), px(at.y),
                       px(radius), fill, ringed ? " class=\"ring\" stroke-width=\"2\"" : "", tip_of(tip));
}

void Picture::polyline(const std::vector<Point>& points, std::string_view stroke, std::string_view dashes) {
  const std::string paint = stroke.empty() ? "class=\"axis\"" : fmt::format("stroke=\"{}\"", stroke);
  std::string list;
  for (const Point& point : points)
    list += fmt::format("{}{},{}", list.empty() ? "" : " ", px(point.x), px(point.y));
  body_ += fmt::format("<polyline points=\"{}\" fill=\"none\" {} stroke-width=\"2\"{}/>\n", list, paint,
                       dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes));
}

void Picture::text(Point at, std::string_view words, Anchor anchor, std::string_view style) {
  body_ += fmt::format("<text{} x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
                       style.empty() ? "" : fmt::format(" class=\"{}\"", style), px(at.x), px(at.y),
                       word(anchor), escaped(words));
}

std::string Picture::finish() const {
  const double middle = (area_.top + area_.bottom) / 2, label_x = Margin + 8;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\">\n",
      px(Width), px(Height));
  out += fmt::format("<title>{}</title>\n{}", escaped(frame_.title), Style);
  out += "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n";
  double y = Margin + 14;
  for (const std::string& line : lines_of_title(frame_.title)) {
    out +=
        fmt::format("<text class=\"title\" x=\"{}\" y=\"{}\">{}</text>\n", px(Margin), px(y), escaped(line));
    y += TitleLine;
  }
  out += body_;
  out += fmt::format("<path class=\"axis\" fill=\"none\" d=\"M{0} {1}V{2}H{3}\"/>\n", px(area_.left),
                     px(area_.top), px(area_.bottom), px(area_.right));
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     px((area_.left + area_.right) / 2), px(Height - Margin / 2), escaped(frame_.x_label));
  out += fmt::format(
      "<text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\" transform=\"rotate(-90 {0} {1})\">{2}</text>\n",
      px(label_x), px(middle), escaped(frame_.y_label));
  return out + "</svg>\n";
}

}  // namespace syncline::plot
