#include "backends/cuda/call.hpp"

#include <fmt/format.h>

#include "backends/cuda/driver.hpp"

namespace syncline::cuda {

void check(cudaError_t result, std::string_view call) {
  if (result == cudaSuccess) return;
  throw CallFailed(fmt::format("{}: {} ({})", call, cudaGetErrorString(result), cudaGetErrorName(result)));
}

void check(CUresult result, std::string_view call) {
  if (result == CUDA_SUCCESS) return;
  throw CallFailed(fmt::format("{}: {}", call, driver_error_text(result)));
}

void check(cublasStatus_t result, std::string_view call) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  throw CallFailed(fmt::format("{}: {}", call, cublasLtGetStatusString(result)));
}

void check(ncclResult_t result, std::string_view call) {
  if (result == ncclSuccess) return;
  const char* last = ncclGetLastError(nullptr);  // its argument is not used (NCCL user guide)
  const std::string_view more = last == nullptr ? "" : last;
  throw CallFailed(
      fmt::format("{}: {}{}{}", call, ncclGetErrorString(result), more.empty() ? "" : ": ", more));
}

}  // namespace syncline::cuda
