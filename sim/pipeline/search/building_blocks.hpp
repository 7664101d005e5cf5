// The building blocks of two chunks a rank in V shape, and the best schedules that can be made of them.
//
// Source: Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), section 3.1 and
// appendix A.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/pipeline/search/task.hpp"
#include "sim/pipeline/slot_grid.hpp"

namespace syncline::pipeline::search {

/// All whose repetition holds at most `most_held` activations on a rank. From rank to rank F0 and B1 come 1
/// to 5 slots later, the same for both, and F1 and B0 one slot earlier, modulo the period; from one rank on
/// the former may take less.
[[nodiscard]] std::vector<BuildingBlock> building_blocks(int ranks, int most_held);

/// The orders of the blocks that do best on the task, best first. Of a large task some blocks only are tried,
/// with fewer microbatches.
/// @param count   of orders, at most
/// @param effort  slots laid out, roughly
/// @pre the task's stages lie in a V
[[nodiscard]] std::vector<Order> block_orders(const Task& task, std::size_t count, long effort);

}  // namespace syncline::pipeline::search
