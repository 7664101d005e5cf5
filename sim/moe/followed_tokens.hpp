// Some tokens of each source rank, followed one by one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/moe/expected_shares.hpp"
#include "sim/moe/token_counts.hpp"

namespace syncline::moe {

/// Of `per_source` tokens of each source how many went to each expert, rank and node.
[[nodiscard]] std::vector<Shares> follow_tokens(std::span<const double> popularity, const ExpertGroup& group,
                                                std::uint64_t seed, int layer, std::int64_t step,
                                                std::int64_t per_source);

/// Of all these tokens together the share that went there.
/// @param all_alike  experts are equally likely, and so are ranks and nodes: each gets the mean of all
[[nodiscard]] Shares mean_shares(const std::vector<Shares>& followed, std::int64_t per_source,
                                 bool all_alike);

}  // namespace syncline::moe
