#include "sim/moe/routing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "sim/moe/expected_shares.hpp"
#include "tests/moe/groups.hpp"

using namespace syncline;
using namespace syncline::moe;
using namespace syncline::moe::test;
using doctest::Approx;

namespace {

double max_over_mean(const std::vector<std::int64_t>& loads) {
  const double sum = static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
  return static_cast<double>(std::ranges::max(loads)) * static_cast<double>(loads.size()) / sum;
}

std::vector<Routing> routings(Random& random) {
  return {Balanced{}, Uniform{}, Zipf{3 * random.uniform()}, Dirichlet{std::exp(6 * random.uniform() - 4)}};
}

}  // namespace

TEST_SUITE("moe: routing") {
  TEST_CASE("every token goes to k experts, and once to each rank and node that has one of them") {
    Random random(3);
    for (int i = 0; i < 100; ++i) {
      const ExpertGroup group = any_group(random);
      for (const Routing& routing : routings(random)) {
        CAPTURE(text_of(group));
        CAPTURE(routing.index());
        const TokenCounts counts = route(routing, group, 7, i);
        for (int source = 0; source < group.ranks; ++source) {
          const auto experts = counts.experts[source], ranks = counts.ranks[source],
                     nodes = counts.nodes[source];
          CHECK(std::accumulate(experts.begin(), experts.end(), std::int64_t{0}) ==
                group.tokens * group.top_k);
          CHECK(std::ranges::max(experts) <= group.tokens);
          CHECK(std::ranges::min(experts) >= 0);
          for (std::size_t r = 0; r < ranks.size(); ++r) {
            const auto size = static_cast<std::size_t>(group.experts_per_rank());
            const auto own = experts.subspan(r * size, size);
            CHECK(ranks[r] >= std::ranges::max(own));
            CHECK(ranks[r] <= std::accumulate(own.begin(), own.end(), std::int64_t{0}));
            CHECK(ranks[r] <= group.tokens);
          }
          const std::size_t size = ranks.size() / nodes.size();
          for (std::size_t n = 0; n < nodes.size(); ++n) {
            const auto own = ranks.subspan(n * size, size);
            CHECK(nodes[n] >= std::ranges::max(own));
            CHECK(nodes[n] <= std::accumulate(own.begin(), own.end(), std::int64_t{0}));
            CHECK(nodes[n] <= group.tokens);
          }
        }
      }
    }
  }

  TEST_CASE("balanced: every expert has the same count, remainders are dealt in turn") {
    // 3 ranks of 10 tokens that choose 2 of 6 experts: 20 copies a rank are 3 each and 2 left over; over the
    // ranks 60 copies are 10 each.
    const ExpertGroup group{.ranks = 3, .experts = 6, .tokens = 10, .top_k = 2};
    const TokenCounts counts = route(Balanced{}, group, 1);
    CHECK(counts.experts.column_sums() == std::vector<std::int64_t>(6, 10));
    const std::vector<std::int64_t> first{4, 4, 3, 3, 3, 3}, second{3, 3, 4, 4, 3, 3};
    CHECK(std::ranges::equal(counts.experts[0], first));
    CHECK(std::ranges::equal(counts.experts[1], second));
    CHECK(counts == route(Balanced{}, group, 2, 5, 7));  // nothing is drawn
  }

  TEST_CASE("balanced and uniform tokens go to as many ranks and nodes as the closed form says") {
    const ExpertGroup group = deepseek(false);
    const double tokens = 64 * 4096;
    // 64 · 4096 tokens on average; of one token the spread is below 1.
    const double error = 5 / std::sqrt(tokens);
    for (const Routing& routing : {Routing(Balanced{}), Routing(Uniform{})}) {
      const TokenCounts counts = route(routing, group, 1);
      CHECK(static_cast<double>(counts.ranks.sum()) / tokens ==
            Approx(64 * uniform_hit(256, 8, 4)).epsilon(error));
      CHECK(static_cast<double>(counts.nodes.sum()) / tokens ==
            Approx(8 * uniform_hit(256, 8, 32)).epsilon(error));
    }
  }

  TEST_CASE("the higher the exponent, the more uneven the experts") {
    double before = 1;
    for (const double exponent : {0.0, 0.2, 0.5, 1.0, 1.5, 2.0}) {
      CAPTURE(exponent);
      const double now = max_over_mean(route(Zipf{exponent}, deepseek(false), 1).experts.column_sums());
      CHECK(now > before);
      before = now;
    }
  }

  TEST_CASE("the same seed, layer and step give the same counts, others others") {
    const ExpertGroup group = deepseek(true, 512);
    const Routing routing = Zipf{1};
    const TokenCounts counts = route(routing, group, 1, 2, 3);
    CHECK(counts == route(routing, group, 1, 2, 3));
    CHECK(counts != route(routing, group, 2, 2, 3));
    CHECK(counts != route(routing, group, 1, 3, 3));
    CHECK(counts != route(routing, group, 1, 2, 4));
    CHECK(popularity(routing, group, 1, 2) != popularity(routing, group, 1, 3));
    CHECK(popularity(routing, group, 1, 2, 0) == popularity(routing, group, 1, 2, 1));
  }

  TEST_CASE("the counts of many tokens have the mean and the spread of tokens drawn one by one") {
    // A source's tokens choose independently: of T tokens an expert, a rank, a node with share s gets T·s on
    // average, with variance T·s(1−s).
    const ExpertGroup group{.ranks = 16, .experts = 32, .tokens = 8192, .top_k = 4, .ranks_per_node = 4};
    constexpr int Steps = 100;
    for (const double exponent : {0.0, 0.7}) {
      CAPTURE(exponent);
      const Shares shares = expected_shares(popularity(Zipf{exponent}, group, 1, 0), group);
      double mean_error = 0, variance = 0, expected_variance = 0;
      for (int step = 0; step < Steps; ++step) {
        const TokenCounts counts = route(Zipf{exponent}, group, 1, 0, step);
        const auto compare = [&](std::span<const std::int64_t> row, const std::vector<double>& expected) {
          for (std::size_t i = 0; i < row.size(); ++i) {
            const double error = static_cast<double>(row[i]) - 8192 * expected[i];
            mean_error += error;
            variance += error * error;
            expected_variance += 8192 * expected[i] * (1 - expected[i]);
          }
        };
        compare(counts.experts[5], shares.experts);
        compare(counts.ranks[5], shares.ranks);
        compare(counts.nodes[5], shares.nodes);
      }
      CHECK(variance / expected_variance == Approx(1).epsilon(0.1));
      CHECK(std::abs(mean_error) < 5 * std::sqrt(expected_variance));
    }
  }

  TEST_CASE("a token that is limited to four nodes goes to fewer nodes and ranks, never to more than four") {
    const double tokens = 64 * 4096;
    for (const Routing& routing :
         {Routing(Balanced{}), Routing(Uniform{}), Routing(Zipf{0.5}), Routing(Dirichlet{1})}) {
      CAPTURE(routing.index());
      const TokenCounts free = route(routing, deepseek(false), 1),
                        limited = route(routing, deepseek(true), 1);
      for (int source = 0; source < 64; ++source) {
        const auto nodes = limited.nodes[source];
        CHECK(std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0}) <= 4 * 4096);
      }
      CHECK(static_cast<double>(limited.nodes.sum()) / tokens > 3.9);  // eight experts, four nodes
      CHECK(limited.nodes.sum() < free.nodes.sum());
      CHECK(limited.ranks.sum() < free.ranks.sum());
      CHECK(limited.experts.sum() == free.experts.sum());
    }
    // Every expert is as likely as before.
    CHECK(max_over_mean(route(Uniform{}, deepseek(true), 1).experts.column_sums()) < 1.06);
    CHECK(max_over_mean(route(Balanced{}, deepseek(true), 1).experts.column_sums()) == 1);
  }

  TEST_CASE("as many groups as there are is no limit") {
    ExpertGroup group = deepseek(false, 512);
    const TokenCounts free = route(Zipf{1}, group, 1);
    group.groups = group.top_groups = 8;
    CHECK(route(Zipf{1}, group, 1) == free);
  }

  TEST_CASE("hot experts have their share of the copies, but of each token at most one") {
    struct Row {
      Hot hot;
      double share;  // of all copies
    };
    // A token has at most one of its eight copies at each: two have at most a quarter.
    const Row rows[] = {{{4, 0.3}, 0.3}, {{1, 0.05}, 0.05}, {{32, 0.9}, 0.9}, {{2, 0.5}, 0.25}};
    for (const Row& row : rows) {
      CAPTURE(row.hot.experts);
      std::vector<std::int64_t> loads = route(row.hot, deepseek(false), 1, 3).experts.column_sums();
      std::ranges::sort(loads, std::greater{});
      const std::int64_t hot =
          std::accumulate(loads.begin(), loads.begin() + row.hot.experts, std::int64_t{0});
      CHECK(static_cast<double>(hot) / (8 * 4096 * 64) == Approx(row.share).epsilon(0.01));
    }
  }

  TEST_CASE("the smaller alpha, the more uneven the experts; a large one is uniform") {
    double before = 1;
    for (const double alpha : {1000.0, 30.0, 3.0, 0.3, 0.03}) {
      CAPTURE(alpha);
      double now = 0;  // over layers, as each draws its own
      for (int layer = 0; layer < 4; ++layer)
        now += max_over_mean(route(Dirichlet{alpha}, deepseek(false), 1, layer).experts.column_sums()) / 4;
      CHECK(now > before);
      before = now;
    }
    // Variance of a popularity is (1/E)²·(E−1)/(E·alpha + 1): 3 % of the mean at alpha 1000.
    double squares = 0;
    const std::vector<double> popular = popularity(Dirichlet{1000}, deepseek(false), 1, 0);
    for (const double p : popular) squares += std::pow(256 * p - 1, 2) / 256;
    CHECK(std::sqrt(squares) == Approx(std::sqrt(255.0 / 256001)).epsilon(0.2));
  }

  TEST_CASE("the hot experts of one layer are not those of another, and every expert has its turn") {
    const ExpertGroup group{.ranks = 1, .experts = 8, .tokens = 16, .top_k = 1};
    std::vector<int> turns(8);
    for (int layer = 0; layer < 400; ++layer) {
      const std::vector<double> popular = popularity(Zipf{1}, group, 1, layer);
      ++turns[static_cast<std::size_t>(std::ranges::max_element(popular) - popular.begin())];
    }
    CHECK(std::ranges::min(turns) > 25);  // 50 each, standard deviation 6.6
  }

  TEST_CASE("numbers that do not fit together are a caller's mistake") {
    struct Row {
      const char* name;
      ExpertGroup group;
    };
    const Row rows[] = {
        {"experts over ranks", {.ranks = 3, .experts = 4}},
        {"more experts a token than there are", {.ranks = 1, .experts = 4, .top_k = 5}},
        {"no tokens", {.ranks = 1, .experts = 4, .tokens = 0}},
        {"ranks over nodes", {.ranks = 6, .experts = 6, .ranks_per_node = 4}},
        {"experts over groups", {.ranks = 1, .experts = 6, .groups = 4}},
        {"too few in a token's groups", {.ranks = 1, .experts = 8, .top_k = 3, .groups = 4, .top_groups = 1}},
        {"more groups than there are", {.ranks = 1, .experts = 8, .groups = 2, .top_groups = 3}},
    };
    for (const Row& row : rows) {
      SUBCASE(row.name) {
        CHECK_THROWS_AS(static_cast<void>(route(Uniform{}, row.group, 1)), std::logic_error);
      }
    }
    const ExpertGroup good{.ranks = 1, .experts = 4};
    CHECK_THROWS_AS(static_cast<void>(route(Zipf{-1}, good, 1)), std::logic_error);
    CHECK_THROWS_AS(static_cast<void>(route(Dirichlet{0}, good, 1)), std::logic_error);
    CHECK_THROWS_AS(static_cast<void>(route(Hot{4, 0.5}, good, 1)), std::logic_error);
    CHECK_THROWS_AS(static_cast<void>(route(Hot{1, 1.0}, good, 1)), std::logic_error);
  }
}
