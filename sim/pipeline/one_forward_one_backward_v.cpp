// 1F1B-V: whole backwards in a V, at two thirds of 1F1B's memory. Qi et al., Pipeline Parallelism with
// Controllable Memory (NeurIPS 2024), appendix on 1F1B-V.
#include "sim/pipeline/schedules.hpp"
#include "sim/pipeline/slot_grid.hpp"

namespace syncline::pipeline {
namespace {

/// Forwards follow one another slot after slot. A backward takes two slots, and after each third one three
/// slots are left out, which belong to the forwards and backwards of other microbatches; so no two passes of
/// a rank meet modulo 6.
BuildingBlock block_of(int p) {
  BuildingBlock block(static_cast<std::size_t>(p));
  const auto at = [&](int rank, Slot pass) -> int& {
    return block[static_cast<std::size_t>(rank)][static_cast<std::size_t>(pass)];
  };
  const int turned = 2 * p + (p % 3 == 0 ? 3 : 0);  // the gradient starts
  const int behind = (2 * p + 1) % 3;               // backwards since slots were left out
  const auto backward_slot = [&](int k) { return turned + 2 * k + 3 * ((behind + k) / 3); };
  for (int rank = 0; rank < p; ++rank) {
    at(rank, Slot::F0) = rank;
    at(rank, Slot::F1) = 2 * p - 1 - rank;
    at(rank, Slot::B1) = backward_slot(rank);
    at(rank, Slot::B0) = backward_slot(2 * p - 1 - rank);
  }
  return block;
}

Order make(const Request& request) {
  const SlotGrid grid = repeated(block_of(request.ranks), request.microbatches, Backward::Whole);
  return order_of(squeezed(grid, Backward::Whole), Backward::Whole);
}

}  // namespace

Generator one_forward_one_backward_v() {
  return {.name = "1f1b-v",
          .title = "1F1B-V",
          .summary = "whole backwards over a V of two chunks a rank, at about two thirds of 1F1B's memory",
          .accepts = "any p, any m",
          .source = "Qi et al., Pipeline Parallelism with Controllable Memory (NeurIPS 2024); sail-sg v1f1b",
          .placement = Placement::V,
          .default_chunks = 2,
          .least_chunks = 2,
          .most_chunks = 2,
          .make = make};
}

}  // namespace syncline::pipeline
