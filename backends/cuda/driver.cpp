#include "backends/cuda/driver.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "sim/core/error.hpp"

namespace syncline::cuda {
namespace {

constexpr const char* DriverLibrary = "libcuda.so.1";

/// @returns  null when the driver does not have it
void* entry_point(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t result =
      cudaGetDriverEntryPointByVersion(name, &function, CUDA_VERSION, cudaEnableDefault, &found);
  return result == cudaSuccess && found == cudaDriverEntryPointSuccess ? function : nullptr;
}

template <class Function>
void load(const char* name, Function& function) {
  function = reinterpret_cast<Function>(entry_point(name));
  if (function == nullptr)
    throw EnvironmentError(
        fmt::format("the CUDA driver has no {}; it is too old for partitions of a GPU", name));
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

int count_gpus() {
  if (dlopen(DriverLibrary, RTLD_NOW | RTLD_LOCAL) == nullptr) {  // stays loaded: the runtime needs it, too
    const char* reason = dlerror();
    throw EnvironmentError(fmt::format("no CUDA driver: {}", reason == nullptr ? DriverLibrary : reason));
  }
  int gpus = 0;
  const cudaError_t result = cudaGetDeviceCount(&gpus);
  if (result == cudaErrorNoDevice || (result == cudaSuccess && gpus == 0))
    throw EnvironmentError("no GPU: the CUDA driver sees none; see nvidia-smi and CUDA_VISIBLE_DEVICES");
  if (result == cudaErrorInsufficientDriver) {
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    throw EnvironmentError(
        fmt::format("the CUDA driver knows CUDA {}, this program needs {}; install a newer driver",
                    version_text(driver), version_text(CUDART_VERSION)));
  }
  if (result != cudaSuccess)
    throw EnvironmentError(fmt::format("no CUDA driver that works: cudaGetDeviceCount: {} ({})",
                                       cudaGetErrorString(result), cudaGetErrorName(result)));
  return gpus;
}

Driver load_driver() {
  Driver driver;
  load("cuDeviceGetDevResource", driver.device_resource);
  load("cuDevSmResourceSplitByCount", driver.split_multiprocessors);
  load("cuDevResourceGenerateDesc", driver.describe_resource);
  load("cuGreenCtxCreate", driver.create_green_context);
  load("cuGreenCtxDestroy", driver.destroy_green_context);
  load("cuGreenCtxStreamCreate", driver.create_green_stream);
  load("cuStreamBatchMemOp", driver.batch_memory_operations);
  return driver;
}

std::string driver_error_text(CUresult result) {
  const auto name_of = reinterpret_cast<decltype(&cuGetErrorName)>(entry_point("cuGetErrorName"));
  const auto text_of = reinterpret_cast<decltype(&cuGetErrorString)>(entry_point("cuGetErrorString"));
  const char* name = nullptr;
  const char* text = nullptr;
  if (name_of != nullptr) static_cast<void>(name_of(result, &name));
  if (text_of != nullptr) static_cast<void>(text_of(result, &text));
  if (name == nullptr || text == nullptr)
    return fmt::format("error {} of the driver", static_cast<int>(result));
  return fmt::format("{} ({})", text, name);
}

}  // namespace syncline::cuda
