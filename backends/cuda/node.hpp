// What the ranks of a process share.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "backends/cuda/device_clock.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/meeting_place.hpp"
#include "backends/cuda/partition.hpp"
#include "backends/cuda/partitions.hpp"
#include "backends/execute/plan.hpp"

namespace syncline::cuda {

/// Of virtual ranks: the device, divided, on which all meet.
struct SharedDevice {
  SharedDevice(int device, std::span<const RankProgram> programs)
      : driver(load_driver()),
        partitions(driver, device, static_cast<unsigned>(programs.size())),
        place(programs) {}
  const Driver driver;
  const Partitions partitions;
  MeetingPlace place;
  DeviceClock clock;
};

struct Node {
  /// @param plan  outlives the node
  /// @throws EnvironmentError, InputError  when it cannot be executed here
  Node(const ExecutionPlan& plan_, Talk talk);

  const ExecutionPlan& plan;
  const std::vector<RankProgram> programs;  // of all ranks
  std::mutex memory;                        // a rank asks what is free, and takes it, before the next does
  std::optional<SharedDevice> shared;
};

}  // namespace syncline::cuda
