// Schedules from a repeated building block: Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS
// 2024 (arXiv 2405.15362), section 3. Two chunks a rank lie in a V; a block says in which slot of time each
// rank makes each pass of the first microbatch; it is repeated for every microbatch, and the ends are
// squeezed.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/pipeline/generator.hpp"

namespace syncline::pipeline {

/// What a rank does in a slot. A microbatch goes down the ranks in chunk 0 and up in chunk 1, and its
/// gradient down in chunk 1 and up in chunk 0: that is the order here. Then the weight gradients.
enum class Slot : std::uint8_t { F0, F1, B1, B0, W1, W0, Idle };

constexpr bool is_forward(Slot what) {
  return what == Slot::F0 || what == Slot::F1;
}
constexpr bool is_gradient(Slot what) {
  return what == Slot::B1 || what == Slot::B0;
}
constexpr bool is_weight(Slot what) {
  return what == Slot::W1 || what == Slot::W0;
}
constexpr Slot weight_of(Slot gradient) {
  return gradient == Slot::B1 ? Slot::W1 : Slot::W0;
}

/// First slots of F0, F1, B1, B0 on a rank. They differ modulo the period.
using BuildingBlock = std::vector<std::array<int, 4>>;
constexpr int BlockPeriod = 6;  // slots between two microbatches: F, B and W of two chunks

/// Equal slots of time on every rank.
class SlotGrid {
 public:
  SlotGrid(int ranks, int microbatches)
      : microbatches_(microbatches), rows_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] int ranks() const { return static_cast<int>(rows_.size()); }
  [[nodiscard]] int microbatches() const { return microbatches_; }
  [[nodiscard]] int length() const;  // of the longest row
  [[nodiscard]] Slot at(int rank, int slot) const;
  void put(int rank, int slot, Slot what);  // lengthens the row as needed
  [[nodiscard]] std::vector<Slot>& row(int rank) { return rows_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::vector<Slot>& row(int rank) const { return rows_[static_cast<std::size_t>(rank)]; }

 private:
  int microbatches_;
  std::vector<std::vector<Slot>> rows_;
};

/// How a backward stands in the grid: I alone, or I and W side by side.
enum class Backward : std::uint8_t { Split, Whole };

/// The block once for each microbatch, a period apart.
[[nodiscard]] SlotGrid repeated(const BuildingBlock& block, int microbatches, Backward backward);

/// Squeezes: in the order of time, every pass moves to the earliest free slot that its inputs allow, as long
/// as no rank holds more than the fullest rank did before. With Split backwards only the two ends move; what
/// lies between the first gradient that is back at rank 0 and the first rank's last forward stays.
[[nodiscard]] SlotGrid squeezed(SlotGrid grid, Backward backward);

/// The same for the cool-down of a grid without weight gradients, which are thought to run in the first idle
/// slots.
[[nodiscard]] SlotGrid cool_down_squeezed(SlotGrid grid);

/// Weight gradients in the first idle slots after their I, chunk 1 before chunk 0; the rest at the end.
[[nodiscard]] SlotGrid with_weights(SlotGrid grid);
[[nodiscard]] SlotGrid without_weights(SlotGrid grid);

/// Every rank's order kept, everything as early as its inputs are there.
[[nodiscard]] SlotGrid packed(const SlotGrid& grid);

/// The order in which the ranks run what stands in the grid.
[[nodiscard]] Order order_of(const SlotGrid& grid, Backward backward);

}  // namespace syncline::pipeline
