// How large a schedule's figures may be: far beyond anything that is built, and small enough that sums and products of
// them stay finite.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/core/quantity.hpp"

namespace syncline::limits {

inline constexpr Seconds MostTime(1e6);
inline constexpr Bytes MostBytes(1e18);
inline constexpr Flop MostFlop(1e30);
inline constexpr double MostTokens = 1e18;
inline constexpr double LeastFactor = 1e-6, MostFactor = 1e6;  // of a rank's speed
inline constexpr std::int64_t MostSize = 1000000000;           // m, n, k and batch of a kernel
inline constexpr std::size_t MostStreams = 255;
inline constexpr int MostChunks = 1 << 16;  // of a collective
inline constexpr double MostItems = 1e15;   // of an exchange, from one member to another
inline constexpr std::size_t MostNumbers = std::size_t{1} << 26;  // in all exchanges and loads

/// By type of quantity, for readers.
[[nodiscard]] constexpr double most(Seconds) {
  return MostTime.si();
}
[[nodiscard]] constexpr double most(Bytes) {
  return MostBytes.si();
}
[[nodiscard]] constexpr double most(Flop) {
  return MostFlop.si();
}

}  // namespace syncline::limits
