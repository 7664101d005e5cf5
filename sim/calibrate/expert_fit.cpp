#include "sim/calibrate/expert_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/calibrate/minimise.hpp"
#include "sim/core/units.hpp"

namespace syncline::calibrate {
namespace {

using moe::DispatchFigures;
using Rows = std::vector<const ExpertRow*>;

constexpr double Blunt = 0.03;   // errors below are noise
constexpr double Pull = 0.03;    // to usual values
constexpr int RowsOfARate = 20;  // to tell a rate between so many nodes
constexpr int RowsOfAPeer = 8;   // for a fit to be asked by others of its family
constexpr int Descents = 8;
constexpr double Farthest = 12;                           // of a figure from its usual value, as a logarithm
constexpr double InsideShare = 0.75, BetweenShare = 0.9;  // of data-sheet rates, that libraries usually reach

/// A figure that is fitted as its logarithm.
struct Figure {
  double usual = 0;    // SI units; 0: not fitted, and left as it is
  double width = 1;    // of the pull to it
  double highest = 0;  // 0: no bound
};

/// Times first, in the order of `Times`; then the lane, the rate inside, and those between nodes.
struct Figures {
  std::vector<Figure> times;
  Figure lane, inside;
  std::vector<Figure> between;
  std::vector<int> nodes;  // of those between
};

struct TimeFigure {
  Seconds DispatchFigures::*figure;
  double usual;  // s
  double width;
};
// Usual values: rounded ones of kernels on Hopper GPUs, of which a few rows make others.
constexpr TimeFigure Times[]{{&DispatchFigures::call, 20e-6, 1},   {&DispatchFigures::far, 10e-6, 1},
                             {&DispatchFigures::rank, 0.1e-6, 1},  {&DispatchFigures::node, 4e-6, 1},
                             {&DispatchFigures::expert, 10e-9, 1}, {&DispatchFigures::token, 2e-9, 1.5},
                             {&DispatchFigures::copy, 100e-9, 1}};
constexpr double UsualLane = 22e9, LaneWidth = 0.5, InsideWidth = 0.4, BetweenWidth = 0.2;

enum TimeIndex : std::size_t { Call, Far, PerRank, PerNode, PerExpert, PerToken, PerCopy };

bool any(const Rows& rows, bool (*holds)(const moe::DispatchLoad&)) {
  return std::ranges::any_of(rows, [&](const ExpertRow* row) { return holds(row->load); });
}

/// The numbers of nodes that have a rate of their own; one stands for all where they have not.
std::vector<int> nodes_with_rates(const Rows& rows) {
  std::map<int, int> counts;
  for (const ExpertRow* row : rows)
    if (row->load.nodes > 1) ++counts[row->load.nodes];
  std::vector<int> nodes;
  for (const auto& [number, count] : counts)
    if (count >= RowsOfARate) nodes.push_back(number);
  if (nodes.size() < 2 && !counts.empty()) nodes.assign(1, counts.begin()->first);
  return nodes;
}

/// What can be told from the rows, with usual values as far as no other library is asked.
Figures figures_of(const ExpertLibrary& library, const ExpertKernel& kernel, const Rows& rows) {
  Figures figures;
  for (const TimeFigure& time : Times) figures.times.push_back({time.usual, time.width, 0});
  const auto guess = [](Figure& figure, const auto& value) {
    if (value) figure.usual = value->si();
  };
  guess(figures.times[Call], kernel.guess.call);
  guess(figures.times[PerNode], kernel.guess.node);
  guess(figures.times[PerCopy], kernel.guess.copy);
  const bool several = any(rows, [](const auto& load) { return load.nodes > 1; });
  const bool one = any(rows, [](const auto& load) { return load.nodes == 1; });
  if (!several) figures.times[PerNode].usual = 0;
  if (!several || !one) figures.times[Far].usual = 0;
  if (any(rows, [](const auto& load) { return load.lanes > 0; }))
    figures.lane = {UsualLane, LaneWidth, 0};
  else
    figures.times[PerCopy].usual = 0;
  if (!any(rows, [](const auto& load) { return load.moved > Bytes(0); })) figures.lane.usual = 0;
  if (any(rows, [](const auto& load) { return load.inside > Bytes(0); }))
    figures.inside = {InsideShare * library.link_inside.si(), InsideWidth, library.link_inside.si()};
  figures.nodes = nodes_with_rates(rows);
  Figure between{BetweenShare * library.link_between.si(), BetweenWidth, library.link_between.si()};
  guess(between, kernel.guess.between);
  figures.between.assign(figures.nodes.size(), between);
  return figures;
}

/// All that are fitted, in one order.
std::vector<Figure*> fitted(Figures& figures) {
  std::vector<Figure*> all;
  const auto add = [&all](Figure& figure) {
    if (figure.usual > 0) all.push_back(&figure);
  };
  for (Figure& figure : figures.times) add(figure);
  add(figures.lane);
  add(figures.inside);
  for (Figure& figure : figures.between) add(figure);
  return all;
}

/// @param logs  of the fitted ones, in the order of fitted()
DispatchFigures with_values(const Figures& figures, std::span<const double> logs) {
  DispatchFigures out;
  std::size_t next = 0;
  const auto value = [&](const Figure& figure) { return figure.usual > 0 ? std::exp(logs[next++]) : 0; };
  for (std::size_t i = 0; i < figures.times.size(); ++i)
    out.*Times[i].figure = Seconds(value(figures.times[i]));
  if (figures.lane.usual > 0) out.lane = BytesPerSecond(value(figures.lane));
  if (figures.inside.usual > 0) out.inside = BytesPerSecond(value(figures.inside));
  for (std::size_t i = 0; i < figures.nodes.size(); ++i)
    out.between.push_back({figures.nodes[i], BytesPerSecond(value(figures.between[i]))});
  return out;
}

double misfit(const DispatchFigures& figures, const Rows& rows) {
  double sum = 0;
  for (const ExpertRow* row : rows) {
    const double off = std::log(moe::dispatch_time(figures, row->load).total() / row->measured);
    sum += std::sqrt(off * off + Blunt * Blunt) - Blunt;
  }
  return sum;
}

DispatchFigures fit(Figures figures, const Rows& rows) {
  const std::vector<Figure*> all = fitted(figures);
  std::vector<Unknown> unknowns;
  for (const Figure* figure : all) {
    const double usual = std::log(figure->usual);
    const double highest = figure->highest > 0 ? std::log(figure->highest) : usual + Farthest;
    unknowns.push_back({usual, figure->width / 2, usual - Farthest, highest});
  }
  const auto objective = [&](std::span<const double> logs) {
    double pull = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double off = (logs[i] - unknowns[i].start) / all[i]->width;
      pull += off * off;
    }
    return misfit(with_values(figures, logs), rows) + Pull * pull;
  };
  return with_values(figures, minimise(objective, unknowns, Descents));
}

// --- many libraries ---

/// Library, kernel, operation.
using Key = std::tuple<std::size_t, std::size_t, DispatchOp>;
using Groups = std::map<Key, Rows>;

Groups grouped(std::span<const ExpertRow> rows) {
  Groups groups;
  for (const ExpertRow& row : rows)
    if (!row.stands_in) groups[{row.library, row.kernel, row.op}].push_back(&row);
  return groups;
}

bool alike(const std::vector<ExpertLibrary>& libraries, const Key& a, const Key& b) {
  const ExpertLibrary& one = libraries[std::get<0>(a)];
  const ExpertLibrary& other = libraries[std::get<0>(b)];
  return std::get<0>(a) != std::get<0>(b) && one.family == other.family &&
         one.kernels[std::get<1>(a)].name == other.kernels[std::get<1>(b)].name &&
         std::get<2>(a) == std::get<2>(b);
}

/// A geometric mean of the positive ones, weighted.
class Mean {
 public:
  void add(double value, double weight) {
    if (value <= 0) return;
    sum_ += weight * std::log(value);
    weights_ += weight;
  }
  void put_into(Figure& figure) const {
    if (figure.usual > 0 && weights_ > 0) figure.usual = std::exp(sum_ / weights_);
  }

