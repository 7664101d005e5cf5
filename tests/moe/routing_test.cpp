#include "sim/moe/routing.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
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
}
