// Where virtual ranks find each other's buffers and flags.
#pragma once

#include <cuda.h>

#include <map>
#include <span>
#include <vector>

#include "backends/cuda/buffer.hpp"
#include "backends/execute/rank_program.hpp"

namespace syncline::cuda {

/// A member of a channel.
struct Seat {
  const std::byte* send = nullptr;
  const std::byte* receive = nullptr;
  std::vector<const CollectiveTask*> tasks;  // in the channel's order
  CUdeviceptr flag = 0;                      // 32 bits: how many meetings it has come to
};

/// A wire, as its receiver sees it.
struct Outlet {
  const std::byte* send = nullptr;     // the sender's buffer
  const std::byte* staging = nullptr;  // of eager messages
  std::size_t slot = 0, slots = 0;
  CUdeviceptr sent = 0, received = 0;  // flags, 32 bits: how many messages
};

/// Of all ranks of one device. Ranks enter their own buffers, then all meet on the host; from then on nothing
/// changes but flags.
class MeetingPlace {
 public:
  /// Flags lie on the current device, and are zero.
  /// @param programs  of all ranks; stay where they are
  /// @throws CallFailed, InputError  when the members of a channel disagree on what they do in it
  explicit MeetingPlace(std::span<const RankProgram> programs);

  /// By Channel::number; in the members' order.
  [[nodiscard]] std::vector<Seat>& channel(std::uint32_t number) { return channels_.at(number); }
  /// By Wire::number.
  [[nodiscard]] Outlet& wire(std::uint32_t number) { return wires_.at(number); }

 private:
  std::map<std::uint32_t, std::vector<Seat>> channels_;
  std::map<std::uint32_t, Outlet> wires_;
  DeviceMemory flags_;
};

}  // namespace syncline::cuda
