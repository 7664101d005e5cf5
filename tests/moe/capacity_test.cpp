#include "sim/moe/capacity.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/moe/imbalance.hpp"
#include "sim/moe/routing.hpp"
#include "tests/moe/groups.hpp"

using namespace syncline;
using namespace syncline::moe;
using namespace syncline::moe::test;
using doctest::Approx;

namespace {

void fill(CountTable& table, int row, const std::vector<std::int64_t>& cells) {
  std::ranges::copy(cells, table[row].begin());
}

/// Two ranks of two experts each, on nodes of their own; 8 tokens choose two.
const ExpertGroup Two{.ranks = 2, .experts = 4, .tokens = 8, .top_k = 2};

/// The first rank's tokens prefer expert 0, the second's are even.
TokenCounts uneven() {
  TokenCounts counts{CountTable(2, 4), CountTable(2, 2), CountTable(2, 2)};
  fill(counts.experts, 0, {8, 2, 3, 3});
  fill(counts.experts, 1, {4, 4, 4, 4});
  for (CountTable* places : {&counts.ranks, &counts.nodes}) {
    fill(*places, 0, {8, 6});
    fill(*places, 1, {6, 7});
  }
  return counts;
}

std::vector<std::int64_t> row(const CountTable& table, int source) {
  return {table[source].begin(), table[source].end()};
}

}  // namespace

TEST_SUITE("moe: capacity") {
  TEST_CASE("it is the even share of a source's copies times the factor, rounded up") {
    CHECK(expert_capacity(Two, 1) == 4);                                                     // 8 · 2 / 4
    CHECK(expert_capacity(Two, 1.25) == 5);                                                  // exactly
    CHECK(expert_capacity(Two, 1.26) == 6);                                                  // 5.04
    CHECK(expert_capacity(Two, 0.1) == 1);                                                   // 0.4
    CHECK(expert_capacity({.ranks = 1, .experts = 10, .tokens = 3, .top_k = 1}, 1.1) == 1);  // 0.33
    CHECK(expert_capacity({.ranks = 1, .experts = 10, .tokens = 100, .top_k = 1}, 1.1) ==
          11);  // not 12: 11.000000000000002
  }

  TEST_CASE("copies beyond it are dropped, and tokens with them") {
    const TokenCounts counts = with_capacity(uneven(), Two, {.factor = 1.25});
    CHECK(row(counts.experts, 0) == std::vector<std::int64_t>{5, 2, 3, 3});
    CHECK(row(counts.experts, 1) == std::vector<std::int64_t>{4, 4, 4, 4});
    CHECK(counts.dropped == 3);
    CHECK(counts.padding == 0);
    CHECK(dropped_share(counts) == Approx(3.0 / 32));
    // Of 10 copies for the first rank 7 are left, so of its 8 tokens 5.6.
    CHECK(row(counts.ranks, 0) == std::vector<std::int64_t>{6, 6});
    CHECK(row(counts.nodes, 0) == std::vector<std::int64_t>{6, 6});
    CHECK(row(counts.ranks, 1) == std::vector<std::int64_t>{6, 7});
  }

  TEST_CASE("padding fills every expert up, and is no token") {
    const TokenCounts dropped = with_capacity(uneven(), Two, {.factor = 1.25});
    const TokenCounts padded = with_capacity(uneven(), Two, {.factor = 1.25, .pad = true});
    CHECK(row(padded.experts, 0) == std::vector<std::int64_t>{5, 5, 5, 5});
    CHECK(row(padded.experts, 1) == std::vector<std::int64_t>{5, 5, 5, 5});
    CHECK(padded.padding == 7 + 4);  // 3 + 2 + 2, 4 · 1
    CHECK(padded.dropped == 3);
    CHECK(dropped_share(padded) == dropped_share(dropped));
    CHECK(padded.ranks == dropped.ranks);
    CHECK(padded.nodes == dropped.nodes);
  }

  TEST_CASE("what is dropped, kept and padded adds up, for any group and factor") {
    Random random(17);
    for (int i = 0; i < 100; ++i) {
      const ExpertGroup group = any_group(random);
      const TokenCounts chosen = route(Zipf{2 * random.uniform()}, group, 1, i);
      const Capacity capacity{.factor = 0.2 + 3 * random.uniform(), .pad = random.below(2) == 1};
      CAPTURE(text_of(group));
      CAPTURE(capacity.factor);
      const TokenCounts counts = with_capacity(chosen, group, capacity);
      const std::int64_t most = expert_capacity(group, capacity.factor);
      CHECK(counts.experts.sum() - counts.padding + counts.dropped == chosen.experts.sum());
      if (capacity.pad) CHECK(counts.experts.sum() == most * group.experts * group.ranks);
      for (int source = 0; source < group.ranks; ++source) {
        CHECK(std::ranges::max(counts.experts[source]) <= most);
        for (int r = 0; r < group.ranks; ++r)
          CHECK(counts.ranks[source][static_cast<std::size_t>(r)] <=
                chosen.ranks[source][static_cast<std::size_t>(r)]);
      }
      if (most >= group.tokens) CHECK(counts.dropped == 0);
    }
  }

  TEST_CASE("the higher the factor, the less is dropped") {
    const ExpertGroup group = deepseek(false);
    const TokenCounts chosen = route(Zipf{0.7}, group, 1);
    double before = 1;
    for (const double factor : {0.5, 1.0, 1.25, 2.0, 4.0}) {
      CAPTURE(factor);
      const double now = dropped_share(with_capacity(chosen, group, {.factor = factor}));
      CHECK(now < before);
      before = now;
    }
    CHECK(dropped_share(with_capacity(chosen, group, {.factor = 32})) ==
          0);  // E/k: an expert for every token
  }
}

