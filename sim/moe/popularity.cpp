#include "sim/moe/popularity.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "sim/core/error.hpp"
#include "sim/moe/counts_file.hpp"
#include "sim/moe/expected_shares.hpp"
#include "sim/moe/stream.hpp"

namespace syncline::moe {
namespace {

using Weights = std::vector<double>;

/// Of all; a smaller one is as good as never chosen.
constexpr double LeastPopularity = 1e-30;

Weights normalised(Weights weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight = std::max(weight / sum, LeastPopularity);
  return weights;
}

/// In the order that the layer has drawn.
Weights shuffled(Weights weights, std::uint64_t seed, int layer) {
  Random random = stream_of(Draw::Order, seed, layer);
  for (std::size_t i = weights.size(); i > 1; --i) std::swap(weights[i - 1], weights[random.below(i)]);
  return weights;
}

/// Logarithm of a gamma variate: method of Marsaglia and Tsang, ACM TOMS 26 (2000), with its step from alpha
/// + 1 to alpha. The logarithm, because small alphas give numbers too small for a double.
double log_gamma_variate(double alpha, Random& random) {
  const double d = alpha + 1 - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  const double below_one = std::log1p(-random.uniform()) / alpha;
  for (;;) {
    const double x = random.normal(), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log1p(-random.uniform()) < x * x / 2 + d * (1 - v + std::log(v)))
      return std::log(d * v) + below_one;
  }
}

struct WeightsOf {
  const ExpertGroup& group;
  std::uint64_t seed;
  int layer;
  std::int64_t step;
  std::size_t experts = static_cast<std::size_t>(group.experts);

  Weights operator()(const Balanced&) const { return Weights(experts, 1); }
  Weights operator()(const Uniform&) const { return Weights(experts, 1); }

  Weights operator()(const Zipf& zipf) const {
    SYNCLINE_CHECK(zipf.exponent >= 0, "the first is the most popular");
    Weights weights(experts);
    for (std::size_t i = 0; i < experts; ++i)
      weights[i] = std::pow(static_cast<double>(i + 1), -zipf.exponent);
    return shuffled(std::move(weights), seed, layer);
  }

  Weights operator()(const Dirichlet& dirichlet) const {
    SYNCLINE_CHECK(dirichlet.alpha > 0, "alpha is above 0");
    Random random = stream_of(Draw::Popularity, seed, layer);
    Weights weights(experts);
    for (double& weight : weights) weight = log_gamma_variate(dirichlet.alpha, random);
    const double largest = std::ranges::max(weights);
    for (double& weight : weights) weight = std::exp(weight - largest);
    return weights;
  }

  Weights operator()(const Hot& hot) const {
    constexpr int Corrections = 2;  // each leaves about a hundredth of what the share is off
    SYNCLINE_CHECK(hot.experts > 0 && hot.experts < group.experts && hot.share > 0 && hot.share < 1,
                   "some experts are hot, and have some of the tokens");
    const double k = group.top_k, hot_each = std::min(1.0, hot.share * k / hot.experts);
    Weights shares(experts, (k - hot_each * hot.experts) / (group.experts - hot.experts));
    std::fill_n(shares.begin(), hot.experts, hot_each);
    Weights weights = normalised(popularity_for(shares));
    for (int i = 0; i < Corrections; ++i) {
      const Weights hit = hit_shares(weights, group.top_k, 1);
      for (std::size_t e = 0; e < experts; ++e) weights[e] *= shares[e] / hit[e];
      weights = normalised(std::move(weights));
    }
    return shuffled(std::move(weights), seed, layer);
  }

  Weights operator()(const FromFile& measured) const {
    SYNCLINE_CHECK(measured.counts && measured.counts->experts <= group.experts,
                   "measured counts are of the layer's experts");
    return popularity_for(shares_of(measured_sum(*measured.counts, group, layer, step), group.top_k));
  }
};

}  // namespace

std::vector<double> popularity_for(std::vector<double> shares) {
  constexpr double Surely = 1 - 1e-9;
  for (double& share : shares) share = -std::log1p(-std::min(share, Surely));
  return shares;
}

std::vector<double> shares_of(std::span<const std::int64_t> counts, int k) {
  std::vector<double> shares(counts.size());
  double left = k, counted = 0, open = static_cast<double>(counts.size());
  for (const std::int64_t count : counts) counted += static_cast<double>(count);
  for (bool more = true; more;) {  // those at 1 are settled; the others share what is left
    more = false;
    const double rate = counted > 0 ? left / counted : 0, even = counted > 0 ? 0 : left / open;
    for (std::size_t e = 0; e < shares.size(); ++e) {
      if (shares[e] == 1) continue;
      const auto count = static_cast<double>(counts[e]);
      shares[e] = count * rate + even;
      if (shares[e] < 1) continue;
      shares[e] = 1;
      left -= 1;
      counted -= count;
      open -= 1;
      more = true;
    }
  }
  return shares;
}

std::vector<std::int64_t> measured_sum(const MeasuredCounts& counts, const ExpertGroup& group, int layer,
                                       std::int64_t step) {
  std::vector<std::int64_t> sum(static_cast<std::size_t>(group.experts));
  for (int rank = 0; rank < counts.ranks; ++rank)
    std::ranges::transform(sum, counts.sent(step, layer, rank), sum.begin(), std::plus{});
  return sum;
}

std::vector<std::int64_t> measured_row(const MeasuredCounts& counts, const ExpertGroup& group, int layer,
                                       std::int64_t step, int source) {
  if (counts.ranks != group.ranks) return measured_sum(counts, group, layer, step);
  const auto row = counts.sent(step, layer, source);
  std::vector<std::int64_t> all(row.begin(), row.end());
  all.resize(static_cast<std::size_t>(group.experts));
  return all;
}

std::vector<double> popularity(const Routing& routing, const ExpertGroup& group, std::uint64_t seed,
                               int layer, std::int64_t step) {
  check_group(group);
  return normalised(std::visit(WeightsOf{group, seed, layer, step}, routing));
}

}  // namespace syncline::moe
