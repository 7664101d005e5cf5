#include "sim/sweep/pareto.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "sim/core/error.hpp"
#include "sim/report/metric_table.hpp"

namespace syncline::sweep {
namespace {

constexpr double Rounding = 1e-6;  // of a figure: what simulated times differ by without meaning anything

bool less(double one, double other) {
  return one < other - Rounding * std::abs(other);
}

bool dominates(const std::vector<double>& one, const std::vector<double>& other) {
  bool better = false;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (less(other[i], one[i])) return false;
    better = better || less(one[i], other[i]);
  }
  return better;
}

std::size_t index_of(const Sweep& sweep, const std::string& metric) {
  const auto found = std::ranges::find(sweep.metrics, metric);
  if (found == sweep.metrics.end())
    throw std::invalid_argument(unknown_name("metric of the sweep", metric, sweep.metrics));
  return static_cast<std::size_t>(found - sweep.metrics.begin());
}

}  // namespace

std::vector<std::size_t> pareto_front(const std::vector<std::vector<double>>& points) {
  std::vector<std::size_t> order(points.size()), front;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return points[a] < points[b]; });
  // Whatever dominates a point stands before it, and something on the front dominates what a dominated point
  // does.
  for (const std::size_t point : order)
    if (std::ranges::none_of(front,
                             [&](std::size_t other) { return dominates(points[other], points[point]); }))
      front.push_back(point);
  // Where figures are equal but for rounding, what dominates may stand behind.
  const std::vector<std::size_t> all = front;
  std::erase_if(front, [&](std::size_t point) {
    return std::ranges::any_of(all,
                               [&](std::size_t other) { return dominates(points[other], points[point]); });
  });
  return front;
}

std::vector<std::size_t> pareto_rows(const Sweep& sweep, const std::vector<Row>& rows,
                                     const std::vector<std::string>& metrics) {
  std::vector<std::size_t> known;
  std::vector<std::vector<double>> points;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<double> point;
    for (const std::string& metric : metrics)
      if (const auto& value = rows[i].values[index_of(sweep, metric)])
        point.push_back(find_metric(metric).better == Better::More ? -*value : *value);
    if (point.size() < metrics.size()) continue;
    known.push_back(i);
    points.push_back(std::move(point));
  }
  std::vector<std::size_t> front;
  for (const std::size_t point : pareto_front(points)) front.push_back(known[point]);
  return front;
}

}  // namespace syncline::sweep
