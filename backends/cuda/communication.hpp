// How a rank's messages travel: by NCCL, or by copies where ranks share a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "backends/execute/rank_program.hpp"

namespace syncline::cuda {

/// Of one rank. Calls return when the op is in the stream; what it waits for it waits for on the device. From
/// one thread.
class Communication {
 public:
  virtual ~Communication() = default;
  /// @param op  its place in the rank's program
  virtual void launch(std::uint32_t op, cudaStream_t stream, const CollectiveTask& task) = 0;
  virtual void launch(std::uint32_t op, cudaStream_t stream, const TransferTask& task) = 0;
  /// What has failed meanwhile on a communicator is thrown.
  /// @throws CallFailed
  virtual void check_failures() = 0;
  /// Waits for what goes on besides the rank's streams: eager sends.
  virtual void finish() = 0;
  /// Commands that an op puts into its stream, at most.
  [[nodiscard]] virtual int commands() const = 0;
  /// "NCCL 2.28.9", for the timeline's header.
  [[nodiscard]] virtual std::string name() const = 0;
};

}  // namespace syncline::cuda
