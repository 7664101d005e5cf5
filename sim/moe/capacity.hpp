// Experts that take only so many tokens.
#pragma once

#include <cstdint>

#include "sim/moe/token_counts.hpp"

namespace syncline::moe {

/// An expert takes at most ⌈T·k/E · factor⌉ copies from each source rank, the rest is dropped. By source and
/// not by the whole group, as Megatron-LM has it (moe_utils.py, get_capacity and apply_router_token_dropping,
/// over the tokens of a rank) and GShard, whose groups of tokens each have their share of an expert's
/// capacity.
struct Capacity {
  double factor = 1;  // > 0
  bool pad = false;   // every expert gets its capacity from every source, whatever was chosen
};
[[nodiscard]] std::int64_t expert_capacity(const ExpertGroup& group, double factor);

/// Drops and pads. Of the different tokens sent to a rank or node as large a share stays as of the copies for
/// it, and at least as many as its fullest expert has; padding is none of them.
[[nodiscard]] TokenCounts with_capacity(TokenCounts counts, const ExpertGroup& group,
                                        const Capacity& capacity);

/// Copies dropped over copies chosen.
[[nodiscard]] double dropped_share(const TokenCounts& counts);

}  // namespace syncline::moe
