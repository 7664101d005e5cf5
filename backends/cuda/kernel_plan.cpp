#include "backends/cuda/kernel_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "backends/cuda/sizes.hpp"
#include "sim/core/error.hpp"

namespace syncline::cuda {
namespace {

/// Of operands. cuBLASLt wants rows of fp8 products to be whole 16 bytes (PyTorch, pull request 108308); so
/// are all others here, which its loads of 16 bytes need.
struct Format {
  Precision precision;
  std::size_t element;    // bytes
  std::int64_t multiple;  // of all sizes: 16 bytes
  Precision result;
};
constexpr std::array<Format, 5> Formats{{{Precision::Fp32, 4, 4, Precision::Fp32},
                                         {Precision::Tf32, 4, 4, Precision::Tf32},
                                         {Precision::Fp16, 2, 8, Precision::Fp16},
                                         {Precision::Bf16, 2, 8, Precision::Bf16},
                                         {Precision::Fp8, 1, 16, Precision::Bf16}}};

const Format* find_format(Precision precision) {
  const auto* found = std::ranges::find(Formats, precision, &Format::precision);
  return found == Formats.end() ? nullptr : found;
}

const Format& format_of(Precision precision) {
  const Format* found = find_format(precision);
  SYNCLINE_CHECK(found != nullptr, "a precision that is not carried out");
  return *found;
}

std::int64_t rounded(double size, Precision precision) {
  const std::int64_t multiple = format_of(precision).multiple;
  const auto whole = std::max<std::int64_t>(1, std::llround(size));
  return (whole + multiple - 1) / multiple * multiple;
}

Product product(Precision precision, std::int64_t batch, double m, double n, double k) {
  return {precision, batch, rounded(m, precision), rounded(n, precision), rounded(k, precision)};
}

/// Scores of fp8 attention are bf16 here.
Precision attention_precision(Precision precision) {
  return find_format(precision) == nullptr || precision == Precision::Fp8 ? Precision::Bf16 : precision;
}

/// One pass over some heads: forward q·kᵀ, softmax, p·v; backward both scores again, then the three
/// gradients.
void add_heads(const Kernel& kernel, std::int64_t heads, double queries, double keys,
               std::vector<Launch>& launches) {
  const Precision precision = attention_precision(kernel.precision);
  const auto size = static_cast<double>(kernel.k);
  const Product scores = product(precision, heads, queries, keys, size);
  const Product by_query = product(precision, heads, queries, size, keys);
  const Product by_key = product(precision, heads, keys, size, queries);
  const Softmax softmax{precision, heads * scores.m, scores.n};
  if (kernel.backward)
    launches.insert(launches.end(), {scores, softmax, scores, softmax, by_key, by_key, by_query});
  else
    launches.insert(launches.end(), {scores, softmax, by_query});
}

std::vector<Launch> attention(const Kernel& kernel, double factor, std::size_t score_bytes) {
  // 4 · batch · m · n · k forward, 10 backward: two and five products.
  const double products = kernel.backward ? 5 : 2;
  const auto queries = static_cast<double>(kernel.m);
  const double heads_work =
      2 * products * static_cast<double>(kernel.batch) * queries * static_cast<double>(kernel.k);
  const double keys = heads_work > 0 ? kernel.flop.si() / heads_work : 0;
  const double heads = static_cast<double>(kernel.batch) * factor;
  if (keys <= 0 || heads <= 0) return {};
  const auto all = std::max<std::int64_t>(1, std::llround(heads));
  const Product one =
      product(attention_precision(kernel.precision), 1, queries, keys, static_cast<double>(kernel.k));
  const auto at_once =
      std::clamp<std::int64_t>(static_cast<std::int64_t>(score_bytes / bytes_of(one).result), 1, all);
  std::vector<Launch> launches;
  for (std::int64_t done = 0; done < all; done += at_once)
    add_heads(kernel, std::min(at_once, all - done), queries, keys, launches);
  return launches;
}

}  // namespace

std::size_t element_size(Precision precision) {
  return format_of(precision).element;
}

Precision result_precision(Precision precision) {
  return format_of(precision).result;
}

std::vector<Launch> launches_of(const Kernel& kernel, double factor, std::size_t score_bytes) {
  if (factor <= 0) return {};
  switch (kernel.kind) {
    case KernelClass::Gemm:
      if (kernel.batch < 1 || kernel.m < 1 || kernel.n < 1 || kernel.k < 1) return {};
      return {product(kernel.precision, kernel.batch, static_cast<double>(kernel.m) * factor,
                      static_cast<double>(kernel.n), static_cast<double>(kernel.k))};
    case KernelClass::Attention: return attention(kernel, factor, score_bytes);
    case KernelClass::Elementwise:
    case KernelClass::Gather:
    case KernelClass::Optimizer: {
      const std::size_t bytes = padded(kernel.hbm * (factor / 2));
      return bytes > 0 ? std::vector<Launch>{Pass{bytes, kernel.kind == KernelClass::Gather}}
                       : std::vector<Launch>{};
    }
    case KernelClass::Fixed: return {Spin{kernel.fixed * factor}};
  }
  return {};
}

std::vector<Launch> launches_of(const ComputeTask& task, std::size_t score_bytes) {
  std::vector<Launch> launches;
  for (const Kernel& kernel : task.work->kernels) {
    const std::vector<Launch> more = launches_of(kernel, task.factor, score_bytes);
    launches.insert(launches.end(), more.begin(), more.end());
  }
  return launches;
}

LaunchBytes bytes_of(const Launch& launch) {
  struct Sizes {
    static std::size_t array(std::int64_t elements, Precision precision) {
      return padded(Bytes(static_cast<double>(elements) * static_cast<double>(element_size(precision))));
    }
    LaunchBytes operator()(const Product& p) const {
      return {array(p.batch * p.m * p.k, p.precision), array(p.batch * p.n * p.k, p.precision),
              array(p.batch * p.m * p.n, result_precision(p.precision)), 0};
    }
    LaunchBytes operator()(const Softmax& s) const {
      return {0, 0, array(s.rows * s.columns, s.precision), 0};
    }
    LaunchBytes operator()(const Pass& pass) const { return {0, 0, 0, pass.bytes}; }
    LaunchBytes operator()(const Spin&) const { return {}; }
  };
  return std::visit(Sizes{}, launch);
}

void require_supported(std::span<const Work> works) {
  std::vector<Diagnostic> wrong;
  for (const Work& work : works)
    for (const Kernel& kernel : work.kernels)
      if (kernel.kind == KernelClass::Gemm && find_format(kernel.precision) == nullptr)
        wrong.push_back(
            {{"--compute kernels", 0, 0, ""},
             fmt::format(
                 "{} has products of {}, which are not carried out here (fp32, tf32, fp16, bf16 and fp8 "
                 "are); --compute time takes their planned time",
                 work.name, name_of(kernel.precision))});
  if (!wrong.empty()) throw InputError(wrong);
}

}  // namespace syncline::cuda
