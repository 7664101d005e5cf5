// Which experts the tokens of one layer go to.
//
// Everything random follows from (seed, layer, step): how popular an expert is from (seed, layer), which
// tokens choose it from all three.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "sim/moe/token_counts.hpp"

namespace syncline::moe {

struct MeasuredCounts;  // counts_file.hpp

// --- how tokens choose ---

/// Every expert has the same count, that of every source rank as well; remainders are dealt in turn. A
/// token's experts lie as if chosen at random, so that a token visits as many ranks and nodes as with
/// Uniform.
struct Balanced {
  friend bool operator==(const Balanced&, const Balanced&) = default;
};
/// Each token chooses k different experts at random, all equally likely. So does Megatron-LM's
/// `--moe-router-force-load-balancing`, which puts normal random numbers in place of the logits
/// (megatron/core/transformer/moe/moe_utils.py, RandomSTE).
struct Uniform {
  friend bool operator==(const Uniform&, const Uniform&) = default;
};
/// The i-th most popular expert has popularity i^−exponent; which one that is differs by layer. 0: uniform.
struct Zipf {
  double exponent = 1;  // >= 0
  friend bool operator==(const Zipf&, const Zipf&) = default;
};
/// The popularities of a layer are drawn from a symmetric Dirichlet distribution: small alpha, few popular
/// experts.
struct Dirichlet {
  double alpha = 1;  // > 0
  friend bool operator==(const Dirichlet&, const Dirichlet&) = default;
};
/// `experts` of each layer have `share` of all token copies between them, but at most one copy of each token;
/// the others have the rest. A limit to groups takes some of it from them.
struct Hot {
  int experts = 1;     // 1 ... E − 1
  double share = 0.5;  // above 0, below 1
  friend bool operator==(const Hot&, const Hot&) = default;
};
/// Measured counts, scaled to T·k copies from each source rank. Layers and steps beyond those measured begin
/// again with the first; with another number of ranks every source has the counts of all measured ones
/// together.
struct FromFile {
  std::string file;                                              // as the user named it
  std::shared_ptr<const MeasuredCounts> counts;                  // never null where tokens are routed
  friend bool operator==(const FromFile& a, const FromFile& b);  // the counts themselves, not the pointer
};

using Routing = std::variant<Balanced, Uniform, Zipf, Dirichlet, Hot, FromFile>;

/// Tokens of one layer that are followed one by one, over all sources of a group.
inline constexpr std::int64_t FollowedTokens = 4096;

/// Routes the tokens of one layer in one step.
///
/// Of each source min(T, FollowedTokens/R, but at least 1) tokens are followed. Where these are all of them
/// the counts are exact. Otherwise counts are what is to be expected, plus the deviation of the followed
/// tokens from it, scaled to what T tokens deviate by: mean, variance and covariance are those of T tokens.
/// Without a limit to groups the expectation is exact (expected_shares.hpp); with it, it is the mean of the
/// followed tokens of all sources, which for Uniform and Balanced is taken over all experts, ranks and nodes
/// alike.
///
/// @throws std::logic_error  as check_group, or when measured counts are of more experts
[[nodiscard]] TokenCounts route(const Routing& routing, const ExpertGroup& group, std::uint64_t seed,
                                int layer = 0, std::int64_t step = 0);

/// Popularity of each expert in a layer, sum 1, each above 0: the likelihood that it is a token's first
/// choice.
[[nodiscard]] std::vector<double> popularity(const Routing& routing, const ExpertGroup& group,
                                             std::uint64_t seed, int layer, std::int64_t step = 0);

}  // namespace syncline::moe
