// What is launched for a kernel of the schedule, when compute is carried out by kernels.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "backends/execute/rank_program.hpp"

namespace syncline::cuda {

/// `batch` products (m × k)·(k × n), both operands with k innermost, as in a linear layer's forward pass. The
/// sizes are rounded up to what the tensor cores' operands must be aligned to.
struct Product {
  Precision precision = Precision::Bf16;
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  friend auto operator<=>(const Product&, const Product&) = default;
};

/// Of each row of what the last product left, in place.
struct Softmax {
  Precision precision = Precision::Bf16;
  std::int64_t rows = 0, columns = 0;
  friend bool operator==(const Softmax&, const Softmax&) = default;
};

/// Reads `bytes` and writes as many.
struct Pass {
  std::size_t bytes = 0;
  bool gather = false;  // blocks of 4 KiB in another order
  friend bool operator==(const Pass&, const Pass&) = default;
};

/// Nothing but time.
struct Spin {
  Seconds time;
  friend bool operator==(const Spin&, const Spin&) = default;
};

using Launch = std::variant<Product, Softmax, Pass, Spin>;

/// The launches of one kernel on a rank.
///
/// Attention is two products with a softmax between them, or five with two passes where it goes back, for as
/// many heads at once as have scores that fit into `score_bytes`, so that these stay in the cache as those of
/// a fused kernel do on chip. Its keys are as many as its FLOP say: half where a mask is causal.
/// @param factor  of the rank's task: rows of a product, bytes of a pass, the time of a fixed one
[[nodiscard]] std::vector<Launch> launches_of(const Kernel& kernel, double factor, std::size_t score_bytes);
/// All of a work.
[[nodiscard]] std::vector<Launch> launches_of(const ComputeTask& task, std::size_t score_bytes);

/// Bytes of a launch's buffers, in whole words.
struct LaunchBytes {
  std::size_t left = 0, right = 0;  // operands of a product
  std::size_t result = 0;           // of a product, or what a softmax works in
  std::size_t passed = 0;           // by a pass: read, and as many written
  friend bool operator==(const LaunchBytes&, const LaunchBytes&) = default;
};
[[nodiscard]] LaunchBytes bytes_of(const Launch& launch);
[[nodiscard]] std::size_t element_size(Precision precision);
/// Of a product: fp8 leaves bf16.
[[nodiscard]] Precision result_precision(Precision precision);

/// @throws InputError  naming all works with products of a precision that is not carried out here
void require_supported(std::span<const Work> works);

}  // namespace syncline::cuda
