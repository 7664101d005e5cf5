// What a layer holds between forward and backward.
#include <algorithm>

#include "sim/model/steps.hpp"

namespace syncline::transformer {
namespace {

/// Of an MLP.
struct Inner {
  double first = 0;  // gate and up, or what GeLU reads; eager: and silu(gate)
  double last = 0;   // what its last product reads
  [[nodiscard]] double sum() const { return first + last; }
};

/// Bytes of a layer's tensors on one rank. With LayerNorm, GeLU, dropout and 16 bit they sum up to equations
/// 1, 2 and 4 of Korthikanti et al. (arXiv 2205.05198), fused kernels or not.
struct Tensors {
  double input, residual_sum;
  double norms;             // their outputs, and what eager autograd keeps besides
  double masks;             // of the dropouts after attention and MLP
  double latents;           // compressed vectors, before their norms
  double latent_norms;      // ... and after them
  double attention_inputs;  // q, k, v as attention reads them
  double core;  // flash: row statistics; unfused: probabilities before and after dropout, and its mask
  double attention_output;
  Inner mlp, shared, experts;
  double routed;  // tokens in the order of experts, as their first product reads them
  double router;  // weights of experts, and the map of tokens to them

  [[nodiscard]] double of_experts() const { return shared.sum() + experts.sum() + routed + router; }
  [[nodiscard]] double sum() const {
    return input + residual_sum + norms + masks + latents + latent_norms + attention_inputs + core +
           attention_output + mlp.sum() + of_experts();
  }
};

/// Of a norm, an element: what the products read of it; eager autograd keeps each RMSNorm's fp32 input and
/// both of its outputs.
double norm_bytes(const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  const bool eager = model.norm == Norm::Rms && shape.fusion == Fusion::Eager;
  if (!eager) return s.kept_input();
  return Fp32 + (s.frozen ? 0 : s.e) + s.kept_input();
}

/// Latent attention: elements of the compressed vectors, of the rank's own tokens.
double latent_elements(const Slice& s, const ModelSpec& model) {
  if (!model.latent) return 0;
  return s.outer_tokens * (model.latent->query_rank + model.latent->key_value_rank);
}

/// Flash attention's backward reads it in the precision of compute; the product's gradient may have a copy in
/// its own, and a second one where ranks have exchanged it. Or both read one that is kept in less.
double output_bytes(const Slice& s, const TrainingShape& shape) {
  if (shape.attention == AttentionKernels::Unfused) return s.kept_input();
  const bool exchanged = s.c > 1 && shape.context_exchange == ContextExchange::AllToAll;
  const bool one = shape.kept_attention_output || s.kept_input() == s.e;
  return s.kept(shape.kept_attention_output) + (one && !exchanged ? 0 : s.kept_input());
}

/// So many elements wide and long.
Inner inner_of(double elements, const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  const bool gated = model.activation == Activation::Swiglu, eager = shape.fusion == Fusion::Eager;
  return {s.kept(shape.kept_activation_input) * elements * (gated ? (eager ? 3 : 2) : 1),
          elements * s.kept_input()};
}

void add_experts(Tensors& bytes, const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  constexpr double Map = 1;
  bytes.shared = inner_of(s.tokens * s.shared_ffn, s, model, shape);
  bytes.experts = inner_of(s.routed * s.expert_ffn, s, model, shape);
  bytes.routed = s.routed * s.hidden * s.kept_input();
  bytes.router = s.own_tokens * model.experts->count * (Fp32 + Map);
}

Tensors tensors_of(const Slice& s, const ModelSpec& model, const TrainingShape& shape, LayerKind kind) {
  const double e = s.e;
  constexpr double Mask = 1;
  const double scores = s.sequences * s.heads * s.sequence * s.sequence;
  Tensors bytes{};
  bytes.input = bytes.residual_sum = e * s.outer();
  bytes.norms = 2 * s.outer() * norm_bytes(s, model, shape);
  bytes.masks = shape.dropout ? 2 * s.outer() * Mask : 0;
  bytes.latents = latent_elements(s, model) * e;
  bytes.latent_norms = latent_elements(s, model) * s.kept_input();
  bytes.attention_inputs = e * s.tokens * (s.query + (s.repeats_kv ? s.query + s.context : s.key + s.value));
  bytes.core = shape.attention == AttentionKernels::Flash ? Fp32 * s.tokens * s.heads
                                                          : scores * (e + (shape.dropout ? Mask + e : 0));
  bytes.attention_output = s.tokens * s.context * output_bytes(s, shape);
  if (kind == LayerKind::Dense)
    bytes.mlp = inner_of(s.tokens * s.ffn, s, model, shape);
  else
    add_experts(bytes, s, model, shape);
  return bytes;
}

/// What a compiler makes again from other tensors, being cheap: outputs of RMSNorm, and the product gate ·
/// up.
double cheap(const Tensors& bytes, const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  if (shape.fusion == Fusion::Eager || s.megatron) return 0;
  return (model.norm == Norm::Rms ? bytes.norms : 0) +
         (model.activation == Activation::Swiglu ? bytes.mlp.last + bytes.shared.last + bytes.experts.last
                                                 : 0);
}

/// Gradients alive together at the widest point of backward: after that of silu(gate) · up or of GeLU, or
/// before that of unfused attention's softmax. What a gated MLP's last product read has made room for the
/// gradient of it, as Transformer Engine frees what each product kept. Keys and values gathered from the
/// ranks that share a sequence are there with their gradients. Tokens gathered for experts are there one way or the
/// other all the time; they are counted in backward only, where with most is kept.
double gradients(const Slice& s, const ModelSpec& model, const TrainingShape& shape, LayerKind kind) {
  const bool gated = model.activation == Activation::Swiglu;
  const double inner = gated && !s.megatron ? 3 : 2;
  const auto of_mlp = [&](double tokens, double ffn) { return s.e * tokens * (inner * ffn + 2 * s.hidden); };
  const double mlp = kind == LayerKind::Dense
                         ? of_mlp(s.tokens, s.ffn)
                         : std::max(of_mlp(s.routed, s.expert_ffn), of_mlp(s.tokens, s.shared_ffn));
  // All tokens of the ranks that share experts, and of these what is its own: before experts, or behind them.
  const ExpertOptions& options = shape.experts;
  const bool gathers =
      kind == LayerKind::Experts && options.parallel > 1 && options.dispatch == Dispatch::AllGather;
  const double gathered = gathers ? s.e * s.hidden * (s.own_tokens * options.parallel + s.routed) : 0;
  const double outputs = s.query + s.hidden;
  double core = 0;
  if (shape.attention == AttentionKernels::Unfused)
    core = s.e * (2 * s.sequences * s.heads * s.sequence * s.sequence + s.tokens * outputs);
  else if (s.c > 1 && shape.context_exchange == ContextExchange::AllGather)
    core = s.e * s.tokens * (2 * s.c * (s.key + s.value) + outputs);
  return std::max({mlp, core, gathered});
}

/// Made again in the precision of compute, one after the other, from what was kept in less.
double widened(const Slice& s, const ModelSpec& model, const TrainingShape& shape, LayerKind kind) {
  const double inner = kind == LayerKind::Dense ? s.tokens * s.ffn
                                                : std::max(s.routed * s.expert_ffn, s.tokens * s.shared_ffn);
  return s.e * std::max(shape.kept_activation_input ? inner_halves(model) * inner : 0,
                        shape.kept_attention_output ? s.tokens * s.context : 0);
}

/// Elements that go into an MLP's products and come out of them, a token.
double in_and_out(const Slice& s, const ModelSpec& model, double ffn) {
  return ffn > 0 ? s.hidden + inner_halves(model) * ffn + ffn + s.hidden : 0;
}

/// ... of attention's products, of all tokens. Latent attention: into the compressing ones and out of them, of the rank's
/// own tokens, and into the others; the key's part with rotary embedding is made by the former.
double in_and_out_of_attention(const Slice& s, const ModelSpec& model) {
  const double out = s.context + s.hidden;
  if (!model.latent) return s.tokens * (s.hidden + s.query + s.key + s.value + out);
  const LatentAttention& latent = *model.latent;
  const double ranks = latent.query_rank + latent.key_value_rank;
  return s.outer_tokens * (s.hidden + ranks + latent.rotary_size) +
         s.tokens * (ranks + s.query + s.heads * latent.plain_size + s.value + out);
}

/// From I to W: of every product its input and the gradient of its output, of all tokens, as the product reads
/// them: Transformer Engine delays it with both cast. Of a norm whose weight waits, too, its normalised input and the
/// gradient of its output.
double for_weight(const Slice& s, const ModelSpec& model, const TrainingShape& shape, LayerKind kind) {
  if (s.frozen) return 0;
  const double norms = norm_weight_later(s, model, shape) ? 2 * 2 * s.outer() : 0;
  const double attention = in_and_out_of_attention(s, model);
  if (kind == LayerKind::Dense)
    return s.kept_input() * (attention + s.tokens * in_and_out(s, model, s.ffn)) + s.e * norms;
  const double shared = in_and_out(s, model, s.shared_ffn);
  const double experts = s.routed * in_and_out(s, model, s.expert_ffn);
  const double router = s.own_tokens * (s.hidden + model.experts->count);
  return s.kept_input() * (attention + s.tokens * shared + experts) + s.e * (router + norms);
}

/// Width of the MLP's first product, where gate and up are one or GeLU's input.
double first_product(const Slice& s, const ModelSpec& model) {
  return s.one_projection && model.activation == Activation::Swiglu ? 2 * s.ffn : s.ffn;
}

/// Kept under SelectiveOp, besides the layer's input: outputs of every second product, and attention's. Eager
/// checkpointing also stores the output of the last product, which no gradient needs.
double kept_products(const Tensors& bytes, const Slice& s, const ModelSpec& model,
                     const TrainingShape& shape) {
  const double projected = s.query + (s.one_projection ? s.key : 0) + s.value;
  const double last = shape.fusion == Fusion::Eager ? s.hidden : 0;
  return s.e * s.tokens * (projected + first_product(s, model) + last) + bytes.core + bytes.attention_output;
}

/// Made again under SelectiveOp. q, k and v as attention reads them are the kept outputs where they are one
/// product without rotary embedding.
double remade(const Tensors& bytes, const Slice& s, const ModelSpec& model) {
  const bool read_as_made = s.one_projection && model.position == Position::Learned && !s.repeats_kv;
  const double attention_inputs = read_as_made ? 0 : bytes.attention_inputs;
  const double key = s.one_projection ? 0 : s.e * s.tokens * s.key;
  return bytes.norms + bytes.residual_sum + bytes.masks + attention_inputs + key + bytes.mlp.sum() -
         s.e * s.tokens * first_product(s, model);
}

/// Whether what a gated MLP's last product reads is among what is cheap().
bool last_again(const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  return shape.fusion == Fusion::Compiled && !s.megatron && model.activation == Activation::Swiglu;
}

/// What the named modules free, of what is `again` made anyway.
double freed(const Tensors& bytes, const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  const RecomputedModules& modules = shape.modules;
  const double again = cheap(bytes, s, model, shape);
  const bool norms_again = again > 0 && model.norm == Norm::Rms;
  const bool made_anyway = last_again(s, model, shape);
  double sum = again;
  if (modules.norms) sum += bytes.latent_norms + (norms_again ? 0 : bytes.norms);
  if (modules.core) sum += bytes.core;
  const auto add = [&](const Inner& inner, bool activation, bool whole) {
    if ((activation || whole) && !made_anyway) sum += inner.last;
    if (whole) sum += inner.first;
  };
  add(bytes.mlp, modules.activation, modules.mlp);
  add(bytes.shared, modules.activation, modules.shared || modules.experts);
  add(bytes.experts, modules.expert_activation, modules.experts);
  if (modules.experts) sum += bytes.routed + bytes.router;
  if (modules.latent && model.latent) sum += bytes.attention_inputs;
  return sum;
}

/// Of what is kept, what goes by the tokens that came: what the experts' products read and make.
double kept_by_load(const Tensors& bytes, const Slice& s, const ModelSpec& model,
                    const TrainingShape& shape) {
  const bool full = shape.recompute == Recompute::Full;
  const bool modules = shape.recompute == Recompute::Modules;
  if (full || (modules && shape.modules.experts)) return 0;
  const bool freed = last_again(s, model, shape) || (modules && shape.modules.expert_activation);
  return bytes.routed + bytes.experts.first + (freed ? 0 : bytes.experts.last);
}

}  // namespace

LayerActivations layer_activations(const ModelSpec& model, const TrainingShape& shape, LayerKind kind) {
  const Slice s(model, shape);
  const Tensors bytes = tensors_of(s, model, shape, kind);
  const double all = bytes.sum(), again = cheap(bytes, s, model, shape);
  const double widest = gradients(s, model, shape, kind) + widened(s, model, shape, kind);
  const double weight = for_weight(s, model, shape, kind);
  const double by_load = kind == LayerKind::Experts ? kept_by_load(bytes, s, model, shape) : 0;
  switch (shape.recompute) {
    case Recompute::None: return {all - again, again, widest, weight, by_load};
    case Recompute::Selective: return {all - again - bytes.core, again + bytes.core, widest, weight, by_load};
    case Recompute::SelectiveOp:
      return {bytes.input + kept_products(bytes, s, model, shape), remade(bytes, s, model), widest, weight};
    case Recompute::Full: return {bytes.input, all - bytes.input, widest, weight};
    case Recompute::Modules: {
      const double gone = freed(bytes, s, model, shape);
      return {all - gone, gone, widest, weight, by_load};
    }
  }
  return {};
}

}  // namespace syncline::transformer