 private:
  double sum_ = 0, weights_ = 0;
};

/// With latencies and lanes that others of the family have been found to have.
Figures figures_beside(const std::vector<ExpertLibrary>& libraries, const Groups& groups, const Key& key,
                       const std::map<Key, DispatchFigures>& found) {
  const ExpertLibrary& library = libraries[std::get<0>(key)];
  Figures figures = figures_of(library, library.kernels[std::get<1>(key)], groups.at(key));
  std::vector<Mean> times(figures.times.size());
  Mean lane;
  for (const auto& [other, its] : found) {
    const std::size_t rows = groups.at(other).size();
    if (!alike(libraries, key, other) || rows < RowsOfAPeer) continue;
    const double weight = std::sqrt(static_cast<double>(rows));
    for (std::size_t i = 0; i < times.size(); ++i) times[i].add((its.*Times[i].figure).si(), weight);
    if (its.lane) lane.add(its.lane->si(), weight);
  }
  for (std::size_t i = 0; i < times.size(); ++i) times[i].put_into(figures.times[i]);
  lane.put_into(figures.lane);
  return figures;
}

std::map<Key, Figures> second_round(const std::vector<ExpertLibrary>& libraries, const Groups& groups) {
  std::map<Key, DispatchFigures> first;
  for (const auto& [key, rows] : groups) {
    const ExpertLibrary& library = libraries[std::get<0>(key)];
    first[key] = fit(figures_of(library, library.kernels[std::get<1>(key)], rows), rows);
  }
  std::map<Key, Figures> all;
  for (const auto& [key, rows] : groups) all[key] = figures_beside(libraries, groups, key, first);
  return all;
}

// --- figures for files ---

/// To three digits, as a file says it.
Seconds rounded(Seconds time) {
  const bool tiny = time.si() < 1e-6;
  return parse_seconds(fmt::format(
      "{:.4g}{}", parse_number(fmt::format("{:.3g}", time.si() * (tiny ? 1e9 : 1e6))), tiny ? "ns" : "us"));
}
BytesPerSecond rounded(BytesPerSecond rate) {
  return parse_bytes_per_second(
      fmt::format("{:.4g}GBps", parse_number(fmt::format("{:.3g}", rate.si() / 1e9))));
}

void round_figures(DispatchFigures& figures) {
  for (const TimeFigure& time : Times)
    if (figures.*time.figure > Seconds(0)) figures.*time.figure = rounded(figures.*time.figure);
  if (figures.lane) figures.lane = rounded(*figures.lane);
  if (figures.inside) figures.inside = rounded(*figures.inside);
  for (moe::NodeRate& one : figures.between) one.rate = rounded(one.rate);
}

double mean_error(const DispatchFigures& figures, const Rows& rows) {
  double sum = 0;
  for (const ExpertRow* row : rows)
    sum += std::abs(moe::dispatch_time(figures, row->load).total() / row->measured - 1);
  return sum / static_cast<double>(rows.size());
}

}  // namespace

