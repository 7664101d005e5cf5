#include "sim/moe/expected_shares.hpp"

#include <algorithm>
#include <cmath>

#include "sim/core/error.hpp"

namespace syncline::moe {
namespace {

constexpr double LogStep = 0.25;       // analytic in a strip of half-width pi/2: error e^(-pi²/step)
constexpr double EarliestTime = 1e-9;  // of the first arrival of all, whose mean is 1
constexpr double LatestExponent = 60;  // e^-60 is nothing
constexpr double Negligible = 1e-16;   // likelihood

/// Likelihoods of 0, 1, ... k−1 of some independent events.
using Tally = std::vector<double>;

void add_event(Tally& tally, double likelihood) {
  for (std::size_t j = tally.size(); j-- > 0;)
    tally[j] = tally[j] * (1 - likelihood) + (j > 0 ? tally[j - 1] * likelihood : 0);
}

/// That two tallies of different events have fewer than k together.
double fewer_together(std::span<const double> a, std::span<const double> b) {
  double sum = 0, up_to = 0;  // of b: 0 ... j
  for (std::size_t j = 0; j < b.size(); ++j) {
    up_to += b[j];
    sum += a[a.size() - 1 - j] * up_to;
  }
  return sum;
}

/// Arrivals at one time, and what is likely of all blocks but one.
class Arrivals {
 public:
  Arrivals(std::size_t experts, std::size_t k, std::size_t block)
      : block_(block), come_(experts), before_(experts / block, Tally(k)), k_(k) {}

  /// By block: that fewer than k experts outside it have come.
  void fewer_outside(std::span<const double> popularity, double time, std::span<double> likelihood) {
    for (std::size_t e = 0; e < come_.size(); ++e) come_[e] = -std::expm1(-popularity[e] * time);
    Tally running(k_);
    running[0] = 1;
    for (std::size_t b = 0; b < before_.size(); ++b) {
      before_[b] = running;
      add_block(running, b);
    }
    std::ranges::fill(running, 0);
    running[0] = 1;  // of the blocks behind
    for (std::size_t b = before_.size(); b-- > 0;) {
      likelihood[b] = fewer_together(before_[b], running);
      add_block(running, b);
    }
  }

 private:
  void add_block(Tally& tally, std::size_t block) const {
    for (std::size_t e = block * block_; e < (block + 1) * block_; ++e) add_event(tally, come_[e]);
  }

  std::size_t block_;
  std::vector<double> come_;
  std::vector<Tally> before_;
  std::size_t k_;
};

}  // namespace

double uniform_hit(int experts, int k, int block) {
  double missed = 1;  // none of k is in the block, one choice after another
  for (int i = 0; i < k; ++i) missed *= std::max(0, experts - block - i) / static_cast<double>(experts - i);
  return 1 - missed;
}

std::vector<double> hit_shares(std::span<const double> popularity, int k, int block) {
  const auto size = static_cast<std::size_t>(block);
  SYNCLINE_CHECK(block > 0 && popularity.size() % size == 0, "blocks of equal size");
  std::vector<double> rates(popularity.size() / size), hit(rates.size()), likelihood(rates.size());
  for (std::size_t e = 0; e < popularity.size(); ++e) rates[e / size] += popularity[e];
  if (rates.size() == 1) return {1};
  const double latest = LatestExponent / std::ranges::min(popularity);
  Arrivals arrivals(popularity.size(), static_cast<std::size_t>(k), size);
  for (double at = std::log(EarliestTime); at < std::log(latest); at += LogStep) {
    const double time = std::exp(at);
    arrivals.fewer_outside(popularity, time, likelihood);
    if (std::ranges::max(likelihood) < Negligible) break;
    for (std::size_t b = 0; b < hit.size(); ++b)
      hit[b] += likelihood[b] * rates[b] * std::exp(-rates[b] * time) * time * LogStep;
  }
  for (double& share : hit) share = std::min(share, 1.0);
  return hit;
}

Shares uniform_shares(const ExpertGroup& group) {
  const auto each = [&group](int blocks) {
    return std::vector<double>(static_cast<std::size_t>(blocks),
                               uniform_hit(group.experts, group.top_k, group.experts / blocks));
  };
  return {each(group.experts), each(group.ranks), each(group.nodes())};
}

Shares expected_shares(std::span<const double> popularity, const ExpertGroup& group) {
  const auto each = [&](int block) { return hit_shares(popularity, group.top_k, block); };
  return {each(1), each(group.experts_per_rank()), each(group.experts_per_node())};
}

}  // namespace syncline::moe
