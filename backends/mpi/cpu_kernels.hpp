// Kernels of a schedule computed by one core, for as many operations and bytes as they have.
#pragma once

#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include "backends/execute/rank_program.hpp"

namespace syncline::mpi {

/// Of one stream: its kernels share the numbers that they compute with, which mean nothing.
///
/// Products are calls of sgemm, m × factor rows of them; attention is its products (two forward, five backward), a strip
/// of query rows after another, over as many keys as give its FLOP (causal: half); what moves bytes passes over memory;
/// a fixed time is waited for. All in 32 bits, whatever the precision.
class CpuKernels {
 public:
  /// Elements of 4 bytes that the task needs.
  [[nodiscard]] static std::size_t need_of(const ComputeTask& task);
  /// "OpenBLAS 0.3.21"; empty where the program is built without.
  [[nodiscard]] static std::string library();

  explicit CpuKernels(std::size_t elements);
  /// @pre need_of(task) ≤ elements
  /// @throws EnvironmentError for products where there is no library; std::runtime_error when asked to stop
  void run(const ComputeTask& task, const std::stop_token& stop);

 private:
  void run(const Kernel& kernel, double factor, const std::stop_token& stop);

  std::vector<float> numbers_;
};

}  // namespace syncline::mpi
