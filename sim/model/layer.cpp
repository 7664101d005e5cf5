#include <utility>

#include "sim/model/steps.hpp"

namespace syncline::transformer {
namespace {

/// x + dropout(attention(norm(x)) Wₒ + bias).
void add_attention(std::vector<Step>& steps, const Slice& s, const ModelSpec& model,
                   const TrainingShape& shape) {
  const int products = s.one_projection ? 1 : 3;
  steps.push_back(norm(s, model, shape.fusion, products, false, true));
  steps.push_back(enter(s, "attention", s.one_projection ? Again::No : Again::Op));
  steps.push_back(gradient_sum(s, model, shape.fusion, products));
  if (s.one_projection) {
    steps.push_back(linear(s, s.hidden, s.query + 2 * s.kv, Again::No));
  } else {
    steps.push_back(linear(s, s.hidden, s.query, Again::No));
    steps.push_back(linear(s, s.hidden, s.kv, Again::Op));
    steps.push_back(linear(s, s.hidden, s.kv, Again::No));
  }
  steps.push_back(gather_again(s, "attention"));
  if (model.bias) steps.push_back(add_bias(s, s.tokens * (s.query + 2 * s.kv)));
  // Gradients of q, k and v are put together for the one product that made them.
  if (s.one_projection)
    steps.push_back({.input = elementwise(s.precision, s.tokens * (s.query + 2 * s.kv), {2 * s.e})});
  if (model.position == Position::Rotary) steps.push_back(rotary(s));
  steps.push_back(repeat_kv(s));
  steps.push_back(attention(s, shape));
  steps.push_back(linear(s, s.query, s.hidden, Again::Op));
  steps.push_back(leave(s, "attention", Again::Op));
  steps.push_back(residual(s, model, shape, Again::Op));
}

/// x + dropout(activation(norm(x) W₁) W₂ + bias).
void add_mlp(std::vector<Step>& steps, const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  const bool gated = model.activation == Activation::Swiglu;
  const int products = gated ? 2 : 1;
  steps.push_back(norm(s, model, shape.fusion, products, true, true));
  steps.push_back(enter(s, "mlp", gated ? Again::Op : Again::No));
  steps.push_back(gradient_sum(s, model, shape.fusion, products));
  steps.push_back(linear(s, s.hidden, s.ffn, Again::No));
  if (gated) steps.push_back(linear(s, s.hidden, s.ffn, Again::Op));
  steps.push_back(gather_again(s, "mlp"));
  if (gated && model.bias) steps.push_back(add_bias(s, s.tokens * 2 * s.ffn));
  steps.push_back(activation(s, model, shape.fusion));
  steps.push_back(linear(s, s.ffn, s.hidden, Again::No));
  steps.push_back(leave(s, "mlp", Again::No));
  steps.push_back(residual(s, model, shape, Again::No));
}

/// Norms, biases and matrices on one rank.
double parameters(const Slice& s, const ModelSpec& model) {
  const bool gated = model.activation == Activation::Swiglu;
  const double norms = 2 * s.hidden * (model.norm == Norm::Layer ? 2 : 1);
  const double biases = model.bias ? s.query + 2 * s.kv + s.hidden + (gated ? 2 : 1) * s.ffn + s.hidden : 0;
  return matrix_parameters(model) / s.t + norms + biases;
}

}  // namespace

std::vector<Step> layer_steps(const ModelSpec& model, const TrainingShape& shape) {
  const Slice slice(model, shape);
  std::vector<Step> steps;
  add_attention(steps, slice, model, shape);
  add_mlp(steps, slice, model, shape);
  return steps;
}

double matrix_parameters(const ModelSpec& model) {
  const double hidden = model.hidden, head = model.head_dim();
  const double products = model.activation == Activation::Swiglu ? 3 : 2;
  return hidden * (2 * model.heads * head + 2 * model.kv_heads * head + products * model.ffn);
}

}  // namespace syncline::transformer

namespace syncline {

ModuleCost layer_cost(const ModelSpec& model, const TrainingShape& shape) {
  ModuleCost cost = transformer::cost_of(transformer::layer_steps(model, shape), shape.recompute);
  cost.parameters = transformer::parameters(transformer::Slice(model, shape), model);
  const transformer::LayerActivations held = transformer::layer_activations(model, shape);
  cost.saved = Bytes(held.kept);
  cost.transient = Bytes(held.recomputed + held.gradients);
  cost.kept_for_weight = Bytes(held.for_weight);
  return cost;
}

}  // namespace syncline
