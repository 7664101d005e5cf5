#include "sim/moe/expected_shares.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/moe/groups.hpp"

using namespace syncline;
using namespace syncline::moe;
using namespace syncline::moe::test;
using doctest::Approx;

namespace {

/// By going through all orders of k different experts: the likelihood that at least one is in [first, first +
/// block).
double enumerated(const std::vector<double>& popularity, int k, std::size_t first, std::size_t block,
                  std::vector<bool>& chosen) {
  if (k == 0) return 0;
  double left = 0, hit = 0;
  for (std::size_t e = 0; e < popularity.size(); ++e) left += chosen[e] ? 0 : popularity[e];
  for (std::size_t e = 0; e < popularity.size(); ++e) {
    if (chosen[e]) continue;
    const double likely = popularity[e] / left;
    if (e >= first && e < first + block) {
      hit += likely;
      continue;
    }
    chosen[e] = true;
    hit += likely * enumerated(popularity, k - 1, first, block, chosen);
    chosen[e] = false;
  }
  return hit;
}

}  // namespace

TEST_SUITE("moe: expected shares") {
  TEST_CASE("of equally likely experts they are those of drawing without replacement") {
    // 1 − C(6,2)/C(8,2) = 1 − 15/28
    CHECK(uniform_hit(8, 2, 2) == Approx(13.0 / 28).epsilon(1e-14));
    CHECK(uniform_hit(8, 2, 1) == Approx(2.0 / 8).epsilon(1e-14));  // k/E
    CHECK(uniform_hit(8, 3, 6) == 1);                               // only two are outside
    // Of 256, 8 chosen: 64 ranks of 4 get 7.676 different copies, 8 nodes of 32 get 5.295.
    CHECK(64 * uniform_hit(256, 8, 4) == Approx(7.6758).epsilon(1e-4));
    CHECK(8 * uniform_hit(256, 8, 32) == Approx(5.2947).epsilon(1e-4));
  }

  TEST_CASE("the integral gives the closed form where all are equally likely") {
    for (const int block : {1, 4, 32, 128}) {
      CAPTURE(block);
      const std::vector<double> even(256, 1.0 / 256);
      for (const double share : hit_shares(even, 8, block))
        CHECK(share == Approx(uniform_hit(256, 8, block)).epsilon(1e-8));
    }
  }

  TEST_CASE("two of three experts by hand") {
    // Popularities 1/2, 1/3, 1/6. The last is missed when the others come first: 1/2 · (1/3)/(1/2) + 1/3 ·
    // (1/2)/(2/3) = 1/3 + 1/4, so it is hit in 5/12. The second is missed in 1/2 · (1/6)/(1/2) + 1/6 ·
    // (1/2)/(5/6) = 1/6 + 1/10.
    const std::vector<double> popularity{1.0 / 2, 1.0 / 3, 1.0 / 6};
    const std::vector<double> shares = hit_shares(popularity, 2, 1);
    CHECK(shares[2] == Approx(5.0 / 12).epsilon(1e-8));
    CHECK(shares[1] == Approx(1 - 4.0 / 15).epsilon(1e-8));
    CHECK(shares[0] == Approx(2 - 5.0 / 12 - 11.0 / 15).epsilon(1e-8));
  }

  TEST_CASE("the integral gives what enumeration does, however uneven the experts are") {
    Random random(11);
    for (const double spread : {0.5, 3.0, 20.0})
      for (int k = 1; k <= 4; ++k)
        for (const int block : {1, 2, 3}) {
          CAPTURE(spread);
          CAPTURE(k);
          CAPTURE(block);
          std::vector<double> popularity(6);
          for (double& p : popularity) p = std::exp(-spread * random.uniform());
          const double sum = std::accumulate(popularity.begin(), popularity.end(), 0.0);
          for (double& p : popularity) p /= sum;
          const std::vector<double> shares = hit_shares(popularity, k, block);
          for (std::size_t b = 0; b < shares.size(); ++b) {
            std::vector<bool> chosen(6);
            const auto size = static_cast<std::size_t>(block);
            CHECK(shares[b] == Approx(enumerated(popularity, k, b * size, size, chosen)).epsilon(1e-7));
          }
        }
  }

  TEST_CASE("the experts of a token are k, whatever their popularity") {
    Random random(5);
    for (int i = 0; i < 20; ++i) {
      const ExpertGroup group = any_group(random);
      CAPTURE(text_of(group));
      const Shares shares = expected_shares(popularity(Zipf{4 * random.uniform()}, group, 1, i), group);
      CHECK(std::accumulate(shares.experts.begin(), shares.experts.end(), 0.0) ==
            Approx(group.top_k).epsilon(1e-7));
      for (std::size_t r = 0; r < shares.ranks.size(); ++r) {
        const auto own = std::span(shares.experts)
                             .subspan(r * static_cast<std::size_t>(group.experts_per_rank()),
                                      static_cast<std::size_t>(group.experts_per_rank()));
        CHECK(shares.ranks[r] >= std::ranges::max(own) * (1 - 1e-7));
        CHECK(shares.ranks[r] <= std::accumulate(own.begin(), own.end(), 0.0) * (1 + 1e-7));
      }
    }
  }
}
