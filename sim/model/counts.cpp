#include "sim/model/steps.hpp"

namespace syncline {

Bytes size_of(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
    case Precision::Tf32: return Bytes(4);
    case Precision::Fp16:
    case Precision::Bf16: return Bytes(2);
    case Precision::Fp8:
    case Precision::Fp8Block:
    case Precision::Int8: return Bytes(1);
    case Precision::Fp4: return Bytes(0.5);
  }
  return Bytes(0);
}

std::vector<Kernel> kernels_of(const std::vector<Segment>& segments) {
  std::vector<Kernel> kernels;
  for (const Segment& segment : segments) transformer::append(kernels, segment.kernels);
  return kernels;
}

std::vector<Kernel> backward_kernels(const ModuleCost& cost) {
  std::vector<Kernel> kernels = kernels_of(cost.backward_input);
  transformer::append(kernels, cost.backward_weight);
  return kernels;
}

double parameter_count(const ModelSpec& model) {
  const TrainingShape any{.sequence = 1};
  return embedding_cost(model, any).parameters + model.layers * layer_cost(model, any).parameters +
         head_cost(model, any).parameters;
}

Flop model_flop(const ModelSpec& model, std::int64_t sequence, double tokens) {
  const double widths = static_cast<double>(model.heads) * (model.head_dim() + model.value_dim()) / 2;
  const double head = model.output_projection ? static_cast<double>(model.vocabulary) * model.hidden : 0;
  const double matrices = model.layers * transformer::matrix_parameters(model) + head;
  const double attention = static_cast<double>(model.layers) * widths * static_cast<double>(sequence);
  return Flop(6 * tokens * (matrices + attention));
}

Flop megatron_flop(const ModelSpec& model, std::int64_t sequence, double sequences) {
  const double L = model.layers, h = model.hidden, V = model.vocabulary, s = static_cast<double>(sequence);
  return Flop(96 * sequences * s * L * h * h * (1 + s / (6 * h) + V / (16 * L * h)));
}

}  // namespace syncline
