// Which experts the tokens of one layer go to: counts by source rank, for one group of ranks that share the experts
// of the layer (expert parallelism).
//
// A group has R ranks, each with T tokens. Each token goes to k of E experts. Rank r holds the experts
// r·E/R ... (r+1)·E/R − 1, and node v the ranks v·g ... (v+1)·g − 1.
//
// Everything random follows from (seed, layer, step): the popularity of an expert from (seed, layer), which tokens
// choose it from all three.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace syncline::moe {

struct MeasuredCounts;  // counts_file.hpp

// --- how tokens choose ---

/// Every expert has the same count, that of every source rank as well; remainders are dealt in turn. A token's experts
/// lie as if chosen at random, so that a token visits as many ranks and nodes as with Uniform.
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
/// The popularities of a layer are drawn from a symmetric Dirichlet distribution: small alpha, few popular experts.
struct Dirichlet {
  double alpha = 1;  // > 0
  friend bool operator==(const Dirichlet&, const Dirichlet&) = default;
};
/// `experts` of each layer have `share` of all token copies between them, but at most one copy of each token; the
/// others have the rest. A limit to groups takes some of it from them.
struct Hot {
  int experts = 1;     // 1 ... E − 1
  double share = 0.5;  // above 0, below 1
  friend bool operator==(const Hot&, const Hot&) = default;
};
/// Measured counts, scaled to T·k copies from each source rank. Layers and steps beyond those measured begin again
/// with the first; with another number of ranks every source has the counts of all measured ones together.
struct FromFile {
  std::shared_ptr<const MeasuredCounts> counts;  // never null where tokens are routed
  friend bool operator==(const FromFile&, const FromFile&) = default;
};

using Routing = std::variant<Balanced, Uniform, Zipf, Dirichlet, Hot, FromFile>;

// --- where from, where to ---

/// The ranks that share a layer's experts, and how many experts a token chooses.
struct ExpertGroup {
  int ranks = 1;            // R; divides `experts`
  int experts = 1;          // E
  std::int64_t tokens = 1;  // T, of one rank
  int top_k = 1;            // k <= E
  int ranks_per_node = 1;   // g; divides R, or is larger: then all are one node

  /// A token's experts are of at most `top_groups` of so many groups of E/groups consecutive experts (DeepSeek-V3,
  /// arXiv 2412.19437, section 2.1.2, node-limited routing). 1: no limit.
  int groups = 1;      // divides `experts`
  int top_groups = 1;  // M <= groups; M groups have at least k experts

  [[nodiscard]] int experts_per_rank() const { return experts / ranks; }
  [[nodiscard]] int nodes() const { return ranks <= ranks_per_node ? 1 : ranks / ranks_per_node; }
  [[nodiscard]] int experts_per_node() const { return experts / nodes(); }
  [[nodiscard]] bool limited() const { return top_groups < groups; }
};

/// @throws std::logic_error  when its numbers do not fit together as said beside them
void check_group(const ExpertGroup& group);

/// A row of whole numbers for each source rank.
class CountTable {
 public:
  CountTable() = default;
  CountTable(int rows, int columns);

  [[nodiscard]] int rows() const { return rows_; }
  [[nodiscard]] int columns() const { return columns_; }
  [[nodiscard]] std::span<std::int64_t> operator[](int row);
  [[nodiscard]] std::span<const std::int64_t> operator[](int row) const;
  [[nodiscard]] std::int64_t sum() const;
  [[nodiscard]] std::vector<std::int64_t> column_sums() const;
  friend bool operator==(const CountTable&, const CountTable&) = default;

 private:
  int rows_ = 0, columns_ = 0;
  std::vector<std::int64_t> cells_;  // row after row
};

/// What the ranks of a group send to one layer's experts.
struct TokenCounts {
  CountTable experts;  // [source][expert]: token copies; a row sums to T·k, less what was dropped
  CountTable ranks;    // [source][rank]: different tokens with an expert there, sent once to each rank
  CountTable nodes;    // [source][node]: different tokens with an expert there, sent once to each node

  std::int64_t dropped = 0;  // copies beyond an expert's capacity, over all sources
  std::int64_t padding = 0;  // of `experts`, copies that fill up to the capacity and carry no token
  friend bool operator==(const TokenCounts&, const TokenCounts&) = default;
};

/// Tokens of one layer that are followed one by one, over all sources of a group.
inline constexpr std::int64_t FollowedTokens = 4096;

/// Routes the tokens of one layer in one step.
///
/// Of each source min(T, FollowedTokens/R, but at least 1) tokens are followed. Where these are all of them the counts
/// are exact. Otherwise counts are what is to be expected, plus the deviation of the followed tokens from it, scaled
/// to what T tokens deviate by: mean, variance and covariance are those of T tokens. Without a limit to groups the
/// expectation is exact (expected_shares.hpp); with it, it is the mean of the followed tokens of all sources, which for
/// Uniform and Balanced is taken over all experts, ranks and nodes alike.
///
/// @throws std::logic_error  as check_group, or when measured counts are of another number of experts
[[nodiscard]] TokenCounts route(const Routing& routing, const ExpertGroup& group, std::uint64_t seed,
                                int layer = 0, std::int64_t step = 0);

/// Popularity of each expert in a layer, sum 1, each above 0: the likelihood that it is a token's first choice.
[[nodiscard]] std::vector<double> popularity(const Routing& routing, const ExpertGroup& group,
                                             std::uint64_t seed, int layer, std::int64_t step = 0);

// --- capacity ---

/// An expert takes at most ⌈T·k/E · factor⌉ copies from each source rank, the rest is dropped. By source and not by the
/// whole group, as Megatron-LM has it (moe_utils.py, get_capacity and apply_router_token_dropping, over the tokens of a
/// rank) and GShard, whose groups of tokens each have their share of an expert's capacity.
struct Capacity {
  double factor = 1;  // > 0
  bool pad = false;   // every expert gets its capacity from every source, whatever was chosen
};
[[nodiscard]] std::int64_t expert_capacity(const ExpertGroup& group, double factor);

/// Drops and pads. Of the different tokens sent to a rank or node as large a share stays as of the copies for it, and
/// at least as many as its fullest expert has; padding is none of them.
[[nodiscard]] TokenCounts with_capacity(TokenCounts counts, const ExpertGroup& group,
                                        const Capacity& capacity);

/// Copies dropped over copies chosen.
[[nodiscard]] double dropped_share(const TokenCounts& counts);

}  // namespace syncline::moe
