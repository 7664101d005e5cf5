// What the ranks that share the experts of a layer send to each other (expert parallelism).
//
// A group has R ranks, each with T tokens. Each token goes to k of E experts. Rank r holds the experts
// r·E/R ... (r+1)·E/R − 1, and node v the ranks v·g ... (v+1)·g − 1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace syncline::moe {

/// The ranks that share a layer's experts, and how many experts a token chooses.
struct ExpertGroup {
  int ranks = 1;            // R; divides `experts`
  int experts = 1;          // E
  std::int64_t tokens = 1;  // T, of one rank
  int top_k = 1;            // k <= E
  int ranks_per_node = 1;   // g; divides R, or is larger: then all are one node

  /// A token's experts are of at most `top_groups` of so many groups of E/groups consecutive experts
  /// (DeepSeek-V3, arXiv 2412.19437, section 2.1.2, node-limited routing). 1: no limit.
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

}  // namespace syncline::moe
