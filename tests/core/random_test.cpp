#include "sim/core/random.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

using namespace syncline;

TEST_SUITE("random numbers") {
  TEST_CASE("the generator gives the numbers of the published algorithms") {
    // xoshiro256** (Blackman and Vigna) whose state is the first four outputs of SplitMix64 of the seed.
    // Worked out by a separate implementation in Python, itself held against the published sequences:
    // SplitMix64 of 1234567 begins 6457827717110365317, 3203168211198807973; xoshiro256** of state (1, 2, 3,
    // 4) begins 11520, 0, 1509978240.
    struct Row {
      std::uint64_t seed;
      std::array<std::uint64_t, 4> bits;
    };
    const Row rows[] = {
        {0, {0x99ec5f36cb75f2b4, 0xbf6e1f784956452a, 0x1a5f849d4933e6e0, 0x6aa594f1262d2d2c}},
        {1, {0xb3f2af6d0fc710c5, 0x853b559647364cea, 0x92f89756082a4514, 0x642e1c7bc266a3a7}},
        {42, {0x15780b2e0c2ec716, 0x6104d9866d113a7e, 0xae17533239e499a1, 0xecb8ad4703b360a1}},
        {0xffffffffffffffff,
         {0x8f5520d52a7ead08, 0xc476a018caa1802d, 0x81de31c0d260469e, 0xbf658d7e065f3c2f}},
    };
    for (const Row& row : rows) {
      CAPTURE(row.seed);
      Random random(row.seed);
      for (const std::uint64_t bits : row.bits) CHECK(random.bits() == bits);
    }
    Random random(42);
    CHECK(random.uniform() == 0.08386297105988216);  // 0x15780b2e0c2ec716 >> 11, times 2^-53
    CHECK(random.uniform() == 0.3789802506626686);
    CHECK(mix(0, 0) == 0x6e789e6aa1b965f4);  // the second output of SplitMix64 of 0
    CHECK(mix(42, 7) == 0x751df7b775a96370);
  }

  TEST_CASE("the same seed gives the same numbers, another seed others") {
    Random a(7), b(7), c(8);
    int equal_to_c = 0;
    for (int i = 0; i < 1000; ++i) {
      const double x = a.normal();
      CHECK(x == b.normal());
      equal_to_c += x == c.normal();
    }
    CHECK(equal_to_c == 0);
  }

  TEST_CASE("uniform numbers lie in [0, 1) with mean 1/2 and variance 1/12") {
    constexpr int Count = 200000;
    Random random(1);
    double sum = 0, squares = 0;
    std::array<int, 11> tenths{};
    int outside = 0;
    for (int i = 0; i < Count; ++i) {
      const double x = random.uniform();
      outside += x < 0 || x >= 1;
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
      ++tenths.at(static_cast<std::size_t>(x * 10));
    }
    // Standard error of the mean: sqrt(1/12 / 200000) = 6.5e-4; of the variance: sqrt(1/180 / 200000)
    // = 1.7e-4. Bounds: 5 of them.
    CHECK(std::abs(sum / Count - 0.5) < 3.3e-3);
    CHECK(std::abs(squares / Count - 1.0 / 12) < 8.5e-4);
    // Each tenth: 20000 expected, standard deviation sqrt(200000 x 0.1 x 0.9) = 134.
    for (std::size_t i = 0; i < 10; ++i) CHECK(std::abs(tenths[i] - 20000) < 670);
    CHECK(outside == 0);
  }

  TEST_CASE("integers below a bound are all reached and equally often") {
    constexpr int Count = 60000;
    Random random(2);
    std::array<int, 6> faces{};
    for (int i = 0; i < Count; ++i) ++faces.at(random.below(6));
    // Each: 10000 expected, standard deviation sqrt(60000 x 1/6 x 5/6) = 91.
    for (const int count : faces) CHECK(std::abs(count - 10000) < 457);
    for (int i = 0; i < 100; ++i) CHECK(random.below(1) == 0);
    // Of a bound just above 2^63 a modulo would return the lower half of the range twice as often.
    const std::uint64_t bound = (std::uint64_t{1} << 63) + 1;
    int low = 0, beyond = 0;
    for (int i = 0; i < 10000; ++i) {
      const std::uint64_t value = random.below(bound);
      beyond += value >= bound;
      low += value < bound / 2;
    }
    CHECK(beyond == 0);
    CHECK(std::abs(low - 5000) < 250);  // standard deviation 50
  }

  TEST_CASE("normal numbers have mean 0, variance 1 and the tails of the bell curve") {
    constexpr int Count = 200000;
    Random random(3);
    double sum = 0, squares = 0, cubes = 0;
    int beyond_two = 0;
    for (int i = 0; i < Count; ++i) {
      const double x = random.normal();
      sum += x;
      squares += x * x;
      cubes += x * x * x;
      beyond_two += std::abs(x) > 2;
    }
    // Standard errors: mean 1/sqrt(n) = 2.2e-3, variance sqrt(2/n) = 3.2e-3, third moment sqrt(15/n)
    // = 8.7e-3.
    CHECK(std::abs(sum / Count) < 0.0112);
    CHECK(std::abs(squares / Count - 1) < 0.0158);
    CHECK(std::abs(cubes / Count) < 0.0433);
    // 4.55 % lie beyond two standard deviations: 9100 expected, standard deviation 93.
    CHECK(std::abs(beyond_two - 9100) < 466);
  }

  TEST_CASE("hashes of neighbouring indices differ in about half of their bits") {
    std::set<std::uint64_t> seen;
    double bits = 0;
    for (std::uint64_t i = 0; i < 10000; ++i) {
      seen.insert(mix(5, i));
      bits += static_cast<double>(__builtin_popcountll(mix(5, i) ^ mix(5, i + 1)));
    }
    CHECK(seen.size() == 10000);
    CHECK(bits / 10000 == doctest::Approx(32).epsilon(0.0125));  // standard error 4 / 100
  }
}
