#include "backends/mpi/cpu_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "backends/mpi/mpi_call.hpp"
#include "sim/core/error.hpp"

#ifdef SYNCLINE_OPENBLAS
#include <cblas.h>
#endif

namespace syncline::mpi {
namespace {

constexpr std::size_t LargestPass = std::size_t{16}
                                    << 20;  // elements: more than caches hold; longer passes go round
constexpr std::int64_t StripRows = 256;     // of attention: scores of no more queries at a time

struct Shape {
  std::int64_t m = 0, n = 0, k = 0;
  [[nodiscard]] std::size_t elements() const { return static_cast<std::size_t>(m * k + k * n + m * n); }
};

std::int64_t times(std::int64_t count, double factor) {
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(count) * factor));
}

/// One strip's scores, over the keys that a query sees on average.
Shape strip_of(const Kernel& kernel) {
  const double products = kernel.backward ? 5 : 2;
  const auto all = 2 * products * static_cast<double>(kernel.batch) * static_cast<double>(kernel.m) *
                   static_cast<double>(kernel.n) * static_cast<double>(kernel.k);
  const double seen = all > 0 && kernel.flop > Flop(0) ? std::min(1.0, kernel.flop.si() / all) : 1;
  const std::int64_t rows = std::max<std::int64_t>(1, kernel.m), strips = (rows + StripRows - 1) / StripRows;
  return {(rows + strips - 1) / strips, times(kernel.n, seen), kernel.k};
}

std::size_t pass_of(const Kernel& kernel) {  // half of the bytes is read, half is written
  return static_cast<std::size_t>(kernel.hbm.si() / (2 * sizeof(float)));
}

#ifdef SYNCLINE_OPENBLAS
/// C = A · B, in the numbers from `at` on, one behind the other.
void multiply(const Shape& shape, float* at) {
  const int m = static_cast<int>(shape.m), n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
  float *const a = at, *const b = a + shape.m * shape.k, *const c = b + shape.k * shape.n;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0F, a, k, b, n, 0.0F, c, n);
}
#else
void multiply(const Shape&, float*) {
  throw EnvironmentError(
      "products need OpenBLAS, which this program is built without (Debian: libopenblas-dev)");
}
#endif

void stop_when_asked(const std::stop_token& stop) {
  if (stop.stop_requested()) throw std::runtime_error("asked to stop");
}

}  // namespace

CpuKernels::CpuKernels(std::size_t elements) : numbers_(elements, 1.0F) {
#ifdef SYNCLINE_OPENBLAS
  openblas_set_num_threads(1);  // the launcher's environment does not reach other machines
#endif
}

std::size_t CpuKernels::need_of(const ComputeTask& task) {
  std::size_t most = 0;
  for (const Kernel& kernel : task.work->kernels) {
    switch (kernel.kind) {
      case KernelClass::Gemm:
        most = std::max(most, Shape{times(kernel.m, task.factor), kernel.n, kernel.k}.elements());
        break;
      case KernelClass::Attention: most = std::max(most, strip_of(kernel).elements()); break;
      case KernelClass::Fixed: break;
      default: most = std::max(most, std::min(pass_of(kernel), LargestPass));
    }
  }
  return most;
}

std::string CpuKernels::library() {
#ifdef SYNCLINE_OPENBLAS
  const std::string text = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  return text.substr(0, text.find(' ', text.find(' ') + 1));
#else
  return "";
#endif
}

void CpuKernels::run(const ComputeTask& task, const std::stop_token& stop) {
  for (const Kernel& kernel : task.work->kernels) run(kernel, task.factor, stop);
}

void CpuKernels::run(const Kernel& kernel, double factor, const std::stop_token& stop) {
  if (factor == 0) return;
  switch (kernel.kind) {
    case KernelClass::Gemm:
      for (std::int64_t i = 0; i < kernel.batch; ++i) {
        stop_when_asked(stop);
        multiply({times(kernel.m, factor), kernel.n, kernel.k}, numbers_.data());
      }
      break;
    case KernelClass::Attention: {
      const Shape scores = strip_of(kernel), outputs{scores.m, scores.k, scores.n};
      const std::int64_t strips = times(kernel.batch * kernel.m, factor / static_cast<double>(scores.m));
      const int of_scores = kernel.backward ? 2 : 1, of_outputs = kernel.backward ? 3 : 1;
      for (std::int64_t strip = 0; strip < strips; ++strip) {
        stop_when_asked(stop);
        for (int i = 0; i < of_scores; ++i) multiply(scores, numbers_.data());
        for (int i = 0; i < of_outputs; ++i) multiply(outputs, numbers_.data());
      }
      break;
    }
    case KernelClass::Fixed: sleep_until(now() + kernel.fixed * factor, stop); break;
    default: {
      auto left = static_cast<std::size_t>(static_cast<double>(pass_of(kernel)) * factor);
      while (left > 0) {
        stop_when_asked(stop);
        const std::size_t piece = std::min({left, LargestPass, numbers_.size()});
        for (std::size_t i = 0; i < piece; ++i) numbers_[i] = numbers_[i] * 0.5F + 0.5F;
        left -= piece;
      }
    }
  }
}

}  // namespace syncline::mpi
