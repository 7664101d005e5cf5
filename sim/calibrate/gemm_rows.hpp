// Measured kernels out of a table with the columns of gemm_efficiency.csv.
#pragma once

#include <string>
#include <vector>

#include "sim/core/csv.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline::calibrate {

/// One measured kernel.
struct KernelRow {
  std::string id;  // of the row; its line where the table has no ids
  std::string source;
  Kernel kernel;  // with the bytes it must move; attention counts the causal half of its FLOP
  Seconds time;
  FlopPerSecond peak;      // that the table's efficiency refers to
  bool bytes_said = true;  // false: a sum of weight gradients, and not in which precision
};

/// The rows of one chip.
struct KernelRows {
  std::vector<KernelRow> products;
  std::vector<KernelRow> grouped;  // several products of one call, as of experts
  std::vector<KernelRow> attention;
  std::vector<KernelRow> best;  // "matmul, best shape found": the most that any shape reached

  [[nodiscard]] bool empty() const {
    return products.empty() && grouped.empty() && attention.empty() && best.empty();
  }
};

/// Reads the chip's rows. Columns: chip, kind, m, n, k, dtype, achieved_tflops; and, where there are any, id,
/// source, groups, out_dtype, stage, peak_tflops, note. The time of a row is its FLOP / achieved_tflops.
///
/// - Bytes: operands in dtype, the result in out_dtype (bf16 where empty), twice where stage has
/// "accumulate=True" or is bwd_grad_w, which may be in fp32 where out_dtype is not.
/// - kind "grouped matmul": m rows of each of `groups` products forward (m × k by k × n); stage bwd_grad_act
/// is
///   (m × n by n × k), bwd_grad_w (k × m by m × n).
/// - kind "attention fwd", "attention bwd": sizes from note ("batch=1; seq_len=4096; head_num=64;
/// qk_head_dim=128;
///   v_head_dim=128"); achieved_tflops count 2 products over the whole square forward and 5 backward, of
///   which a causal kernel does half.
/// @throws InputError  a column is missing, no row is of that chip (with those nearest in name), a number or
/// a dtype
///                     cannot be read (with its line)
[[nodiscard]] KernelRows read_kernel_rows(const CsvTable& table, const std::string& chip);

}  // namespace syncline::calibrate
