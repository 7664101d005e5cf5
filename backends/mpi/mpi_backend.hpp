// Ranks as processes of an MPI job: one process a rank, one thread a stream, one communicator a channel.
#pragma once

#include <memory>

#include "backends/execute/plan.hpp"
#include "backends/execute/rank_progress.hpp"
#include "backends/execute/runtime.hpp"
#include "backends/execute/world.hpp"

namespace syncline {

/// The job that this process is part of. One in a process.
/// @throws EnvironmentError when MPI does not begin, or cannot serve several threads
[[nodiscard]] std::unique_ptr<World> make_mpi_world();

/// Carries ops out by MPI and the processor.
///
/// A collective waits for all members before any data moves, as NCCL's kernels do; so none ends before all
/// have come. What of an op lasted until then is waiting.
/// @param world     of make_mpi_world(); like all others it outlives the runtime
/// @param progress  told what each stream is at
/// @throws EnvironmentError  of all calls: when MPI fails, when the buffers do not fit in memory, when
///                           kernels are to be computed and there is no BLAS library
[[nodiscard]] std::unique_ptr<Runtime> make_mpi_runtime(const ExecutionPlan& plan, const World& world,
                                                        RankProgress& progress);

}  // namespace syncline
