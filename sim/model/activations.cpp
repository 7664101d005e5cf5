// What a layer holds between forward and backward.
#include <algorithm>

#include "sim/model/steps.hpp"

namespace syncline::transformer {
namespace {

/// Bytes of a layer's tensors on one rank. With LayerNorm, GeLU, dropout and 16 bit they sum up to equations
/// 1, 2 and 4 of Korthikanti et al. (arXiv 2205.05198), fused kernels or not.
struct Tensors {
  double input, residual_sum;
  double norms;             // their outputs, and what eager autograd keeps besides
  double masks;             // of the dropouts after attention and MLP
  double attention_inputs;  // q, k, v as attention reads them
  double core;  // flash: row statistics; unfused: probabilities before and after dropout, and its mask
  double attention_output;
  double mlp;  // between the products
};

Tensors tensors_of(const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  const bool eager = shape.fusion == Fusion::Eager;
  const bool gated = model.activation == Activation::Swiglu;
  const double e = s.e;
  constexpr double Mask = 1;
  const double scores = s.sequences * s.heads * s.sequence * s.sequence;
  Tensors bytes{};
  bytes.input = bytes.residual_sum = e * s.outer();
  // Eager autograd keeps each RMSNorm's fp32 input and both of its outputs.
  bytes.norms = 2 * s.outer() * (model.norm == Norm::Rms && eager ? Fp32 + 2 * e : e);
  bytes.masks = shape.dropout ? 2 * s.outer() * Mask : 0;
  bytes.attention_inputs = e * s.tokens * (s.query + 2 * (s.repeats_kv ? s.query : s.kv));
  bytes.core = shape.attention == AttentionKernels::Flash ? Fp32 * s.tokens * s.heads
                                                          : scores * (e + (shape.dropout ? Mask + e : 0));
  bytes.attention_output = e * s.tokens * s.query;
  // SwiGLU: gate, up, their product, eager: silu(gate). GeLU: its input and output.
  bytes.mlp = e * s.tokens * s.ffn * (gated ? (eager ? 4 : 3) : 2);
  return bytes;
}

double sum(const Tensors& bytes) {
  return bytes.input + bytes.residual_sum + bytes.norms + bytes.masks + bytes.attention_inputs + bytes.core +
         bytes.attention_output + bytes.mlp;
}

/// What a compiler makes again from other tensors, being cheap: outputs of RMSNorm, and the product gate ·
/// up.
double cheap(const Tensors& bytes, const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  if (shape.fusion == Fusion::Eager) return 0;
  return (model.norm == Norm::Rms ? bytes.norms : 0) +
         (model.activation == Activation::Swiglu ? s.e * s.tokens * s.ffn : 0);
}

/// Gradients alive together at the widest point of backward: after that of silu(gate) · up or of GeLU, or
/// before that of unfused attention's softmax.
double gradients(const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  const double inner = model.activation == Activation::Swiglu ? 3 : 2;
  const double mlp = s.e * s.tokens * (inner * s.ffn + 2 * s.hidden);
  if (shape.attention == AttentionKernels::Flash) return mlp;
  const double scores = s.sequences * s.heads * s.sequence * s.sequence;
  return std::max(mlp, s.e * (2 * scores + s.tokens * (s.query + s.hidden)));
}

/// From I to W: of every product its input and the gradient of its output, of all tokens; of an RMSNorm its
/// normalised input and the gradient of its output (LayerNorm's weight has its gradient in I).
double for_weight(const Slice& s, const ModelSpec& model) {
  const double inner = model.activation == Activation::Swiglu ? 2 : 1;
  const double inputs = 2 * s.hidden + s.query + s.ffn;
  const double output_gradients = s.query + 2 * s.kv + s.hidden + inner * s.ffn + s.hidden;
  const double norms = model.norm == Norm::Rms ? 2 * 2 * s.outer() : 0;
  return s.e * (s.tokens * (inputs + output_gradients) + norms);
}

/// Kept under SelectiveOp, besides the layer's input: outputs of every second product, and attention's. Eager
/// checkpointing also stores the output of the last product, which no gradient needs.
double kept_products(const Tensors& bytes, const Slice& s, const TrainingShape& shape) {
  const double projected = s.query + (s.one_projection ? 2 : 1) * s.kv;
  const double last = shape.fusion == Fusion::Eager ? s.hidden : 0;
  return s.e * s.tokens * (projected + s.ffn + last) + bytes.core + bytes.attention_output;
}

/// Made again under SelectiveOp. q, k and v as attention reads them are the kept outputs where they are one
/// product without rotary embedding.
double remade(const Tensors& bytes, const Slice& s, const ModelSpec& model) {
  const bool read_as_made = s.one_projection && model.position == Position::Learned && !s.repeats_kv;
  const double attention_inputs = read_as_made ? 0 : bytes.attention_inputs;
  const double key = s.one_projection ? 0 : s.e * s.tokens * s.kv;
  return bytes.norms + bytes.residual_sum + bytes.masks + attention_inputs + key + bytes.mlp -
         s.e * s.tokens * s.ffn;
}

}  // namespace

LayerActivations layer_activations(const ModelSpec& model, const TrainingShape& shape) {
  const Slice s(model, shape);
  const Tensors bytes = tensors_of(s, model, shape);
  const double all = sum(bytes), again = cheap(bytes, s, model, shape);
  const double widest = gradients(s, model, shape), weight = for_weight(s, model);
  switch (shape.recompute) {
    case Recompute::None:
      return {all - again, again, widest, weight};
    case Recompute::Selective:
      return {all - again - bytes.core, again + bytes.core, widest, weight};
    case Recompute::SelectiveOp:
      return {bytes.input + kept_products(bytes, s, shape), remade(bytes, s, model), widest, weight};
    case Recompute::Full:
      return {bytes.input, all - bytes.input, widest, weight};
  }
  return {};
}

}  // namespace syncline::transformer
