// A rank on a GPU, or on a part of one.
#pragma once

#include <memory>

#include "backends/cuda/node.hpp"
#include "backends/execute/runtime.hpp"
#include "backends/execute/world.hpp"

namespace syncline::cuda {

/// A CUDA stream a stream of the schedule, an event before and behind each op.
///
/// Not to be destroyed after a failure while other ranks go on: freeing waits for the device, which may wait
/// for ever. The caller ends the program then.
/// @param node, world  outlive the runtime
/// @param device       of a rank with a GPU of its own
[[nodiscard]] std::unique_ptr<Runtime> make_cuda_runtime(Node& node, World& world, int device);

}  // namespace syncline::cuda
