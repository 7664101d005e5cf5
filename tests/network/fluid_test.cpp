#include "sim/network/fluid.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "sim/core/random.hpp"
#include "tests/support/ends.hpp"

namespace syncline {
namespace {

using namespace literals;

using testing::Ends;

std::vector<LinkUse> over(std::initializer_list<unsigned> links) {
  std::vector<LinkUse> uses;
  for (const unsigned link : links) uses.push_back({LinkId(link), 1.0});
  return uses;
}

TEST_CASE("a lone transfer takes its latency plus its bytes over the narrowest link") {
  const std::vector<BytesPerSecond> links{50_GBps, 100_GBps};
  PlainNetwork network(links);
  Ends ends(network);
  network.transfer(over({0, 1}), 1_GB, 5_us, 7);
  network.run(ends);
  CHECK(ends.at[7] == doctest::Approx(0.020005).epsilon(1e-12));  // 1e9 / 50e9 + 5e-6
}

TEST_CASE("k transfers over one link take k times as long") {
  for (const unsigned k : {2U, 3U, 8U, 100U}) {
    const std::vector<BytesPerSecond> links{1_GBps};
    PlainNetwork network(links);
    Ends ends(network);
    for (unsigned i = 0; i < k; ++i) network.transfer(over({0}), 1_MB, Seconds(0), i);
    network.run(ends);
    for (unsigned i = 0; i < k; ++i) CHECK(ends.at[i] == doctest::Approx(k * 1e-3).epsilon(1e-12));
  }
}

TEST_CASE("shares are max-min fair: who is held elsewhere leaves the rest to the others") {
  // Links 0: 10 B/s, 1: 4 B/s. Flow a over 0 and 1, b over 1, c over 0.
  // Link 1 fills first: a = b = 2 B/s; c takes what is left of link 0: 8 B/s.
  const std::vector<BytesPerSecond> links{BytesPerSecond(10), BytesPerSecond(4)};
  PlainNetwork network(links);
  Ends ends(network);
  network.transfer(over({0, 1}), Bytes(20), Seconds(0), 0);
  network.transfer(over({1}), Bytes(20), Seconds(0), 1);
  network.transfer(over({0}), Bytes(80), Seconds(0), 2);
  network.run(ends);
  CHECK(ends.at[0] == doctest::Approx(10));
  CHECK(ends.at[1] == doctest::Approx(10));
  CHECK(ends.at[2] == doctest::Approx(10));
}

TEST_CASE("a share freed by one transfer goes to the others at once") {
  // 10 B/s, flows of 10 and 30 bytes: 5 B/s each until t = 2; then 20 bytes are left at 10 B/s: t = 4.
  const std::vector<BytesPerSecond> links{BytesPerSecond(10)};
  PlainNetwork network(links);
  Ends ends(network);
  network.transfer(over({0}), Bytes(10), Seconds(0), 0);
  network.transfer(over({0}), Bytes(30), Seconds(0), 1);
  network.run(ends);
  CHECK(ends.at[0] == doctest::Approx(2));
  CHECK(ends.at[1] == doctest::Approx(4));
}

TEST_CASE("a coefficient multiplies the load on a link, and the fair share is of progress") {
  // 12 B/s. Flow a has coefficient 2, b has 1: both progress at 12 / 3 = 4 B/s, a loading the link with 8.
  const std::vector<BytesPerSecond> links{BytesPerSecond(12)};
  PlainNetwork network(links);
  Ends ends(network);
  const std::vector<LinkUse> twice{{LinkId(0), 2.0}};
  network.transfer(twice, Bytes(40), Seconds(0), 0);
  network.transfer(over({0}), Bytes(40), Seconds(0), 1);
  network.run(ends);
  CHECK(ends.at[0] == doctest::Approx(10));
  CHECK(ends.at[1] == doctest::Approx(10));
  CHECK(network.carried()[0].si() == doctest::Approx(120));  // 2·40 + 40
}

TEST_CASE(
    "who may have no more leaves the rest to the others, and a bound above the share holds nobody back") {
  // Links of 12 and 100 B/s. a over both, at most 3 B/s of progress; b over the first with coefficient 2: (12 − 3) / 2 = 4.5;
  // c over the second, bound at 200: 100 − 3 = 97.
  const std::vector<BytesPerSecond> links{BytesPerSecond(12), BytesPerSecond(100)};
  PlainNetwork network(links);
  Ends ends(network);
  network.transfer(over({0, 1}), Bytes(30), Seconds(0), 0, BytesPerSecond(3));
  network.transfer(std::vector<LinkUse>{{LinkId(0), 2.0}}, Bytes(45), Seconds(0), 1);
  network.transfer(over({1}), Bytes(970), Seconds(0), 2, BytesPerSecond(200));
  network.run(ends);
  for (const Token token : {0U, 1U, 2U}) CHECK(ends.at[token] == doctest::Approx(10).epsilon(1e-12));
}

TEST_CASE("bounds that fill a link exactly let all of them have theirs") {
  // 10 B/s in ten bounds of 1 B/s; what comes last is alone on the link, and has 1 B/s still.
  const std::vector<BytesPerSecond> links{BytesPerSecond(10)};
  PlainNetwork network(links);
  Ends ends(network);
  for (unsigned i = 0; i < 10; ++i)
    network.transfer(over({0}), Bytes(1.0 + i), Seconds(0), i, BytesPerSecond(1));
  network.run(ends);
  for (unsigned i = 0; i < 10; ++i) CHECK(ends.at[i] == doctest::Approx(1.0 + i).epsilon(1e-12));
}

TEST_CASE("what ends at one time is told in the order it was started") {
  const std::vector<BytesPerSecond> links(16, 1_GBps);
  PlainNetwork network(links);
  Ends ends(network);
  for (unsigned i = 0; i < 16; ++i) network.transfer(over({(i * 7) % 16}), 1_MB, 1_us, i);
  for (unsigned i = 16; i < 32; ++i) network.delay(Seconds(1e-3 + 1e-6), i);
  network.run(ends);
  CHECK(std::is_sorted(ends.order.begin(), ends.order.end()));
  CHECK(ends.order.size() == 32);
}

TEST_CASE("nothing to move takes the latency alone") {
  const std::vector<BytesPerSecond> links{1_GBps};
  PlainNetwork network(links);
  Ends ends(network);
  network.transfer(over({0}), Bytes(0), 3_us, 0);
  network.transfer({}, 1_GB, 4_us, 1);
  network.delay(Seconds(0), 2);
  network.run(ends);
  CHECK(ends.at[0] == doctest::Approx(3e-6));
  CHECK(ends.at[1] == doctest::Approx(4e-6));
  CHECK(ends.at[2] == 0);
}

// Rates by the definition: raise all together, stop those on a full link. Quadratic, and obviously right.
std::vector<double> reference_rates(const std::vector<double>& capacity,
                                    const std::vector<std::vector<LinkUse>>& flows) {
  std::vector<double> rate(flows.size(), 0), left = capacity;
  std::vector<bool> fixed(flows.size(), false);
  for (;;) {
    double step = 1e300;
    std::vector<double> weight(capacity.size(), 0);
    for (std::size_t f = 0; f < flows.size(); ++f)
      if (!fixed[f])
        for (const LinkUse& use : flows[f]) weight[use.link.value()] += use.coefficient;
    for (std::size_t l = 0; l < capacity.size(); ++l)
      if (weight[l] > 0) step = std::min(step, left[l] / weight[l]);
    if (step == 1e300) return rate;
    for (std::size_t l = 0; l < capacity.size(); ++l) left[l] -= step * weight[l];
    for (std::size_t f = 0; f < flows.size(); ++f)
      if (!fixed[f]) rate[f] += step;
    for (std::size_t f = 0; f < flows.size(); ++f)
      for (const LinkUse& use : flows[f])
        if (left[use.link.value()] <= 1e-9 * capacity[use.link.value()]) fixed[f] = true;
  }
}

TEST_CASE("rates agree with the definition of max-min fairness on random networks") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<double> capacity;
    std::vector<BytesPerSecond> links;
    for (int l = 0; l < 12; ++l) {
      capacity.push_back(1 + 99 * random.uniform());
      links.emplace_back(capacity.back());
    }
    std::vector<std::vector<LinkUse>> flows;
    for (int f = 0; f < 30; ++f) {
      std::vector<LinkUse> uses;
      for (unsigned l = 0; l < 12; ++l)
        if (random.below(4) == 0)
          uses.push_back({LinkId(l), random.below(2) == 0 ? 1.0 : 0.25 + random.uniform()});
      if (uses.empty()) uses.push_back({LinkId(random.below(12)), 1.0});
      flows.push_back(uses);
    }
    // The first flow to end tells its rate: bytes / time; make every flow the first in turn by giving it little to do.
    const std::vector<double> expected = reference_rates(capacity, flows);
    for (std::size_t probe = 0; probe < flows.size(); ++probe) {
      PlainNetwork network(links);
      Ends ends(network);
      for (std::size_t f = 0; f < flows.size(); ++f)
        network.transfer(flows[f], Bytes(f == probe ? 1e-6 : 1e6), Seconds(0), f);
      network.run(ends);
      CHECK(1e-6 / ends.at[probe] == doctest::Approx(expected[probe]).epsilon(1e-6));
    }
  }
}

