// Experts that take only so many tokens.
#pragma once

#include <cstdint>

#include "sim/moe/token_counts.hpp"

namespace syncline::moe {

/// An expert takes at most ⌈T·k/E · factor⌉ copies from each source rank; what is beyond is dropped.
///
/// By source and not by the whole group, as Megatron-LM has it (get_capacity and apply_router_token_dropping
/// of megatron/core/transformer/moe/moe_utils.py, over the tokens of one rank). GShard's capacity, too, is of
/// each of its groups of tokens, but its factor counts tokens, not copies: with two experts a token its 2 is
/// 1 here (top2_gating_on_logits of github.com/google/praxis, praxis/gshard_utils.py).
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
