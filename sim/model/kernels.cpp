#include <algorithm>
#include <cmath>

#include "sim/core/error.hpp"
#include "sim/model/steps.hpp"

namespace syncline::transformer {

Slice::Slice(const ModelSpec& model, const TrainingShape& shape)
    : precision(shape.compute),
      e(size_of(shape.compute).si()),
      linear(shape.linear.value_or(shape.compute)),
      scaling(shape.scaling),
      t(shape.tensor_parallel),
      c(shape.context_parallel),
      sequence_parallel(shape.sequence_parallel && shape.tensor_parallel > 1),
      megatron(implementation_of(model, shape) == Implementation::Megatron),
      frozen(shape.frozen),
      weights_come_and_go(shape.weights_come_and_go),
      weight_gradients(shape.weight_gradients),
      sequence(static_cast<double>(shape.sequence)),
      sequences(static_cast<double>(shape.microbatch)),
      reach(transformer::reach(model, sequence)),
      tokens(static_cast<double>(shape.tokens()) / c),
      outer_tokens(sequence_parallel ? tokens / t : tokens),
      hidden(model.hidden),
      heads(static_cast<double>(model.heads) / t),
      query(heads * model.head_dim()),
      key(static_cast<double>(model.kv_heads) / t * model.head_dim()),
      value(static_cast<double>(model.kv_heads) / t * model.value_dim()),
      context(heads * model.value_dim()),
      ffn(static_cast<double>(model.ffn) / t),
      vocabulary(static_cast<double>(model.vocabulary) / t),
      repeats_kv(model.heads != model.kv_heads && !megatron && c == 1),
      one_projection(megatron),
      own_tokens(tokens_to_route(model, shape)),
      routed(routed_tokens(model, shape)),
      local_experts(model.experts ? static_cast<double>(model.experts->count) / shape.experts.parallel : 0),
      expert_ffn(model.experts ? static_cast<double>(model.experts->ffn) / shape.experts.tensor : 0),
      shared_ffn(model.experts ? static_cast<double>(model.experts->shared_ffn) / t : 0) {
  SYNCLINE_CHECK(t >= 1 && c >= 1, "at least one rank");
  const int shared = model.experts ? model.experts->shared_ffn : 0;
  for (const int whole : {model.heads, model.kv_heads, model.ffn, model.vocabulary, shared})
    SYNCLINE_CHECK(whole % t == 0, "heads, ffn and vocabulary divide among the tensor-parallel ranks");
  SYNCLINE_CHECK(!model.latent || model.kv_heads == model.heads, "latent attention has a key for every head");
  SYNCLINE_CHECK(c == 1 || shape.sequence % (2 * c) == 0, "a sequence divides into two chunks a rank");
}

double reach(const ModelSpec& model, double sequence) {
  if (model.window == 0 || model.window >= sequence) return sequence;
  const double window = model.window, near = window * (2 * sequence - window) / sequence;
  return sequence + (near - sequence) / model.window_every;
}

bool Slice::narrow() const {
  return size_of(linear).si() < 2;
}

double Slice::operand() const {
  const double bytes = std::min(e, size_of(linear).si());
  if (!narrow() || scaling != Scaling::Block) return bytes;
  // fp32 for 128 numbers, or one byte for 32; one byte for 16 of NVFP4.
  return bytes + (linear == Precision::Fp4 ? 1.0 / 16 : 1.0 / 32);
}

double Slice::kept(std::optional<KeptPrecision> in) const {
  if (!in) return e;
  const double scale = narrow() && scaling == Scaling::Block ? 1.0 / 32 : 0;  // fp32 for 128 numbers
  return (in == KeptPrecision::Fp8 ? 1 : 1.5) + scale;
}

Kernel gemm(Precision precision, double m, double n, double k, double batch) {
  Kernel kernel;
  kernel.kind = KernelClass::Gemm;
  kernel.precision = precision;
  kernel.flop = Flop(2 * m * n * k * batch);
  kernel.hbm = Bytes((m * k + k * n + m * n) * size_of(precision).si() * batch);
  // Tokens of an expert are a mean.
  const auto whole = [](double size) { return static_cast<std::int64_t>(std::ceil(size - 1e-9 * size)); };
  kernel.batch = whole(batch);
  kernel.m = whole(m);
  kernel.n = whole(n);
  kernel.k = whole(k);
  return kernel;
}

std::vector<Kernel> elementwise(Precision precision, double elements,
                                const std::vector<double>& bytes_per_element) {
  std::vector<Kernel> kernels;
  for (const double bytes : bytes_per_element) {
    Kernel kernel;
    kernel.kind = KernelClass::Elementwise;
    kernel.precision = precision;
    kernel.hbm = Bytes(elements * bytes);
    kernels.push_back(kernel);
  }
  return kernels;
}

std::vector<Kernel> number_by_number(Precision precision, double elements,
                                     const std::vector<double>& bytes_per_element) {
  std::vector<Kernel> kernels = elementwise(precision, elements, bytes_per_element);
  for (Kernel& kernel : kernels) kernel.kind = KernelClass::Gather;
  return kernels;
}

void append(std::vector<Kernel>& to, const std::vector<Kernel>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace syncline::transformer
