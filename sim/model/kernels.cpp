#include "sim/core/error.hpp"
#include "sim/model/steps.hpp"

namespace syncline::transformer {

Slice::Slice(const ModelSpec& model, const TrainingShape& shape)
    : precision(shape.compute),
      e(size_of(shape.compute).si()),
      t(shape.tensor_parallel),
      sequence_parallel(shape.sequence_parallel && shape.tensor_parallel > 1),
      sequence(static_cast<double>(shape.sequence)),
      sequences(static_cast<double>(shape.microbatch)),
      tokens(static_cast<double>(shape.tokens())),
      outer_tokens(sequence_parallel ? tokens / t : tokens),
      hidden(model.hidden),
      heads(static_cast<double>(model.heads) / t),
      query(heads * model.head_dim()),
      kv(static_cast<double>(model.kv_heads) / t * model.head_dim()),
      ffn(static_cast<double>(model.ffn) / t),
      vocabulary(static_cast<double>(model.vocabulary) / t),
      repeats_kv(model.heads != model.kv_heads),
      one_projection(model.norm == Norm::Layer) {
  SYNCLINE_CHECK(t >= 1, "at least one rank");
  for (const int whole : {model.heads, model.kv_heads, model.ffn, model.vocabulary})
    SYNCLINE_CHECK(whole % t == 0, "heads, ffn and vocabulary divide among the tensor-parallel ranks");
}

Kernel gemm(Precision precision, double m, double n, double k, double batch) {
  Kernel kernel;
  kernel.kind = KernelClass::Gemm;
  kernel.precision = precision;
  kernel.flop = Flop(2 * m * n * k * batch);
  kernel.hbm = Bytes((m * k + k * n + m * n) * size_of(precision).si() * batch);
  kernel.batch = static_cast<std::int64_t>(batch);
  kernel.m = static_cast<std::int64_t>(m);
  kernel.n = static_cast<std::int64_t>(n);
  kernel.k = static_cast<std::int64_t>(k);
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

void append(std::vector<Kernel>& to, const std::vector<Kernel>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace syncline::transformer