TEST_SUITE("moe: imbalance") {
  TEST_CASE("max over mean and variation by hand") {
    // Mean 4, deviations −3, −1, 0, 4: variance 26/4.
    const std::vector<std::int64_t> loads{1, 3, 4, 8};
    CHECK(imbalance_of(loads).max_over_mean == 2);
    CHECK(imbalance_of(loads).variation == Approx(std::sqrt(6.5) / 4));
    CHECK(imbalance_of(std::vector<std::int64_t>(5, 7)) == Imbalance{1, 0});
    CHECK(imbalance_of(std::vector<std::int64_t>(5, 0)) == Imbalance{1, 0});
  }

  TEST_CASE("by expert, by rank and by node of what they receive") {
    // Experts get 12, 6, 7, 7 of 32; ranks 18, 14; with both ranks on one node that has all.
    ExpertGroup group = Two;
    LayerImbalance layer = imbalance_of(uneven(), group);
    CHECK(layer.experts.max_over_mean == Approx(12.0 / 8));
    CHECK(layer.ranks.max_over_mean == Approx(18.0 / 16));
    CHECK(layer.nodes == layer.ranks);
    group.ranks_per_node = 2;
    layer = imbalance_of(uneven(), group);
    CHECK(layer.nodes == Imbalance{1, 0});
  }

  TEST_CASE("over layers, the mean of each figure and the largest") {
    const LayerImbalance layers[]{{{2, 0.5}, {1.5, 0.25}, {1, 0}}, {{4, 0.25}, {1.25, 0.5}, {1, 0}}};
    const ImbalanceOverLayers over = over_layers(layers);
    CHECK(over.mean.experts == Imbalance{3, 0.375});
    CHECK(over.mean.ranks == Imbalance{1.375, 0.375});
    CHECK(over.largest.experts == Imbalance{4, 0.5});
    CHECK(over.largest.ranks == Imbalance{1.5, 0.5});
    CHECK(over.largest.nodes == Imbalance{1, 0});
  }

  TEST_CASE("a place that holds more is more even") {
    Random random(23);
    for (int i = 0; i < 50; ++i) {
      const ExpertGroup group = any_group(random);
      CAPTURE(text_of(group));
      const LayerImbalance layer = imbalance_of(route(Zipf{1}, group, 1, i), group);
      CHECK(layer.experts.max_over_mean >= layer.ranks.max_over_mean * (1 - 1e-12));
      CHECK(layer.ranks.max_over_mean >= layer.nodes.max_over_mean * (1 - 1e-12));
      CHECK(layer.nodes.max_over_mean >= 1);
    }
  }
}
