// Building blocks in V shape, as guides of list schedules.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/pipeline/search/list_schedule.hpp"

namespace syncline::pipeline::search {

/// A sample of building blocks for two stages a rank in V shape. On its way down the V a microbatch may take
/// its time, on its way up each rank takes it on at once; how long it takes decides how long activations are
/// held, and so the memory: V-Min, V-Half and ZB-V are the blocks that go down in 1, 2 and 4 sixths of a
/// period a rank.
///
/// @param count  how many; the first of them are always the plain blocks
/// Source: Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), section 3 and
/// appendix A.
[[nodiscard]] std::vector<Guide> v_blocks(const Task& task, int count);

}  // namespace syncline::pipeline::search
