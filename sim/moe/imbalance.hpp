// How unevenly the tokens of a layer fall on experts, ranks and nodes.
#pragma once

#include <cstdint>
#include <span>

#include "sim/moe/token_counts.hpp"

namespace syncline::moe {

struct Imbalance {
  double max_over_mean = 1;  // the fullest has so many times the mean; the layer takes as long as it
  double variation = 0;      // coefficient of variation: standard deviation over mean
  friend bool operator==(const Imbalance&, const Imbalance&) = default;
};
/// Of some loads; all 0 are balanced.
[[nodiscard]] Imbalance imbalance_of(std::span<const std::int64_t> loads);

/// Of the copies that experts, ranks and nodes receive.
struct LayerImbalance {
  Imbalance experts, ranks, nodes;
};
[[nodiscard]] LayerImbalance imbalance_of(const TokenCounts& counts, const ExpertGroup& group);

/// Each figure over layers, which wait for one another: a step loses by the mean of max/mean, not by that of
/// the sums.
struct ImbalanceOverLayers {
  LayerImbalance mean, largest;
};
/// @param layers  at least one
[[nodiscard]] ImbalanceOverLayers over_layers(std::span<const LayerImbalance> layers);

}  // namespace syncline::moe