TEST_CASE("every link carries the bytes of the flows over it, and never faster than its bandwidth") {
  Random random(5);
  std::vector<BytesPerSecond> links;
  for (int l = 0; l < 20; ++l) links.emplace_back(1e6 * (1 + static_cast<double>(random.below(9))));
  PlainNetwork network(links);
  Ends ends(network);
  std::vector<double> expected(20, 0);
  for (unsigned f = 0; f < 500; ++f) {
    std::vector<LinkUse> uses;
    for (unsigned l = 0; l < 20; ++l)
      if (random.below(5) == 0) uses.push_back({LinkId(l), 1.0});
    const double bytes = 1 + static_cast<double>(random.below(100000));
    for (const LinkUse& use : uses) expected[use.link.value()] += bytes;
    network.transfer(uses, Bytes(bytes), Seconds(1e-6 * static_cast<double>(random.below(1000))), f);
  }
  network.run(ends);
  CHECK(ends.order.size() == 500);
  const std::vector<Bytes> carried = network.carried();
  for (std::size_t l = 0; l < 20; ++l) {
    CHECK(carried[l].si() == doctest::Approx(expected[l]).epsilon(1e-12));
    CHECK(carried[l] / network.now() <= links[l] * (1 + 1e-9));
  }
}

TEST_CASE("a link without bandwidth is our own mistake, and said so") {
  const std::vector<BytesPerSecond> links{BytesPerSecond(0)};
  CHECK_THROWS_AS(PlainNetwork{links}, std::logic_error);
}

}  // namespace
}  // namespace syncline
