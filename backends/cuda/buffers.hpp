// The device memory of a rank: one set of buffers a stream, as large as its largest op needs.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cuda/kernel_plan.hpp"
#include "backends/execute/rank_program.hpp"

namespace syncline::cuda {

struct StreamBytes {
  std::size_t send = 0, receive = 0;  // of its messages
  std::size_t left = 0, right = 0;    // operands of its products
  std::size_t result = 0;             // of them
  std::size_t passed = 0;             // read by its passes, and as many written; a power of two
  std::size_t workspace = 0;          // of products
  [[nodiscard]] std::size_t total() const {
    return send + receive + left + right + result + 2 * passed + workspace;
  }
  friend bool operator==(const StreamBytes&, const StreamBytes&) = default;
};

/// Where eager messages of a wire lie until they are fetched; sender's side.
struct Staging {
  std::size_t slot = 0;   // bytes of the largest
  std::size_t slots = 0;  // one for each in a step
  friend bool operator==(const Staging&, const Staging&) = default;
};

struct RankBytes {
  std::vector<StreamBytes> streams;  // by StreamId
  std::vector<Staging> staging;      // by position in RankProgram::wires
  [[nodiscard]] std::size_t total() const;
};

/// What bounds the buffers of compute.
struct ComputeLimits {
  std::size_t scores = 0;     // of attention, at once
  std::size_t passed = 0;     // passes of more go round in this much; a power of two
  std::size_t workspace = 0;  // of a stream with products
};

[[nodiscard]] RankBytes rank_bytes(const RankProgram& program, ComputeBy compute,
                                   const ComputeLimits& limits);

/// @param reserve  left for communicators and libraries
/// @throws EnvironmentError  when the device has less, with the figures
void require_memory(const RankBytes& bytes, RankId rank, std::size_t free, std::size_t total,
                    std::size_t reserve);

}  // namespace syncline::cuda
