// The kernels of the CUDA backend, as functions that launch them. Each returns what the launch itself said.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace syncline::cuda {

/// Loads all kernels now: loading one later may wait until the device is idle, which it never is while ranks
/// wait for each other (CUDA Programming Guide, "Lazy Loading").
[[nodiscard]] cudaError_t preload_kernels();

/// One thread that does nothing until the time is over, by the device's nanosecond clock.
[[nodiscard]] cudaError_t launch_spin(cudaStream_t stream, std::uint64_t nanoseconds);

/// Reads `bytes` and writes as many, both round and round in buffers of `buffer` bytes, a power of two.
/// @param gather  blocks of 4 KiB are read in another order
[[nodiscard]] cudaError_t launch_pass(cudaStream_t stream, const void* from, void* to, std::size_t bytes,
                                      std::size_t buffer, bool gather, int multiprocessors);

enum class Element { Bf16, Fp16, Fp32 };
/// Makes each row of `columns` numbers its softmax; columns are whole 16-byte words.
[[nodiscard]] cudaError_t launch_softmax(cudaStream_t stream, void* rows, std::int64_t count,
                                         std::int64_t columns, Element element);

/// Some copies at once, of whole 16-byte words.
struct CopyList {
  static constexpr int Most = 64;
  struct Item {
    const void* from;
    void* to;
    std::size_t bytes;
  };
  Item items[Most];
  int count = 0;
};
[[nodiscard]] cudaError_t launch_copies(cudaStream_t stream, const CopyList& list, int multiprocessors);

/// The sum of several arrays of bf16, added in fp32.
struct SumList {
  static constexpr int Most = 64;
  const void* from[Most];
  int count = 0;
  void* to = nullptr;
  std::size_t bytes = 0;
};
[[nodiscard]] cudaError_t launch_sum(cudaStream_t stream, const SumList& list, int multiprocessors);

/// Fills a buffer with numbers of random sign and mantissa, near 1 in bf16, fp16 and fp8 and never infinite
/// in any format here: zeros would take less power, and let clocks rise.
[[nodiscard]] cudaError_t launch_fill(cudaStream_t stream, void* buffer, std::size_t bytes,
                                      std::uint32_t seed, int multiprocessors);

}  // namespace syncline::cuda