std::optional<Seconds> predict(const ExpertRow& row, std::span<const ExpertLibrary> libraries) {
  const OperationFigures* figures = libraries[row.library].kernels[row.kernel].find(row.op);
  if (figures == nullptr) return std::nullopt;
  return moe::dispatch_time(figures->figures, row.load).total();
}

void fit_experts(std::vector<ExpertLibrary>& libraries, std::span<const ExpertRow> rows) {
  const Groups groups = grouped(rows);
  const std::map<Key, Figures> usual = second_round(libraries, groups);
  for (ExpertLibrary& library : libraries)
    for (ExpertKernel& kernel : library.kernels) kernel.figures.clear();
  for (const auto& [key, its] : groups) {
    const auto& [library, kernel, op] = key;
    OperationFigures found{op, fit(usual.at(key), its), static_cast<int>(its.size()), 0};
    round_figures(found.figures);
    found.error = parse_number(fmt::format("{:.3f}", mean_error(found.figures, its)));
    libraries[library].kernels[kernel].figures.push_back(std::move(found));
  }
}

std::vector<std::optional<Seconds>> predict_held_out(std::vector<ExpertLibrary> libraries,
                                                     std::span<const ExpertRow> rows) {
  const Groups groups = grouped(rows);
  const std::map<Key, Figures> usual = second_round(libraries, groups);
  std::vector<std::optional<Seconds>> predicted(rows.size());
  for (const auto& [key, its] : groups) {
    std::set<std::string> series;
    for (const ExpertRow* row : its) series.insert(row->series);
    for (const std::string& out : series) {
      Rows others;
      std::ranges::copy_if(its, std::back_inserter(others),
                           [&](const ExpertRow* row) { return row->series != out; });
      const DispatchFigures figures = fit(usual.at(key), others);
      for (const ExpertRow* row : its)
        if (row->series == out)
          predicted[static_cast<std::size_t>(row - rows.data())] =
              moe::dispatch_time(figures, row->load).total();
    }
  }
  return predicted;
}

}  // namespace syncline::calibrate
