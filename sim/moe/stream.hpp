// Independent streams of random numbers for what is drawn in a layer.
#pragma once

#include <cstdint>

#include "sim/core/random.hpp"

namespace syncline::moe {

enum class Draw : std::uint64_t { Popularity = 1, Order, Tokens };

[[nodiscard]] inline Random stream_of(Draw draw, std::uint64_t seed, int layer, std::int64_t step = 0,
                                      int source = 0) {
  std::uint64_t mixed = mix(seed, static_cast<std::uint64_t>(draw));
  for (const std::int64_t index : {std::int64_t{layer}, step, std::int64_t{source}})
    mixed = mix(mixed, static_cast<std::uint64_t>(index));
  return Random(mixed);
}

}  // namespace syncline::moe
