#include <utility>

#include "sim/model/steps.hpp"

namespace syncline::transformer {
namespace {

/// Products that read the norm's output first.
int first_products(const Slice& s, const ModelSpec& model) {
  return model.activation == Activation::Swiglu && !s.one_projection ? 2 : 1;
}

/// A layer's steps as they come.
class Layer {
 public:
  Layer(const ModelSpec& model, const TrainingShape& shape)
      : model_(model), shape_(shape), s_(model, shape) {}

  std::vector<Step> run(LayerKind kind) {
    if (model_.latent)
      project_latent();
    else
      project();
    attend();
    for (Step& step : steps_) step.graph = Graphs::Attention;
    if (kind == LayerKind::Experts)
      add_experts();
    else
      add_mlp();
    return std::move(steps_);
  }

 private:
  void add(Step step) { steps_.push_back(std::move(step)); }

  /// q, k and v of norm(x).
  void project() {
    const Slice& s = s_;
    const int products = s.one_projection ? 1 : 3;
    const double both = s.key + s.value;
    add(norm(s, model_, shape_.fusion, products, false, true));
    add(enter(s, s.hidden, "attention", s.one_projection ? Again::No : Again::Op));
    add(gradient_sum(s, model_, shape_.fusion, products));
    if (s.one_projection) {
      add(linear(s, s.tokens, s.hidden, s.query + both, Again::No));
    } else {
      add(linear(s, s.tokens, s.hidden, s.query, Again::No));
      add(linear(s, s.tokens, s.hidden, s.key, Again::Op));
      add(linear(s, s.tokens, s.hidden, s.value, Again::No));
    }
    add(gather_again(s, s.hidden, "attention"));
    if (model_.bias) add(add_bias(s, s.tokens * (s.query + both)));
    // Gradients of q, k and v are put together for the one product that made them.
    if (s.one_projection) add({.input = elementwise(s.precision, s.tokens * (s.query + both), {2 * s.e})});
    if (model_.position == Position::Rotary) add(rotary(s, shape_.fusion, s.query, s.key));
    add(repeat_kv(s));
  }

  /// q of a compressed vector, k and v of another, each with a norm of its own. The compressing products are
  /// held whole by all ranks, each for its own tokens of the residual stream; what they make is gathered. The
  /// key's rotary part is made with the compressed vector, for all heads. Megatron-LM's MLASelfAttention.
  void project_latent() {
    const Slice& s = s_;
    const LatentAttention& latent = *model_.latent;
    const double pair = latent.key_value_rank, rotated = latent.rotary_size;
    const double own_keys = s.heads * latent.plain_size;
    add(norm(s, model_, shape_.fusion, 2, false, true));
    add({.input =
             elementwise(s.precision, s.outer(), {3 * s.e})});  // sum of the gradients of q's way and k's
    if (latent.query_rank > 0) {
      add(uncut(linear(s, s.outer_tokens, s.hidden, latent.query_rank, Again::No)));
      expand("query", latent.query_rank, latent.query_rank, s.query);
    } else {
      add(enter(s, s.hidden, "attention", Again::No));
      add(linear(s, s.tokens, s.hidden, s.query, Again::No));
      add(gather_again(s, s.hidden, "attention"));
    }
    add(uncut(linear(s, s.outer_tokens, s.hidden, pair + rotated, Again::No)));
    expand("key-value", pair, pair + rotated, own_keys + s.context);
    if (s.megatron && shape_.fusion == Fusion::Compiled) {
      // Queries in place; keys and values read as they were made, and written apart, keys with their rotated part
      // (Megatron-LM core_v0.16.0, fused_mla_yarn_rope_apply.py).
      std::vector<Kernel> both = elementwise(s.precision, s.tokens * s.heads * rotated, {2 * s.e});
      append(both, elementwise(s.precision, s.tokens * (own_keys + s.context + s.key + s.value), {s.e}));
      add(of_latent({.forward = both, .input = both}));
      return;
    }
    add(of_latent(rotary(s, shape_.fusion, s.heads * rotated, rotated)));
    // Both parts of queries and keys side by side, and values apart from keys.
    const std::vector<Kernel> copy =
        elementwise(s.precision, s.tokens * (s.query + s.key + s.value), {2 * s.e});
    add(of_latent({.forward = copy, .input = copy}));
  }

