#include "backends/cuda/device_clock.hpp"

#include <algorithm>
#include <chrono>

#include "backends/cuda/call.hpp"

namespace syncline::cuda {

Seconds host_now() {
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

DeviceClock::DeviceClock() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  stream_.reset(stream);
  for (Slot& slot : slots_)
    for (int i = 0; i < Tries; ++i) slot.events.push_back(make_event());
}

Reference DeviceClock::reference(int step) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[static_cast<std::size_t>(step) % slots_.size()];
  if (slot.step != step) {
    measure(slot);
    slot.step = step;
  }
  return slot.best;
}

void DeviceClock::measure(Slot& slot) {
  for (std::size_t i = 0; i < slot.events.size(); ++i) {
    cudaEvent_t event = slot.events[i].get();
    const Seconds before = host_now();
    check(cudaEventRecord(event, stream_.get()), "cudaEventRecord");
    check(cudaEventSynchronize(event), "cudaEventSynchronize");
    const Seconds after = host_now();
    const Reference reference{event, before + (after - before) / 2, (after - before) / 2};
    if (i == 0 || reference.error < slot.best.error) slot.best = reference;
  }
  worst_ = std::max(worst_, slot.best.error);
}

Seconds DeviceClock::error() const {
  const std::lock_guard lock(mutex_);
  return worst_;
}

}  // namespace syncline::cuda
