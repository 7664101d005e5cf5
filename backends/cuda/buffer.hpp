// Device memory and streams that free themselves.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

namespace syncline::cuda {

struct FreeDeviceMemory {
  void operator()(std::byte* memory) const { static_cast<void>(cudaFree(memory)); }
};
using DeviceMemory = std::unique_ptr<std::byte, FreeDeviceMemory>;
/// On the current device; nothing for no bytes.
/// @throws CallFailed
[[nodiscard]] DeviceMemory allocate(std::size_t bytes);

struct DestroyStream {
  void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
};
using Stream = std::unique_ptr<CUstream_st, DestroyStream>;

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { static_cast<void>(cudaEventDestroy(event)); }
};
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;
/// With times.
/// @throws CallFailed
[[nodiscard]] Event make_event();

}  // namespace syncline::cuda
