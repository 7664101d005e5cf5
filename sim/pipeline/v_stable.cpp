// V-Half and V-Min: a V of two chunks a rank at about half and a third of 1F1B's memory. Qi et al., Pipeline
// Parallelism with Controllable Memory (NeurIPS 2024), section 3.2 and figure 5. The orders are made for
// equal times and do not depend on the request's.
#include "sim/pipeline/schedules.hpp"
#include "sim/pipeline/slot_grid.hpp"

namespace syncline::pipeline {
namespace {

/// At F = B = W: bubble 3p − 7 (p even, ≥ 4) or 3p − 4 (p odd), at most 2⌊(p + 2)/2⌋ chunks held.
BuildingBlock half_block(int p) {
  const int gap = p % 2 == 0 ? 3 : 0;  // else passes of a rank would meet
  BuildingBlock block;
  for (int rank = 0; rank < p; ++rank)
    block.push_back({2 * rank, 3 * p - 2 - rank, 3 * p + gap - 1 + 2 * rank, 6 * p + gap - 2 - rank});
  return block;
}

/// At F = B = W: bubble 4p − 5, or 4p − 7 where 3 divides p; at most 2⌊(p + 4)/3⌋ chunks held. With unequal
/// times the bubble grows with m.
BuildingBlock min_block(int p) {
  const int gap = p % 3 == 0 ? 2 : 0;
  BuildingBlock block;
  for (int rank = 0; rank < p; ++rank)
    block.push_back({rank, 2 * p - 1 - rank, 2 * p + gap + rank, 4 * p + gap - 1 - rank});
  return block;
}

/// Repeats the block and squeezes the ends with weight gradients in the gaps; then squeezes the cool-down
/// once more without them, and gives them the gaps that are left.
Order from_block(const BuildingBlock& block, int microbatches) {
  const SlotGrid ends =
      squeezed(with_weights(repeated(block, microbatches, Backward::Split)), Backward::Split);
  const SlotGrid cool_down = cool_down_squeezed(without_weights(packed(ends)));
  const SlotGrid early = packed(with_weights(cool_down));
  return order_of(with_weights(without_weights(early)), Backward::Split);
}

Order make_half(const Request& request) {
  return from_block(half_block(request.ranks), request.microbatches);
}
Order make_min(const Request& request) {
  return from_block(min_block(request.ranks), request.microbatches);
}

Generator stable(std::string_view name, std::string_view title, std::string_view summary,
                 Order (*make)(const Request&)) {
  return {.name = name,
          .title = title,
          .summary = summary,
          .accepts = "any p, any m",
          .source = "Qi et al., Pipeline Parallelism with Controllable Memory (NeurIPS 2024), section 3.2",
          .placement = Placement::V,
          .default_chunks = 2,
          .least_chunks = 2,
          .most_chunks = 2,
          .make = make};
}

}  // namespace

Generator v_half() {
  return stable("v-half", "V-Half", "a V at half of 1F1B's memory, with a smaller bubble than 1F1B's",
                make_half);
}

Generator v_min() {
  return stable("v-min", "V-Min", "a V at a third of 1F1B's memory, the least that a V needs", make_min);
}

}  // namespace syncline::pipeline