  static Step of_latent(Step step) {
    step.part = Part::Latent;
    return step;
  }

  /// A norm over the compressed vector, its gathering with what rides along, and the product by columns.
  void expand(std::string_view part, double rank, double gathered, double out) {
    add(latent_norm(s_, rank));
    add(enter(s_, gathered, part, Again::No));
    add(of_latent(linear(s_, s_.tokens, rank, out, Again::No)));
    add(gather_again(s_, rank, part));
  }

  /// Not beside a collective: of the rank's own tokens.
  static Step uncut(Step step) {
    step.by_tokens = false;
    return step;
  }

  /// x + dropout(attention(q, k, v) Wₒ + bias).
  void attend() {
    for (Step& step : attention(s_, shape_)) add(std::move(step));
    add(kept_in_less(s_, shape_.kept_attention_output, s_.tokens * s_.context));
    add(linear(s_, s_.tokens, s_.context, s_.hidden, Again::Op));
    add(leave(s_, "attention", Again::Op));
    add(residual(s_, model_, shape_, Again::Op));
  }

  /// x + dropout(activation(norm(x) W₁) W₂ + bias).
  void add_mlp() {
    add(norm(s_, model_, shape_.fusion, first_products(s_, model_), true, true));
    for (Step& step : mlp_steps(s_, model_, shape_, s_.ffn, "mlp")) {
      if (step.part == Part::Other) step.part = Part::Mlp;
      add(std::move(step));
    }
    add(residual(s_, model_, shape_, Again::No));
  }

  /// x + the experts of norm(x).
  void add_experts() {
    const int readers =
        1 + (s_.shared_ffn > 0 ? first_products(s_, model_) : 0);  // router and dispatch are one
    Step before = norm(s_, model_, shape_.fusion, readers, true, true);
    before.graph = Graphs::Router;
    add(std::move(before));
    if (s_.megatron) {  // sums of the gradients of router, dispatch and shared experts, by autograd
      const std::size_t sums = s_.shared_ffn > 0 ? 2 : 1;
      add({.input = elementwise(s_.precision, s_.outer(), std::vector(sums, 3 * s_.e)),
           .part = Part::Experts});
    }
    for (Step& step : expert_steps(s_, model_, shape_)) add(std::move(step));
    add(residual(s_, model_, shape_, Again::No));
  }

