// Groups of ranks and routings that several tests use.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "sim/core/random.hpp"
#include "sim/moe/routing.hpp"

namespace syncline::moe::test {

/// The expert parallelism of DeepSeek-V3: 256 experts on 64 ranks in 8 nodes, 8 of them for a token, of 4
/// nodes when limited.
inline ExpertGroup deepseek(bool limited, std::int64_t tokens = 4096) {
  return {.ranks = 64,
          .experts = 256,
          .tokens = tokens,
          .top_k = 8,
          .ranks_per_node = 8,
          .groups = limited ? 8 : 1,
          .top_groups = limited ? 4 : 1};
}

inline int one_of(const std::vector<int>& all, Random& random) {
  return all[random.below(all.size())];
}

/// Any group whose numbers fit together, small enough to route in a millisecond.
inline ExpertGroup any_group(Random& random) {
  ExpertGroup group;
  group.ranks = one_of({1, 2, 3, 4, 8, 12, 16}, random);
  group.experts = group.ranks * one_of({1, 2, 3, 4}, random);
  group.tokens = 1 + static_cast<std::int64_t>(random.below(one_of({10, 100, 3000}, random)));
  group.ranks_per_node = one_of({1, group.ranks, 2 * group.ranks, group.ranks % 2 == 0 ? 2 : 1}, random);
  group.groups = group.experts % 4 == 0 ? one_of({1, 2, 4}, random) : 1;
  group.top_groups = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(group.groups)));
  const int reachable = group.experts / group.groups * group.top_groups;
  group.top_k = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(std::min(reachable, 10))));
  return group;
}

inline std::string text_of(const ExpertGroup& group) {
  return fmt::format("{} ranks in nodes of {}, {} experts in {} groups, {} tokens choose {} of {} groups",
                     group.ranks, group.ranks_per_node, group.experts, group.groups, group.tokens,
                     group.top_k, group.top_groups);
}

}  // namespace syncline::moe::test
