// Messages of virtual ranks: copies and sums on the device that they share.
#pragma once

#include <memory>

#include "backends/cuda/communication.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/meeting_place.hpp"
#include "backends/cuda/rank_buffers.hpp"
#include "backends/execute/world.hpp"

namespace syncline::cuda {

struct CopySetup {
  const RankProgram& program;  // of this rank
  const RankBuffers& buffers;
  const Driver& driver;
  MeetingPlace& place;
  int multiprocessors = 0;  // of the rank
};

/// All ranks together. Ranks wait for each other in their streams, by flags in device memory that a stream
/// writes when it has come so far, and others wait for; no host is in between.
/// @param setup  its parts outlive what is made
/// @throws CallFailed
[[nodiscard]] std::unique_ptr<Communication> make_copy_communication(const CopySetup& setup, World& world);

}  // namespace syncline::cuda
