// Executes a plan on one rank: walks its program as the host does, again and again, and makes a timeline of what all ranks
// measured. Knows nothing of CUDA or MPI.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "backends/execute/plan.hpp"
#include "backends/execute/runtime.hpp"
#include "backends/execute/world.hpp"

namespace syncline {

/// Issues the ops of a rank once, and waits for their end.
/// @param at_op  called with the op that the host has come to, and with their number at the end
/// @returns by place in the program; those of host ops are there, too
[[nodiscard]] std::vector<OpTimes> walk(const RankProgram& program, Runtime& runtime,
                                        const std::function<void(std::uint32_t)>& at_op);

/// All ranks call it together, each with its own rank's runtime, not yet prepared. Rank 0 leaves the timeline of the
/// step that took the median time, and the record of all, in `folder`; anew after each repeat, so that nothing measured
/// is lost.
///
/// A rank where no op ends for the plan's timeout says on stderr what each of its streams is at, and ends all ranks.
/// @throws EnvironmentError  what the runtime throws; the caller ends all ranks
void execute(const ExecutionPlan& plan, World& world, Runtime& runtime, const std::filesystem::path& folder);

}  // namespace syncline
