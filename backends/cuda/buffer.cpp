#include "backends/cuda/buffer.hpp"

#include <fmt/format.h>

#include "backends/cuda/call.hpp"
#include "sim/core/units.hpp"

namespace syncline::cuda {

DeviceMemory allocate(std::size_t bytes) {
  if (bytes == 0) return {};
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes),
        fmt::format("cudaMalloc of {}", to_text(Bytes(static_cast<double>(bytes)))));
  return DeviceMemory(static_cast<std::byte*>(memory));
}

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDefault), "cudaEventCreateWithFlags");
  return Event(event);
}

}  // namespace syncline::cuda
