// A device's clock beside the host's.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <mutex>
#include <vector>

#include "backends/cuda/buffer.hpp"
#include "sim/core/quantity.hpp"

namespace syncline::cuda {

/// Of the host, since some time in the past; all ranks of a process have the same.
[[nodiscard]] Seconds host_now();

/// An event, and when it happened by the host's clock.
struct Reference {
  cudaEvent_t event = nullptr;
  Seconds at;
  Seconds error;  // at most
};

/// Events are timed against one that the step began with. It is recorded on an empty stream several times,
/// each between two looks at the host's clock; of the closest pair of looks the middle counts (Cristian,
/// Probabilistic clock synchronization, Distributed Computing 3, 1989). The ranks on a device share it.
class DeviceClock {
 public:
  /// On the current device.
  /// @throws CallFailed
  DeviceClock();

  /// Of a step, 0, 1, ...; the first who asks measures, while the device is idle. Valid until step + 2.
  /// @throws CallFailed
  [[nodiscard]] Reference reference(int step);
  /// The worst so far.
  [[nodiscard]] Seconds error() const;

 private:
  static constexpr int Tries = 10;
  struct Slot {
    int step = -1;
    std::vector<Event> events;  // by try
    Reference best;
  };
  void measure(Slot& slot);

  mutable std::mutex mutex_;
  Stream stream_;
  std::array<Slot, 2> slots_;  // by step: a rank may begin the next while another reads this one's
  Seconds worst_;
};

}  // namespace syncline::cuda
