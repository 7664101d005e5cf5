// Numbers of tokens made whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace syncline::moe {

/// The least and the most that a number may become.
struct Bounds {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// Rounds `values` so that their sum is `total`: the largest remainders up; of equal ones those that come
/// first when counted from `start` on. Bounds are kept even if the sum then cannot be.
void round_to_sum(std::span<const double> values, std::int64_t total, std::size_t start,
                  std::span<const Bounds> bounds, std::span<std::int64_t> rounded);

/// Rounds how many different tokens each place (a rank, a node) gets. A place has as many `parts` (experts,
/// ranks) as any, one place's behind another's; it gets at least as many tokens as its fullest part, and at
/// most all of its parts together or all of the source.
void round_places(std::span<const double> values, std::span<const std::int64_t> parts,
                  std::int64_t source_tokens, std::span<std::int64_t> rounded);

}  // namespace syncline::moe
