// Calls of CUDA, NCCL and cuBLASLt that must succeed.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string_view>

#include "sim/core/error.hpp"

namespace syncline::cuda {

/// A call failed in the midst of the work. Exit code 1, unlike what is missing from the start.
class CallFailed : public EnvironmentError {
 public:
  using EnvironmentError::EnvironmentError;
};

/// @param call  as it should be told: "cudaMalloc of 3 GB"
/// @throws CallFailed  with the library's text, unless the result is its success
void check(cudaError_t result, std::string_view call);
void check(CUresult result, std::string_view call);
void check(cublasStatus_t result, std::string_view call);
void check(ncclResult_t result, std::string_view call);

}  // namespace syncline::cuda
