// How popular the experts of a layer are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/moe/routing.hpp"

namespace syncline::moe {

/// Popularities with which a draw of k without replacement gives about these shares of the tokens to the
/// experts: the rates of independent arrivals that have come with those likelihoods at one time.
/// @param shares  from 0 to 1, sum k
[[nodiscard]] std::vector<double> popularity_for(std::vector<double> shares);

/// Of k copies of each token the share that each expert has, in proportion to its count, but at most 1: what
/// is beyond goes to the others in proportion to theirs, or evenly when these have none.
[[nodiscard]] std::vector<double> shares_of(std::span<const std::int64_t> counts, int k);

/// What a source rank sends to each expert in a layer and step, by measured counts; 0 to those beyond the measured.
[[nodiscard]] std::vector<std::int64_t> measured_row(const MeasuredCounts& counts, const ExpertGroup& group,
                                                     int layer, std::int64_t step, int source);
/// The same of all sources together.
[[nodiscard]] std::vector<std::int64_t> measured_sum(const MeasuredCounts& counts, const ExpertGroup& group,
                                                     int layer, std::int64_t step);

}  // namespace syncline::moe
