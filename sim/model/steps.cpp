#include "sim/model/steps.hpp"

#include <iterator>

namespace syncline::transformer {
namespace {

/// None where weights are frozen.
std::vector<Kernel> weight_kernels(const Slice& slice, double elements, const std::vector<double>& bytes) {
  return slice.frozen ? std::vector<Kernel>{} : elementwise(slice.precision, elements, bytes);
}

/// LayerNorm is one kernel forward and two backward (for its input, and for its weight and bias, by the same
/// call).
Step layer_norm(const Slice& slice, bool residual) {
  const double e = slice.e;
  std::vector<double> backward{3 * e};
  if (!slice.frozen) backward.push_back(2 * e);
  if (residual) backward.push_back(3 * e);
  return {.forward = elementwise(slice.precision, slice.outer(), {2 * e}),
          .input = elementwise(slice.precision, slice.outer(), backward)};
}

/// Transformer Engine's: backward makes both gradients in one kernel (sums of the weight's by block aside);
/// then the residual's is added.
Step fused_rms_norm(const Slice& slice, bool residual) {
  const double e = slice.e;
  const std::vector<double> backward = residual ? std::vector{3 * e, 3 * e} : std::vector{3 * e};
  return {.forward = elementwise(slice.precision, slice.outer(), {2 * e}),
          .input = elementwise(slice.precision, slice.outer(), backward)};
}

Step eager_rms_norm(const Slice& slice) {
  const double e = slice.e;
  const std::vector<double> forward{
      e + Fp32,            // to fp32
      8,        4,     8,  // square, its mean, times the scale
      Fp32 + e, 2 * e,     // from fp32, times the weight
  };
  const std::vector<double> input{
      2 * e,                   // times the weight
      e + Fp32, 8,             // to fp32, times the scale
      12,       4,             // the scale's gradient and its sum
      4,        8,        12,  // through mean and square
      12,       Fp32 + e,      // sum of the two ways to the input, from fp32
      3 * e,                   // plus the residual's gradient
  };
  const std::vector<double> weight{3 * e, e};  // product with the normalised input, and its sum over tokens
  const double elements = slice.outer();
  return {.forward = elementwise(slice.precision, elements, forward),
          .input = elementwise(slice.precision, elements, input),
          .weight = weight_kernels(slice, elements, weight)};
}

Step compiled_rms_norm(const Slice& slice, int uses, bool input_at_hand) {
  const double e = slice.e, elements = slice.outer();
  return {
      .forward = elementwise(slice.precision, elements, {input_at_hand ? e : 2 * e}),
      .input = elementwise(slice.precision, elements, {(3 + uses) * e}),  // x, gradients, the residual's, dx
      .weight = weight_kernels(slice, elements, {2 * e})};
}

Step swiglu(const Slice& slice, Fusion fusion, double elements) {
  const double e = slice.e;
  if (fusion == Fusion::Compiled)
    return {.forward = elementwise(slice.precision, elements, {3 * e}),
            .input = elementwise(slice.precision, elements, {5 * e})};
  return {.forward = elementwise(slice.precision, elements, {2 * e, 3 * e}),
          .input = elementwise(slice.precision, elements, {3 * e, 3 * e, 3 * e})};
}

Step gelu(const Slice& slice, bool bias, Fusion fusion, double elements) {
  const double e = slice.e;
  Step step{.input = elementwise(slice.precision, elements, {3 * e})};
  if (bias && fusion == Fusion::Eager) step.forward = elementwise(slice.precision, elements, {2 * e});
  append(step.forward, elementwise(slice.precision, elements, {2 * e}));
  if (bias) step.weight = weight_kernels(slice, elements, {e});
  return step;
}

/// Whether a compiled norm adds up the gradients of what it feeds: not where an exchange stands between.
bool norm_adds_up(const Slice& slice, const ModelSpec& model, Fusion fusion) {
  return model.norm == Norm::Rms && fusion == Fusion::Compiled && slice.t == 1 && !slice.megatron;
}

}  // namespace

Step add_bias(const Slice& slice, double elements) {
  return {.forward = elementwise(slice.precision, elements, {2 * slice.e}),
          .weight = weight_kernels(slice, elements, {slice.e})};
}

Step norm(const Slice& slice, const ModelSpec& model, Fusion fusion, int uses, bool input_at_hand,
          bool residual) {
  Step step;
  if (model.norm == Norm::Layer)
    step = layer_norm(slice, residual);
  else if (fusion == Fusion::Eager)
    step = eager_rms_norm(slice);
  else if (slice.megatron)
    step = fused_rms_norm(slice, residual);
  else
    step = compiled_rms_norm(slice, norm_adds_up(slice, model, fusion) ? uses : 1, input_at_hand);
  step.part = Part::Norm;
  return step;
}

bool norm_weight_later(const Slice& slice, const ModelSpec& model, const TrainingShape& shape) {
  return model.norm == Norm::Rms && !(slice.megatron && shape.fusion == Fusion::Compiled);
}

Step latent_norm(const Slice& slice, double width) {
  const double e = slice.e, elements = slice.outer_tokens * width;
  return {.forward = elementwise(slice.precision, elements, {2 * e}),
          .input = elementwise(slice.precision, elements, {3 * e}),
          .part = Part::Norm};
}

Step gradient_sum(const Slice& slice, const ModelSpec& model, Fusion fusion, int uses) {
  if (uses == 1 || norm_adds_up(slice, model, fusion)) return {};
  const double e = slice.e;
  const std::vector<double> passes = fusion == Fusion::Compiled
                                         ? std::vector{(uses + 1) * e}
                                         : std::vector(static_cast<std::size_t>(uses - 1), 3 * e);
  return {.input = elementwise(slice.precision, slice.whole(), passes), .by_tokens = true};
}

Step residual(const Slice& slice, const ModelSpec& model, const TrainingShape& shape, Again again) {
  constexpr double Mask = 1;  // byte an element
  const double e = slice.e;
  std::vector<double> forward;
  if (shape.fusion == Fusion::Compiled) {
    forward = {3 * e + (shape.dropout ? Mask : 0)};
  } else {
    if (model.bias) forward.push_back(2 * e);
    if (shape.dropout) forward.push_back(2 * e + Mask);
    forward.push_back(3 * e);
  }
  Step step{.forward = elementwise(slice.precision, slice.outer(), forward), .again = again};
  if (shape.dropout) step.input = elementwise(slice.precision, slice.outer(), {2 * e + Mask});
  if (model.bias) step.weight = weight_kernels(slice, slice.outer(), {e});
  return step;
}

Step kept_in_less(const Slice& slice, std::optional<KeptPrecision> precision, double elements) {
  if (!precision) return {};
  const std::vector<Kernel> cast = elementwise(slice.precision, elements, {slice.e + slice.kept(precision)});
  return {.forward = cast, .input = cast, .again = Again::No};
}

Step activation(const Slice& slice, const ModelSpec& model, Fusion fusion, double elements) {
  Step step = model.activation == Activation::Swiglu ? swiglu(slice, fusion, elements)
                                                     : gelu(slice, model.bias, fusion, elements);
  step.part = Part::Activation;
  return step;
}

}  // namespace syncline::transformer
