#include "sim/moe/token_sampler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <vector>

#include "sim/moe/expected_shares.hpp"
#include "sim/moe/routing.hpp"
#include "tests/moe/groups.hpp"

using namespace syncline;
using namespace syncline::moe;
using namespace syncline::moe::test;

namespace {

/// k experts of at most M groups as DeepSeek-V3 says it: affinities of all experts, sums of the ⌊k/M⌋ highest
/// of each group, the M groups with the largest, the k highest in them.
std::vector<int> plainly(const std::vector<double>& popularity, const ExpertGroup& group, Random& random) {
  const std::size_t size = popularity.size() / static_cast<std::size_t>(group.groups);
  std::vector<double> affinity;
  for (const double p : popularity)
    affinity.push_back(1 /
                       (1 - std::log1p(-random.uniform()) / (p * static_cast<double>(popularity.size()))));
  std::vector<std::pair<double, int>> sums;
  for (int g = 0; g < group.groups; ++g) {
    const auto first = affinity.begin() + static_cast<std::ptrdiff_t>(size) * g;
    std::vector<double> own(first, first + static_cast<std::ptrdiff_t>(size));
    std::ranges::sort(own, std::greater{});
    const auto counted =
        std::min<std::size_t>(size, static_cast<std::size_t>(group.top_k / group.top_groups));
    sums.emplace_back(std::accumulate(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(counted), 0.0),
                      g);
  }
  std::ranges::sort(sums, std::greater{});
  std::vector<std::pair<double, int>> experts;
  for (int i = 0; i < group.top_groups; ++i)
    for (std::size_t e = 0; e < size; ++e) {
      const auto expert = static_cast<std::size_t>(sums[static_cast<std::size_t>(i)].second) * size + e;
      experts.emplace_back(affinity[expert], static_cast<int>(expert));
    }
  std::ranges::sort(experts, std::greater{});
  std::vector<int> token;
  for (int i = 0; i < group.top_k; ++i) token.push_back(experts[static_cast<std::size_t>(i)].second);
  return token;
}

std::set<int> groups_of(std::span<const int> token, const ExpertGroup& group) {
  std::set<int> groups;
  for (const int expert : token) groups.insert(expert / (group.experts / group.groups));
  return groups;
}

/// Five standard deviations of a count of `tokens` trials; a right count fails once in a million.
double tolerance(double share, int tokens) {
  return 5 * std::sqrt(tokens * share * (1 - share)) + 1;
}

}  // namespace

TEST_SUITE("moe: token sampler") {
  TEST_CASE("an urn gives each item once, and all again after it is filled up") {
    const std::vector<double> weights{1, 1e-30, 5, 2, 1e-9};
    Urn urn(weights);
    Random random(1);
    for (int round = 0; round < 100; ++round) {
      std::set<int> items;
      for (int i = 0; i < 5; ++i) items.insert(urn.take(random.uniform()));
      CHECK(items.size() == 5);
      CHECK(urn.total() == 0);
      urn.refill();
    }
    CHECK(urn.take(0) == 0);             // [0, 1) of 8 is the first,
    CHECK(urn.take(0.9999999999) == 4);  // the last has what is behind
    urn.refill();
    CHECK(urn.take(0.7) == 2);  // 5.6 lies in [1, 6)
    CHECK(urn.take(0.5) == 3);  // 1.5 of the 3 that are left lies in [1, 3)
  }

  TEST_CASE("without a limit each expert is chosen as often as the integral says") {
    constexpr int Tokens = 40000;
    const ExpertGroup group{.ranks = 1, .experts = 24, .tokens = 1, .top_k = 5};
    for (const double exponent : {0.0, 0.8, 2.5}) {
      CAPTURE(exponent);
      const std::vector<double> popular = popularity(Zipf{exponent}, group, 3, 0);
      const std::vector<double> shares = hit_shares(popular, group.top_k, 1);
      TokenSampler sampler(popular, group);
      Random random(29);
      std::vector<int> counts(24);
      for (int t = 0; t < Tokens; ++t)
        for (const int expert : sampler.next(random)) ++counts[static_cast<std::size_t>(expert)];
      for (std::size_t e = 0; e < counts.size(); ++e)
        CHECK(std::abs(counts[e] - shares[e] * Tokens) <= tolerance(shares[e], Tokens));
    }
  }

  TEST_CASE("with a limit experts and groups are chosen as often as with all affinities at hand") {
    constexpr int Tokens = 8000;
    struct Row {
      int experts, groups, top_groups, top_k;
      double exponent;
    };
    const Row rows[] = {{16, 4, 2, 4, 0.0}, {16, 4, 2, 4, 1.0}, {24, 8, 3, 5, 0.5}, {12, 4, 2, 5, 1.5}};
    for (const Row& row : rows) {
      CAPTURE(row.experts);
      CAPTURE(row.exponent);
      const ExpertGroup group{.ranks = 1,
                              .experts = row.experts,
                              .tokens = 1,
                              .top_k = row.top_k,
                              .groups = row.groups,
                              .top_groups = row.top_groups};
      const std::vector<double> popular = popularity(Zipf{row.exponent}, group, 5, 0);
      TokenSampler sampler(popular, group);
      Random random(31), other(37);
      const auto n = static_cast<std::size_t>(row.experts);
      std::vector<int> counts(n), plain_counts(n), groups(n), plain_groups(n);
      for (int t = 0; t < Tokens; ++t) {
        const std::span<const int> token = sampler.next(random);
        for (const int expert : token) ++counts[static_cast<std::size_t>(expert)];
        ++groups[groups_of(token, group).size()];
        const std::vector<int> plain = plainly(popular, group, other);
        for (const int expert : plain) ++plain_counts[static_cast<std::size_t>(expert)];
        ++plain_groups[groups_of(plain, group).size()];
      }
      for (std::size_t i = 0; i < n; ++i) {
        const double share = plain_counts[i] / static_cast<double>(Tokens);
        CHECK(std::abs(counts[i] - plain_counts[i]) <= std::sqrt(2) * tolerance(share, Tokens));
        const double of_groups = plain_groups[i] / static_cast<double>(Tokens);
        CHECK(std::abs(groups[i] - plain_groups[i]) <= std::sqrt(2) * tolerance(of_groups, Tokens));
      }
    }
  }

  TEST_CASE("a token has k different experts of at most M groups, whatever the numbers") {
    Random random(41);
    for (int i = 0; i < 200; ++i) {
      const ExpertGroup group = any_group(random);
      CAPTURE(text_of(group));
      TokenSampler sampler(popularity(Zipf{5 * random.uniform()}, group, 1, i), group);
      for (int t = 0; t < 50; ++t) {
        const std::span<const int> token = sampler.next(random);
        CHECK(std::set<int>(token.begin(), token.end()).size() == static_cast<std::size_t>(group.top_k));
        CHECK(groups_of(token, group).size() <= static_cast<std::size_t>(group.top_groups));
        CHECK(std::ranges::min(token) >= 0);
        CHECK(std::ranges::max(token) < group.experts);
      }
    }
  }
}
