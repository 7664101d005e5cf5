// Executes a plan on one rank: walks its program as the host does, again and again, and makes a timeline of what all ranks
// measured. Knows nothing of CUDA or MPI.
#pragma once

#include <filesystem>

#include "backends/execute/plan.hpp"
#include "backends/execute/runtime.hpp"
#include "backends/execute/world.hpp"
#include "sim/timeline/timeline.hpp"

namespace syncline {

/// Issues the ops of a rank once, and waits for their end.
/// @returns by place in the program; those of host ops are there, too
[[nodiscard]] std::vector<OpTimes> walk(const RankProgram& program, Runtime& runtime);

/// All ranks call it together, each with its own rank's runtime, not yet prepared. Rank 0 leaves the timeline of the
/// step that took the median time, and the record of all, in `folder`; anew after each repeat, so that nothing measured
/// is lost.
///
/// A rank where no op ends for the plan's timeout says on stderr what each of its streams is at, and ends all ranks.
/// @throws EnvironmentError  what the runtime throws; the caller ends all ranks
void execute(const ExecutionPlan& plan, World& world, Runtime& runtime, const std::filesystem::path& folder);

/// What the ranks measured in one step as a timeline, beginning at 0.
/// @param times  [rank][op], on the clock of rank 0
[[nodiscard]] Timeline timeline_of(const Schedule& schedule, const std::vector<std::vector<OpTimes>>& times);

}  // namespace syncline
