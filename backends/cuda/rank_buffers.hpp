// The buffers of a rank, in its device's memory.
#pragma once

#include <vector>

#include "backends/cuda/buffer.hpp"
#include "backends/cuda/buffers.hpp"

namespace syncline::cuda {

struct StreamBuffers {
  std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::byte* left = nullptr;
  std::byte* right = nullptr;
  std::byte* result = nullptr;
  std::byte* read = nullptr;
  std::byte* written = nullptr;
  std::byte* workspace = nullptr;
};

class RankBuffers {
 public:
  /// On the current device.
  /// @throws CallFailed
  explicit RankBuffers(const RankBytes& bytes);

  [[nodiscard]] const StreamBuffers& of(StreamId stream) const { return streams_[stream.value()]; }
  [[nodiscard]] const StreamBytes& bytes_of(StreamId stream) const { return bytes_.streams[stream.value()]; }
  /// Of a wire, by its position in the program.
  [[nodiscard]] const Staging& staging(std::uint32_t wire) const { return bytes_.staging[wire]; }
  [[nodiscard]] std::byte* slot(std::uint32_t wire, std::size_t number) const {
    return slots_[wire] + bytes_.staging[wire].slot * number;
  }

 private:
  const RankBytes bytes_;
  DeviceMemory memory_;
  std::vector<StreamBuffers> streams_;  // by StreamId
  std::vector<std::byte*> slots_;       // by wire
};

}  // namespace syncline::cuda
