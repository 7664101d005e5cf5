// A comparison for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/compare/comparison.hpp"

namespace syncline::compare {

struct TextOptions {
  std::string name_a = "A", name_b = "B";  // of the files
  std::size_t worst = 10;                  // lines of each list
};

[[nodiscard]] std::string comparison_text(const Comparison& comparison, const TextOptions& options);

// Its lines, for others who name the same things.

/// "rank 2, compute: F layer 3 layer-forward: A 1.3 ms, B 1 ms, +30.0 %".
[[nodiscard]] std::string pair_text(const Comparison& comparison, std::uint32_t pair);
/// "rank 2, compute: F layer 3 layer-forward starts 1.2 ms later in A".
[[nodiscard]] std::string start_text(const Comparison& comparison, std::uint32_t pair);
/// "rank 2, compute: F layer 3 layer-forward: in A after F layer 2 layer-forward, in B the first".
[[nodiscard]] std::string moved_text(const Comparison& comparison, const Moved& moved);
/// "rank 2 alone: its clock is 3 ms later in B".
[[nodiscard]] std::string clock_text(const Clocks::Differing& rank);

}  // namespace syncline::compare
