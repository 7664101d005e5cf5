#include "sim/sweep/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "sim/core/error.hpp"
#include "sim/core/units.hpp"
#include "sim/plot/plot.hpp"
#include "sim/report/metric_table.hpp"
#include "sim/sweep/pareto.hpp"

namespace syncline::sweep {
namespace {

std::vector<std::string> path_names(const Sweep& sweep) {
  std::vector<std::string> names;
  for (const Path& path : paths_of(sweep)) names.push_back(path.path);
  return names;
}

template <class Names>
std::optional<std::size_t> index_in(const Names& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

void require(std::string_view flag, std::string_view what, const std::string& name,
             const std::vector<std::string>& known) {
  if (!index_in(known, name))
    throw InputError({Place{std::string(flag), 0, 0, ""}, unknown_name(what, name, known)});
}

std::string nth(const std::vector<std::string>& names, std::size_t n) {
  return n < names.size() ? names[n] : "";
}

/// How a metric is written along an axis.
struct Unit {
  double factor = 1;
  std::string label;  // "step time [ms]"
};

struct Prefix {
  double factor;
  std::string_view name;
};
constexpr std::array<Prefix, 8> Prefixes{
    {{1e-9, "n"}, {1e-6, "µ"}, {1e-3, "m"}, {1, ""}, {1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}}};

std::string_view base_unit(MetricUnit unit) {
  switch (unit) {
    case MetricUnit::Time: return "s";
    case MetricUnit::TokenRate: return "tokens/s";
    case MetricUnit::FlopRate: return "FLOP/s";
    case MetricUnit::Energy: return "J";
    case MetricUnit::Power: return "W";
    case MetricUnit::Money: return "USD";
    case MetricUnit::Size: return "B";
    default: return "";
  }
}

/// The prefix that leaves the largest figure at 1 or more, for units that take one.
Unit unit_of(const std::string& metric, const std::vector<Row>& rows, std::size_t index) {
  const MetricInfo& info = find_metric(metric);
  if (info.unit == MetricUnit::Share) return {100, fmt::format("{} [%]", info.label)};
  const std::string_view base = base_unit(info.unit);
  if (base.empty()) return {1, std::string(info.label)};
  double largest = 0;
  for (const Row& row : rows)
    if (row.values[index]) largest = std::max(largest, std::abs(*row.values[index]));
  const Prefix* best = &Prefixes[3];
  for (const Prefix& prefix : Prefixes)
    if (largest >= prefix.factor && (base != "tokens/s" || prefix.factor >= 1)) best = &prefix;
  return {1 / best->factor, fmt::format("{} [{}{}]", info.label, best->name, base)};
}

/// Rows by what stands along x and in which group, in the order of the sweep's points.
class Grid {
 public:
  Grid(const Sweep& sweep, const std::vector<Row>& rows, const PlotRequest& request)
      : metric_(*index_in(sweep.metrics, request.y)), unit_(unit_of(request.y, rows, metric_)) {
    const std::vector<std::string> paths = path_names(sweep);
    const std::size_t x = *index_in(paths, request.x);
    const std::optional<std::size_t> group = index_in(paths, request.group);
    for (const Row& row : rows) {
      const std::size_t column = place_in(columns_, row.labels[x]),
                        line = place_in(groups_, group ? row.labels[*group] : "");
      const auto& value = row.values[metric_];
      if (value) cells_.push_back({line, column, *value * unit_.factor});
    }
  }

  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  [[nodiscard]] const std::vector<std::string>& groups() const { return groups_; }
  [[nodiscard]] const std::string& label() const { return unit_.label; }

  /// Means, [group][column].
  [[nodiscard]] std::vector<std::vector<std::optional<double>>> means() const {
    std::vector<std::vector<double>> sum(groups_.size(), std::vector<double>(columns_.size(), 0)),
        count = sum;
    for (const Cell& cell : cells_)
      sum[cell.group][cell.column] += cell.value, count[cell.group][cell.column] += 1;
    std::vector<std::vector<std::optional<double>>> means(
        groups_.size(), std::vector<std::optional<double>>(columns_.size()));
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t c = 0; c < columns_.size(); ++c)
        if (count[g][c] > 0) means[g][c] = sum[g][c] / count[g][c];
    return means;
  }

 private:
  struct Cell {
    std::size_t group, column;
    double value;
  };
  static std::size_t place_in(std::vector<std::string>& names, const std::string& name) {
    if (const auto there = index_in(names, name)) return *there;
    names.push_back(name);
    return names.size() - 1;
  }

  std::size_t metric_;
  Unit unit_;
  std::vector<std::string> columns_, groups_;
  std::vector<Cell> cells_;
};

plot::Frame frame_of(const Sweep& sweep, std::string x, std::string y, std::string group) {
  const std::string name = std::filesystem::path(sweep.file).stem().string();
  return {sweep.question.empty() ? name : sweep.question, std::move(x), std::move(y), std::move(group)};
}

/// A label as a figure: "8", "400Gbps" by its number. Nothing when it begins with none.
std::optional<double> number_of(const std::string& label) {
  try {
    std::size_t end = 0;
    const double value = std::stod(label, &end);
    if (std::isfinite(value)) return value;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

/// What follows the number; the same in all labels that stand along one axis.
std::string unit_in(const std::string& label) {
  return label.substr(std::min(label.find_first_not_of("0123456789.+-eE "), label.size()));
}

std::vector<double> numbers_of(const std::vector<std::string>& labels, const std::string& path) {
  std::vector<double> numbers;
  for (const std::string& label : labels) {
    const std::optional<double> number = number_of(label);
    if (!number || unit_in(label) != unit_in(labels.front()))
      throw InputError({Place{"--kind lines", 0, 0, ""},
                        fmt::format("lines need numbers of one unit along x; {} has {} and {}; ask for bars",
                                    path, labels.front(), label)});
    numbers.push_back(*number);
  }
  return numbers;
}

/// Doubling steps are evenly apart on a logarithmic axis only.
bool spans_decades(const std::vector<double>& numbers) {
  const auto [low, high] = std::ranges::minmax(numbers);
  return numbers.size() > 2 && low > 0 && high >= 8 * low;
}

std::string draw_bars(const Sweep& sweep, const std::vector<Row>& rows, const PlotRequest& request) {
  const Grid grid(sweep, rows, request);
  plot::Bars bars{frame_of(sweep, request.x, grid.label(), request.group), grid.columns(), {}};
  const auto means = grid.means();
  for (std::size_t g = 0; g < means.size(); ++g) bars.series.push_back({grid.groups()[g], means[g]});
  return to_svg(bars);
}

std::string draw_lines(const Sweep& sweep, const std::vector<Row>& rows, const PlotRequest& request) {
  const Grid grid(sweep, rows, request);
  const std::vector<double> xs = numbers_of(grid.columns(), request.x);
  const std::string unit = grid.columns().empty() ? "" : unit_in(grid.columns().front());
  plot::Lines lines{frame_of(sweep, unit.empty() ? request.x : fmt::format("{} [{}]", request.x, unit),
                             grid.label(), request.group),
                    spans_decades(xs),
                    {}};
  const auto means = grid.means();
  for (std::size_t g = 0; g < means.size(); ++g) {
    plot::Lines::Series series{grid.groups()[g], {}};
    for (std::size_t c = 0; c < xs.size(); ++c)
      if (means[g][c]) series.points.push_back({xs[c], *means[g][c]});
    std::ranges::sort(series.points, {}, &plot::Point::x);
    lines.series.push_back(std::move(series));
  }
  return to_svg(lines);
}

std::string draw_heat(const Sweep& sweep, const std::vector<Row>& rows, const PlotRequest& request) {
  const Grid grid(sweep, rows, request);
  return to_svg(plot::HeatMap{frame_of(sweep, request.x, request.group, ""), grid.label(), grid.columns(),
                              grid.groups(), grid.means()});
}

std::string draw_pareto(const Sweep& sweep, const std::vector<Row>& rows, const PlotRequest& request) {
  const std::size_t x = *index_in(sweep.metrics, request.x), y = *index_in(sweep.metrics, request.y);
  const Unit x_unit = unit_of(request.x, rows, x), y_unit = unit_of(request.y, rows, y);
  const auto group = index_in(path_names(sweep), request.group);
  const auto point_of = [&](const Row& row) {
    return plot::Point{*row.values[x] * x_unit.factor, *row.values[y] * y_unit.factor};
  };
  const auto name_of = [](const Row& row) { return fmt::format("{}", fmt::join(row.labels, ", ")); };

  plot::Scatter scatter{frame_of(sweep, x_unit.label, y_unit.label, request.group), {}, {}, {}};
  std::vector<std::string> groups;
  for (const Row& row : rows) {
    if (!row.values[x] || !row.values[y]) continue;
    const std::string name = group ? row.labels[*group] : "";
    if (!index_in(groups, name)) groups.push_back(name), scatter.series.push_back({name, {}, {}});
    plot::Scatter::Series& series = scatter.series[*index_in(groups, name)];
    series.points.push_back(point_of(row));
    series.labels.push_back(name_of(row));
  }
  for (const std::size_t row : pareto_rows(sweep, rows, {request.x, request.y})) {
    scatter.front.push_back(point_of(rows[row]));
    scatter.front_labels.push_back(name_of(rows[row]));
  }
  return to_svg(scatter);
}

struct Kind {
  std::string_view name;
  bool of_metrics;  // along x, too
  bool needs_group;
  std::string (*draw)(const Sweep&, const std::vector<Row>&, const PlotRequest&);
};
constexpr std::array<Kind, 4> Kinds{{{"bars", false, false, draw_bars},
                                     {"lines", false, false, draw_lines},
                                     {"heat", false, true, draw_heat},
                                     {"pareto", true, false, draw_pareto}}};

const Kind& find_kind(const std::string& name) {
  return *std::ranges::find(Kinds, name, &Kind::name);
}

}  // namespace

std::vector<std::string> plot_kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : Kinds) names.emplace_back(kind.name);
  return names;
}

PlotRequest completed(const Sweep& sweep, PlotRequest request) {
  const std::vector<std::string> paths = path_names(sweep);
  if (request.kind.empty()) request.kind = Kinds.front().name;
  require("--kind", "kind of plot", request.kind, plot_kinds());
  const Kind& kind = find_kind(request.kind);
  const std::vector<std::string>& along_x = kind.of_metrics ? sweep.metrics : paths;
  if (kind.of_metrics && sweep.metrics.size() < 2)
    throw InputError({Place{"--kind", 0, 0, ""}, "a Pareto front is of two metrics; the sweep has one"});
  if (request.x.empty()) request.x = along_x.front();
  if (request.y.empty()) request.y = nth(sweep.metrics, kind.of_metrics ? 1 : 0);
  if (request.group.empty())
    for (const std::string& path : paths)
      if (path != request.x && path != "run.seed" && request.group.empty()) request.group = path;
  require("--x", kind.of_metrics ? "metric of the sweep" : "path of the sweep", request.x, along_x);
  require("--y", "metric of the sweep", request.y, sweep.metrics);
  if (!request.group.empty()) require("--group", "path of the sweep", request.group, paths);
  if (kind.needs_group && request.group.empty())
    throw InputError({Place{"--group", 0, 0, ""}, "a heat map is of two paths; the sweep has one"});
  return request;
}

std::string picture_of(const Sweep& sweep, const std::vector<Row>& rows, const PlotRequest& request) {
  return find_kind(request.kind).draw(sweep, rows, request);
}

}  // namespace syncline::sweep