  const ModelSpec& model_;
  const TrainingShape& shape_;
  Slice s_;
  std::vector<Step> steps_;
};

/// Matrices on one rank, but for those of experts.
double matrices(const Slice& s, const ModelSpec& model, LayerKind kind) {
  const double replicated = replicated_matrices(model, kind);
  return (matrix_parameters(model, kind).dense - replicated) / s.t + replicated;
}

/// Norms, biases and matrices on one rank, but for experts'.
double parameters(const Slice& s, const ModelSpec& model, LayerKind kind) {
  const double latent = model.latent ? model.latent->query_rank + model.latent->key_value_rank : 0;
  const double norms = (2 * s.hidden + latent) * (model.norm == Norm::Layer ? 2 : 1);
  const double of_mlp = kind == LayerKind::Dense ? inner_halves(model) * s.ffn + s.hidden : 0;
  const double biases = model.bias ? s.query + s.key + s.value + s.hidden + of_mlp : 0;
  return matrices(s, model, kind) + norms + biases;
}

/// Into an MLP and out of it, for a width of 1.
double products_of_mlp(const ModelSpec& model) {
  return inner_halves(model) + 1;
}

double projection_parameters(const ModelSpec& model) {
  const double hidden = model.hidden, heads = model.heads;
  const double query = heads * model.head_dim(), context = heads * model.value_dim();
  if (!model.latent) return hidden * (2 * query + 2 * model.kv_heads * model.head_dim());
  const LatentAttention& latent = *model.latent;
  const double of_query = latent.query_rank > 0 ? latent.query_rank * query : hidden * query;
  const double of_key_value = latent.key_value_rank * (heads * latent.plain_size + context);
  return replicated_matrices(model, LayerKind::Dense) + of_query + of_key_value + context * hidden;
}

}  // namespace

std::vector<Step> mlp_steps(const Slice& s, const ModelSpec& model, const TrainingShape& shape, double ffn,
                            std::string_view part) {
  const bool gated = model.activation == Activation::Swiglu;
  const int products = first_products(s, model);
  const double inner = inner_halves(model) * ffn;
  std::vector<Step> steps{enter(s, s.hidden, part, products == 2 ? Again::Op : Again::No),
                          gradient_sum(s, model, shape.fusion, products)};
  for (int i = 0; i < products; ++i)
    steps.push_back(linear(s, s.tokens, s.hidden, inner / products, i == 0 ? Again::No : Again::Op));
  steps.push_back(gather_again(s, s.hidden, part));
  if (gated && model.bias) steps.push_back(add_bias(s, s.tokens * 2 * ffn));
  steps.push_back(kept_in_less(s, shape.kept_activation_input, s.tokens * inner));
  steps.push_back(activation(s, model, shape.fusion, s.tokens * ffn));
  steps.push_back(linear(s, s.tokens, ffn, s.hidden, Again::No));
  steps.push_back(leave(s, part, Again::No));
  return steps;
}

std::vector<Step> layer_steps(const ModelSpec& model, const TrainingShape& shape, LayerKind kind) {
  return Layer(model, shape).run(kind);
}

MatrixCount matrix_parameters(const ModelSpec& model, LayerKind kind) {
  const double products = products_of_mlp(model), hidden = model.hidden;
  const double attention = projection_parameters(model);
  if (kind == LayerKind::Dense) return {attention + products * hidden * model.ffn, 0, 0};
  const ExpertSpec& experts = *model.experts;
  const double router = hidden * experts.count, gate = experts.shared_gate ? hidden : 0;
  const double expert = products * hidden * experts.ffn;
  return {attention + router + gate + products * hidden * experts.shared_ffn, experts.count * expert,
          experts.top_k * expert};
}

}  // namespace syncline::transformer

namespace syncline {

Implementation implementation_of(const ModelSpec& model, const TrainingShape& shape) {
  return shape.implementation.value_or(model.norm == Norm::Layer ? Implementation::Megatron
                                                                 : Implementation::Torchtitan);
}

double replicated_matrices(const ModelSpec& model, LayerKind kind) {
  double width = 0;
  if (const auto& latent = model.latent)
    width += latent->query_rank + latent->key_value_rank + latent->rotary_size;
  if (kind == LayerKind::Experts) width += model.experts->count + (model.experts->shared_gate ? 1 : 0);
  return model.hidden * width;
}

ModuleCost layer_cost(const ModelSpec& model, const TrainingShape& shape, LayerKind kind) {
  const transformer::Slice s(model, shape);
  ModuleCost cost = transformer::cost_of(transformer::layer_steps(model, shape, kind), shape);
  cost.parameters = transformer::parameters(s, model, kind);
  const transformer::MatrixCount matrices = transformer::matrix_parameters(model, kind);
  cost.expert_parameters = matrices.experts / shape.experts.parallel / shape.experts.tensor;
  cost.trainable_parameters = shape.frozen ? 0 : cost.parameters + cost.expert_parameters;
  const transformer::LayerActivations held = transformer::layer_activations(model, shape, kind);
  cost.saved = Bytes(held.kept);
  cost.saved_by_load = Bytes(held.by_load);
  cost.transient = Bytes(held.recomputed + held.gradients);
  cost.kept_for_weight = Bytes(held.for_weight);
  // Autograd's unused gradients are one for each shape, and all experts have the same.
  if (s.stands_in()) {
    const double expert = kind == LayerKind::Experts ? cost.expert_parameters / s.local_experts : 0;
    cost.workspace = Bytes(s.e * (transformer::matrices(s, model, kind) + expert));
  }
  return cost;
}

}  // namespace syncline
