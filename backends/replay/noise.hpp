// How unevenly ops run: a factor for each, drawn from who it is, so that nothing else of a run changes the
// draw.
#pragma once

#include <cmath>

#include "sim/core/random.hpp"

namespace syncline {

/// Lognormal with mean 1: exp(σz − σ²/2), σ² = ln(1 + c²), z standard normal.
/// @param variation  c ≥ 0, its coefficient of variation (standard deviation ÷ mean)
/// @param stream     keeps draws for different uses apart
[[nodiscard]] inline double noise_factor(double variation, std::uint64_t seed, std::uint64_t stream,
                                         std::uint64_t rank, std::uint64_t op) {
  if (variation == 0) return 1;
  const double variance = std::log1p(variation * variation);
  const double z = Random(mix(mix(mix(seed, stream), rank), op)).normal();
  return std::exp(std::sqrt(variance) * z - variance / 2);
}

}  // namespace syncline
