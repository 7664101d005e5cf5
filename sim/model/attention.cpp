// Attention without its products with weights.
#include "sim/model/steps.hpp"

namespace syncline::transformer {
namespace {

/// Causal flash attention: forward 2 products over the lower triangle, backward 5 (one of them recomputes the
/// scores; Dao et al., NeurIPS 2022, arXiv 2205.14135). Forward moves q, k, v, o; backward those, their
/// gradients and the row statistics; k and v stand expanded to all heads.
Step flash(const Slice& slice) {
  Kernel kernel;
  kernel.kind = KernelClass::Attention;
  kernel.precision = slice.precision;
  kernel.batch = static_cast<std::int64_t>(slice.sequences * slice.heads);
  kernel.m = kernel.n = static_cast<std::int64_t>(slice.sequence);
  kernel.k = static_cast<std::int64_t>(slice.query / slice.heads);
  const double tensor = slice.tokens * slice.query * slice.e;
  const double statistics = slice.tokens * slice.heads * Fp32;
  Kernel backward = kernel;
  kernel.flop = Flop(4 * slice.sequence * slice.sequence * slice.query / 2 * slice.sequences);
  kernel.hbm = Bytes(4 * tensor + statistics);
  backward.backward = true;
  backward.flop = 2.5 * kernel.flop;
  backward.hbm = Bytes(8 * tensor + statistics);
  return {.forward = {kernel}, .input = {backward}, .again = Again::Core};
}

/// Scores, softmax, dropout and the product with the values, over the whole square in memory; the mask is
/// causal, but nothing is left out. As Megatron-LM's CoreAttention: scaling rides in the product, and the
/// output is copied from heads by sequence to tokens by width.
Step unfused(const Slice& slice, const TrainingShape& shape) {
  constexpr double Mask = 1;  // byte an element
  const Precision p = slice.precision;
  const double s = slice.sequence, d = slice.query / slice.heads, batch = slice.sequences * slice.heads,
               e = slice.e;
  const double scores = batch * s * s, output = slice.tokens * slice.query;
  const bool fused = shape.fusion == Fusion::Compiled;
  const std::vector<double> softmax =
      fused ? std::vector{2 * e}
            : std::vector{e + Fp32, 2 * Fp32, 2 * Fp32, Fp32 + e};  // to fp32, mask, softmax, back
  const std::vector<double> softmax_backward =
      fused ? std::vector{3 * e} : std::vector{e + Fp32, 3 * Fp32, 2 * Fp32, Fp32 + e};
  const std::vector<Kernel> dropout =
      shape.dropout ? elementwise(p, scores, {2 * e + Mask}) : std::vector<Kernel>{};
  const std::vector<Kernel> copy = elementwise(p, output, {2 * e});

  Step step{.again = Again::Core};
  step.forward = {gemm(p, s, s, d, batch)};  // q kᵀ
  append(step.forward, elementwise(p, scores, softmax));
  append(step.forward, dropout);
  append(step.forward, {gemm(p, s, d, s, batch)});  // times v
  append(step.forward, copy);
  step.input = copy;
  append(step.input, {gemm(p, s, s, d, batch), gemm(p, s, d, s, batch)});  // of the probabilities, of v
  append(step.input, dropout);
  append(step.input, elementwise(p, scores, softmax_backward));
  append(step.input, {gemm(p, s, d, s, batch), gemm(p, s, d, s, batch)});  // of q, of k
  return step;
}

}  // namespace

/// Cast, multiply, cast back. Compilers leave complex arithmetic alone (torch.compile falls back to eager
/// kernels), so fused or not makes no difference.
Step rotary(const Slice& slice) {
  std::vector<Kernel> kernels;
  for (const double width : {slice.query, slice.kv}) {
    append(kernels,
           elementwise(slice.precision, slice.tokens * width, {slice.e + Fp32, 2 * Fp32, Fp32 + slice.e}));
  }
  return {.forward = kernels, .input = kernels};
}

Step repeat_kv(const Slice& slice) {
  if (!slice.repeats_kv) return {};
  const std::vector<Kernel> both =
      elementwise(slice.precision, slice.tokens * (slice.query + slice.kv), {slice.e, slice.e});
  return {.forward = both, .input = both};
}

Step attention(const Slice& slice, const TrainingShape& shape) {
  return shape.attention == AttentionKernels::Flash ? flash(slice) : unfused(slice, shape);
}

}  // namespace syncline::transformer
