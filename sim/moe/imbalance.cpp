#include "sim/moe/imbalance.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/core/error.hpp"

namespace syncline::moe {
namespace {

constexpr Imbalance LayerImbalance::*Levels[]{&LayerImbalance::experts, &LayerImbalance::ranks,
                                              &LayerImbalance::nodes};
constexpr double Imbalance::*Figures[]{&Imbalance::max_over_mean, &Imbalance::variation};

/// Sums of `places` runs of equal length.
std::vector<std::int64_t> sums(std::span<const std::int64_t> loads, int places) {
  std::vector<std::int64_t> sum(static_cast<std::size_t>(places));
  for (std::size_t i = 0; i < loads.size(); ++i) sum[i * sum.size() / loads.size()] += loads[i];
  return sum;
}

}  // namespace

Imbalance imbalance_of(std::span<const std::int64_t> loads) {
  double sum = 0, largest = 0, squares = 0;
  for (const std::int64_t load : loads) {
    const auto x = static_cast<double>(load);
    sum += x;
    largest = std::max(largest, x);
  }
  if (sum == 0) return {};
  const auto n = static_cast<double>(loads.size());
  const double mean = sum / n;
  for (const std::int64_t load : loads) squares += std::pow(static_cast<double>(load) - mean, 2);
  return {largest / mean, std::sqrt(squares / n) / mean};
}

LayerImbalance imbalance_of(const TokenCounts& counts, const ExpertGroup& group) {
  const std::vector<std::int64_t> experts = counts.experts.column_sums();
  return {imbalance_of(experts), imbalance_of(sums(experts, group.ranks)),
          imbalance_of(sums(experts, group.nodes()))};
}

ImbalanceOverLayers over_layers(std::span<const LayerImbalance> layers) {
  SYNCLINE_CHECK(!layers.empty(), "a mean is of at least one layer");
  ImbalanceOverLayers over{layers.front(), layers.front()};
  for (const LayerImbalance& layer : layers.subspan(1))
    for (const auto level : Levels)
      for (const auto figure : Figures) {
        over.mean.*level.*figure += layer.*level.*figure;
        over.largest.*level.*figure = std::max(over.largest.*level.*figure, layer.*level.*figure);
      }
  for (const auto level : Levels)
    for (const auto figure : Figures) over.mean.*level.*figure /= static_cast<double>(layers.size());
  return over;
}

}  // namespace syncline::moe
