#include <algorithm>

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
  transformer::append(kernels, cost.expert_weight);
  transformer::append(kernels, cost.backward_weight);
  return kernels;
}

LayerKind layer_kind(const ModelSpec& model, int layer) {
  if (!model.experts || layer < model.experts->dense_layers) return LayerKind::Dense;
  const int like = std::min(layer, model.layers - 1);
  return (like + 1) % model.experts->every == 0 ? LayerKind::Experts : LayerKind::Dense;
}

int layers_of(const ModelSpec& model, LayerKind kind) {
  int count = 0;
  for (int layer = 0; layer < model.layers; ++layer) count += layer_kind(model, layer) == kind ? 1 : 0;
  return count;
}

std::vector<int> expert_layers(const ModelSpec& model) {
  std::vector<int> layers;
  for (int layer = 0; layer < model.layers + model.extra_predictions; ++layer)
    if (layer_kind(model, layer) == LayerKind::Experts) layers.push_back(layer);
  return layers;
}

double parameter_count(const ModelSpec& model) {
  const TrainingShape any{.sequence = 1};
  double sum = embedding_cost(model, any).parameters + head_cost(model, any).parameters;
  for (const LayerKind kind : {LayerKind::Dense, LayerKind::Experts}) {
    const int layers = layers_of(model, kind);
    if (layers == 0) continue;
    const ModuleCost layer = layer_cost(model, any, kind);
    sum += layers * (layer.parameters + layer.expert_parameters);
  }
  if (model.extra_predictions > 0) {
    const ModuleCost prediction = prediction_cost(model, any);
    sum += model.extra_predictions * (prediction.parameters + prediction.expert_parameters);
  }
  return sum;
}

Flop model_flop(const ModelSpec& model, std::int64_t sequence, double tokens) {
  const double widths = static_cast<double>(model.heads) * (model.head_dim() + model.value_dim()) / 2;
  const double head = model.output_projection ? static_cast<double>(model.vocabulary) * model.hidden : 0;
  const auto matrices_of = [&model](LayerKind kind) {
    const transformer::MatrixCount matrices = transformer::matrix_parameters(model, kind);
    return matrices.dense + matrices.used;
  };
  double matrices = head;
  for (const LayerKind kind : {LayerKind::Dense, LayerKind::Experts})
    if (const int layers = layers_of(model, kind); layers > 0) matrices += layers * matrices_of(kind);
  const double hidden = model.hidden;
  matrices +=
      model.extra_predictions * (2 * hidden * hidden + matrices_of(layer_kind(model, model.layers)) + head);
  const double attention = static_cast<double>(model.layers + model.extra_predictions) * widths *
                           transformer::reach(model, static_cast<double>(sequence));
  return Flop(6 * tokens * (matrices + attention));
}

Flop megatron_flop(const ModelSpec& model, std::int64_t sequence, double sequences) {
  const double L = model.layers, h = model.hidden, V = model.vocabulary, s = static_cast<double>(sequence);
  return Flop(96 * sequences * s * L * h * h * (1 + s / (6 * h) + V / (16 * L * h)));
}

}  // namespace syncline
