// Matrix products by cuBLASLt.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>

#include "backends/cuda/kernel_plan.hpp"

namespace syncline::cuda {

/// The algorithm of each shape is chosen once, by cuBLASLt's heuristic, before anything is timed.
class Products {
 public:
  /// @param workspace        bytes that each run has
  /// @param multiprocessors  that they have; 0: all
  /// @throws CallFailed
  Products(std::size_t workspace, int multiprocessors);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// @throws CallFailed  when cuBLASLt has no algorithm for it on this device
  void prepare(const Product& product);

  /// left · right; see bytes_of() for their sizes.
  /// @pre it was prepared
  void run(cudaStream_t stream, const Product& product, const void* left, const void* right, void* result,
           void* workspace);

 private:
  struct Handle;
  struct Plan;
  const std::size_t workspace_;
  const int multiprocessors_;
  std::unique_ptr<Handle> handle_;
  std::map<Product, std::unique_ptr<Plan>> plans_;
};

}  // namespace syncline::cuda
