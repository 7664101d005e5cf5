#include "sim/core/random.hpp"

#include <bit>
#include <cmath>

namespace syncline {
namespace {

// Constants of SplitMix64, from the reference implementation of Vigna (public domain).
constexpr std::uint64_t Golden = 0x9E3779B97F4A7C15ULL;

std::uint64_t split_mix(std::uint64_t& state) {
  std::uint64_t z = (state += Golden);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed) {
  for (std::uint64_t& word : state_) word = split_mix(seed);
}

std::uint64_t Random::bits() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Random::uniform() {
  return static_cast<double>(bits() >> 11) * 0x1.0p-53;
}

std::uint64_t Random::below(std::uint64_t bound) {
  const std::uint64_t threshold = -bound % bound;  // 2^64 mod bound: values below it would be favoured
  for (;;) {
    const std::uint64_t value = bits();
    if (value >= threshold) return value % bound;
  }
}

double Random::normal() {
  for (;;) {
    const double x = 2 * uniform() - 1;
    const double y = 2 * uniform() - 1;
    const double square = x * x + y * y;
    if (square > 0 && square < 1) return x * std::sqrt(-2 * std::log(square) / square);
  }
}

std::uint64_t mix(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t state = seed ^ (index * Golden);
  split_mix(state);
  return split_mix(state);
}

}  // namespace syncline
