// Seeded random numbers that are the same on every machine and library.
//
// The standard's engines are portable but its distributions are not, so both live here. xoshiro256** (Blackman and
// Vigna, ACM TOMS 47, 2021) seeded by SplitMix64 (Steele et al., OOPSLA 2014).
#pragma once

#include <array>
#include <cstdint>

namespace syncline {

class Random {
 public:
  explicit Random(std::uint64_t seed);

  /// 64 uniform bits.
  std::uint64_t bits();
  /// Uniform in [0, 1), 53 bits.
  double uniform();
  /// Uniform integer in [0, bound), bound > 0, without modulo bias.
  std::uint64_t below(std::uint64_t bound);
  /// Standard normal (polar method of Marsaglia, SIAM Review 6, 1964).
  double normal();

 private:
  std::array<std::uint64_t, 4> state_;
};

/// A well-mixed hash of two words: independent streams per (seed, index) without keeping a generator each.
[[nodiscard]] std::uint64_t mix(std::uint64_t seed, std::uint64_t index);

}  // namespace syncline
