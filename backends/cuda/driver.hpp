// NVIDIA's driver: found when the program runs, so that it starts, and says what is missing, on a machine
// without.
#pragma once

#include <cuda.h>

#include <string>

namespace syncline::cuda {

/// How many GPUs this process sees.
/// @throws EnvironmentError  "no CUDA driver: ...", "no GPU: ...", or that the driver is too old
[[nodiscard]] int count_gpus();

/// Functions that only the driver has.
struct Driver {
  decltype(&cuDeviceGetDevResource) device_resource = nullptr;
  decltype(&cuDevSmResourceSplitByCount) split_multiprocessors = nullptr;
  decltype(&cuDevResourceGenerateDesc) describe_resource = nullptr;
  decltype(&cuGreenCtxCreate) create_green_context = nullptr;
  decltype(&cuGreenCtxDestroy) destroy_green_context = nullptr;
  decltype(&cuGreenCtxStreamCreate) create_green_stream = nullptr;
  decltype(&cuStreamBatchMemOp) batch_memory_operations = nullptr;
};
/// @pre count_gpus() found some
/// @throws EnvironmentError  naming a function that the driver lacks
[[nodiscard]] Driver load_driver();

/// "out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
[[nodiscard]] std::string driver_error_text(CUresult result);

}  // namespace syncline::cuda
