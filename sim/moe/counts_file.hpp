// Measured counts of tokens by expert, read from a table.
//
//   step,layer,rank,expert,tokens
//   0,0,0,0,217
//
// One row for each step, layer, source rank and expert, each counted from 0, in any order; `step` may be left
// out when there is one. `tokens` are the copies that the rank sends to the expert. Rows that are not there
// mean 0 tokens, but every rank of every layer of every step has at least one token, and there is no step,
// layer or rank without rows between others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace syncline::moe {

struct MeasuredCounts {
  std::string file;  // as the user named it
  std::int64_t steps = 1;
  int layers = 1, ranks = 1, experts = 1;
  std::vector<std::int64_t> tokens;  // [((step · layers + layer) · ranks + rank) · experts + expert]

  /// What a rank sends to each expert. Layers and steps beyond the last begin again with the first.
  [[nodiscard]] std::span<const std::int64_t> sent(std::int64_t step, int layer, int rank) const;
  friend bool operator==(const MeasuredCounts&, const MeasuredCounts&) = default;
};

/// @param name  of the file, for messages
/// @throws InputError with file and line on a missing or unknown column, a number that is none or out of
///         range, a row for what another row has, or a rank without tokens
[[nodiscard]] MeasuredCounts parse_counts(std::string_view text, const std::string& name);

}  // namespace syncline::moe
