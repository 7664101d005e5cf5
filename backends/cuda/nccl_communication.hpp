// Messages by NCCL: a GPU a rank.
#pragma once

#include <memory>

#include "backends/cuda/communication.hpp"
#include "backends/cuda/rank_buffers.hpp"
#include "backends/execute/world.hpp"

namespace syncline::cuda {

struct NcclSetup {
  const RankProgram& program;             // of this rank
  std::span<const RankProgram> programs;  // of all
  const RankBuffers& buffers;
  int multiprocessors = 0;
  int priority = 0;  // of streams that communicate
};

/// On the current device; all ranks together. A communicator a channel and a wire, split from one of all
/// ranks. Each has carried every kind and size of its messages once when this returns: NCCL connects peers
/// when an algorithm is first used, and the host waits for them then, which in a schedule's order could be
/// for ever.
/// @param setup  its parts outlive what is made
/// @throws CallFailed
[[nodiscard]] std::unique_ptr<Communication> make_nccl_communication(const NcclSetup& setup, World& world);

}  // namespace syncline::cuda
