// Rows of slots, one a rank, in which a building block was repeated, and how their ends are put in a better
// order.
//
// Source: Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), section 3; what the
// paper leaves open is as in the authors' public scheduler.
#pragma once

#include <array>
#include <vector>

#include "sim/pipeline/slot_grid.hpp"

namespace syncline::pipeline::search {

using Row = std::vector<Slot>;
using Rows = std::vector<Row>;
using SlotCounts = std::array<int, 7>;  // by Slot

constexpr int index(Slot what) {
  return static_cast<int>(what);
}
/// What an action adds to the activations that its rank holds.
constexpr int held_by(Slot what) {
  return is_forward(what) ? 1 : is_weight(what) ? -1 : 0;
}

/// Most activations held by a rank.
[[nodiscard]] int peak(const Rows& rows);
/// Makes all as long as the longest. @returns its slots
int align(Rows& rows);

/// Lengthens the row as needed. False where the slot is taken.
bool put(Row& row, int slot, Slot what);

/// First slots of all a rank does, given those of its passes; each weight gradient takes the next slot of the
/// period that is free.
[[nodiscard]] std::array<int, 6> first_slots(const std::array<int, 4>& passes);

/// The block for each microbatch, a period apart.
void repeat(const BuildingBlock& block, int microbatches, Rows& rows);

/// Before its first B0 a rank does its forwards as early as the V lets them come, then B1, W1 and a forward
/// in turn. False where an action is in the way.
[[nodiscard]] bool reorder_warm_up(Rows& rows, int microbatches);

/// Takes out the later microbatches.
void keep_first(int microbatches, Rows& rows);

/// Weight gradients go to the end, as long as a rank holds less than `most`.
void hold_weights_back(int most, Rows& rows);

/// From the last F1 of rank 0 on, gradients come down and go up in every other slot; weight gradients fill
/// what is left. False where an action is in the way.
/// @param held  peak() of the rows
[[nodiscard]] bool reorder_cool_down(Rows& rows, int microbatches, int held);

/// Weight gradients in the order of their gradients.
void name_weights(Rows& rows);

}  // namespace syncline::pipeline::search
