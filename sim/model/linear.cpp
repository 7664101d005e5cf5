// Products with weights, and the casts of their operands where they are narrower than everything else.
#include <algorithm>

#include "sim/model/steps.hpp"
#include "sim/model/weight_casts.hpp"

namespace syncline::transformer {
namespace {

/// Products of operands of one size and a result of another.
/// @param result  bytes of an element of the result, read and written
Kernel product(const Slice& s, Precision precision, double m, double n, double k, double result,
               double batch) {
  Kernel kernel = gemm(precision, m, n, k, batch);
  const double operand = std::min(s.e, size_of(precision).si());
  kernel.hbm = Bytes(((m * k + k * n) * operand + m * n * result) * batch);
  return kernel;
}

/// The gradient of a weight of out × in, and what becomes of it.
std::vector<Kernel> weight_gradient(const Slice& s, Precision precision, double tokens, double in, double out,
                                    double batch) {
  if (s.frozen) return {};
  const bool fused = s.weight_gradients == WeightGradients::Fused;
  std::vector<Kernel> kernels{product(s, precision, out, in, tokens, fused ? 2 * Fp32 : s.e, batch)};
  if (s.weight_gradients == WeightGradients::Added) append(kernels, added_gradient(s, batch * in * out));
  return kernels;
}

Step linear_in(const Slice& s, Precision precision, double tokens, double in, double out, Again again,
               double batch) {
  return {.forward = {product(s, precision, tokens, out, in, s.e, batch)},
          .input = {product(s, precision, tokens, in, out, s.e, batch)},
          .weight = weight_gradient(s, precision, tokens, in, out, batch),
          .again = again,
          .by_tokens = true};
}

/// Brings `elements` to the precision of the products: where the scale is of their own values a pass for the
/// largest, then the cast, with `copies` written.
std::vector<Kernel> cast(const Slice& s, double elements, int copies) {
  std::vector<double> passes{s.e + copies * s.operand()};
  if (s.scaling == Scaling::Current) passes.insert(passes.begin(), s.e);
  return elementwise(s.precision, elements, passes);
}

/// Transformer Engine's grouped products, and the casts before them, are a call of the host for each expert
/// (multi_stream_cublas_gemm: nvte_multi_tensor_gemm of Transformer Engine 2).
Step called_for_each(Step step, const Slice& s, double batch) {
  if (batch == 1 || !s.megatron) return step;
  for (auto* kernels : {&step.forward, &step.input, &step.weight})
    for (Kernel& kernel : *kernels) {
      kernel.launches = static_cast<int>(batch);
      kernel.grouped = kernel.kind == KernelClass::Gemm;
    }
  return step;
}

std::vector<Kernel> joined(std::vector<Kernel> first, const std::vector<Kernel>& then) {
  append(first, then);
  return first;
}

}  // namespace

std::vector<Kernel> added_gradient(const Slice& s, double elements) {
  const std::vector<double> bytes{s.e + 2 * Fp32};
  return s.e == Fp32 ? elementwise(s.precision, elements, bytes)
                     : number_by_number(s.precision, elements, bytes);
}

Step plain_linear(const Slice& s, double tokens, double in, double out, Again again) {
  return linear_in(s, s.precision, tokens, in, out, again, 1);
}

Step linear(const Slice& s, double tokens, double in, double out, Again again, double batch, Handed handed) {
  Step step = linear_in(s, s.linear, tokens, in, out, again, batch);
  if (!s.narrow()) return called_for_each(std::move(step), s, batch);
  const bool once = s.megatron;  // both ways in forward; else once more in backward
  const int copies = once && !s.frozen ? 2 : 1;
  std::vector<Kernel> input, weight, gradient;
  if (!handed.input) input = cast(s, batch * tokens * in, copies);
  if (!once || s.weights_come_and_go) weight = cast(s, batch * in * out, once ? 2 : 1);
  if (!handed.gradient) gradient = cast(s, batch * tokens * out, s.frozen ? 1 : 2);
  step.forward = joined(joined(input, weight), step.forward);
  step.input = joined(once ? gradient : joined(gradient, weight), step.input);
  if (!once && !s.frozen) step.weight = joined(input, step.weight);
  return handed.any() ? step : called_for_each(std::move(step), s, batch);
}

}  // namespace syncline::transformer

namespace syncline {

double weight_cast_bytes(const ModelSpec& model, const TrainingShape& shape) {
  const transformer::Slice s(model, shape);
  if (!s.narrow() || !s.megatron || s.frozen || s.weights_come_and_go) return 0;
  double bytes = 0;
  for (const Kernel& kernel : transformer::cast(s, 1, 2)) bytes += kernel.hbm.si();
  return bytes;
}

}  // namespace syncline
