// What stands before the first layer and after the last.
#include <algorithm>

#include "sim/model/steps.hpp"

namespace syncline {
namespace transformer {
namespace {

/// Rows looked up in a table; backward clears the table's gradient and adds the rows. Where gradients are
/// summed up in fp32 the table's is added in one more pass.
Step look_up(const Slice& s, double rows, double elements, const std::vector<double>& forward) {
  Step step{.forward = elementwise(s.precision, elements, forward)};
  if (s.frozen) return step;
  step.weight = elementwise(s.precision, rows * s.hidden, {s.e});
  append(step.weight, elementwise(s.precision, elements, {3 * s.e}));
  if (s.weight_gradients != WeightGradients::Plain) append(step.weight, added_gradient(s, rows * s.hidden));
  return step;
}

/// Word embedding, cut by vocabulary among the ranks: each looks up what it holds, zeroes the rest, and all
/// add up. Then learned positions and dropout.
std::vector<Step> embedding_steps(const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  constexpr double Mask = 1;
  const double e = s.e;
  const std::vector<double> words = s.t == 1 ? std::vector{2 * e} : std::vector{2 * e, e};
  std::vector<Step> steps{look_up(s, s.vocabulary, s.whole(), words), leave(s, "embedding", Again::No)};
  if (model.position == Position::Learned)
    steps.push_back(look_up(s, model.max_sequence, s.outer(), {3 * e}));
  if (shape.dropout)
    steps.push_back({.forward = elementwise(s.precision, s.outer(), {2 * e + Mask}),
                     .input = elementwise(s.precision, s.outer(), {2 * e + Mask})});
  return steps;
}

/// PyTorch's cross-entropy. Forward: cast to fp32; log-softmax, which reads a row three times (largest, sum,
/// result): a row is too long for a cache. Backward: clear the gradient of the chosen logits; log-softmax
/// reads it twice and its result once; cast back.
Step loss(const Slice& s) {
  const double logits = s.tokens * s.vocabulary;
  return {.forward = elementwise(Precision::Fp32, logits, {s.e + Fp32, 3 * Fp32 + Fp32}),
          .input = elementwise(Precision::Fp32, logits, {Fp32, 3 * Fp32 + Fp32, Fp32 + s.e})};
}

/// Cross-entropy of logits cut by vocabulary (Megatron-LM's vocab_parallel_cross_entropy): largest, chosen
/// logit and sum of exponentials are each agreed upon by an all-reduce, where there is more than one rank.
std::vector<Step> parallel_loss(const Slice& s) {
  const double logits = s.tokens * s.vocabulary;
  const auto passes = [logits](const std::vector<double>& bytes) {
    return elementwise(Precision::Fp32, logits, bytes);
  };
  Step largest{
      .forward = passes({s.e + Fp32, Fp32}),    // to fp32, largest of a row
      .input = passes({2 * Fp32, Fp32 + s.e}),  // softmax less one for the chosen, times the scale; cast back
      .after_forward = all_reduce_of_tokens(s, "loss-maximum")};
  Step chosen{.forward = passes({2 * Fp32}), .after_forward = all_reduce_of_tokens(s, "loss-chosen")};
  Step sum{.forward = passes({2 * Fp32, Fp32}),
           .after_forward = all_reduce_of_tokens(s, "loss-sum")};  // exp, sum
  Step softmax{.forward = passes({2 * Fp32})};
  return {largest, chosen, sum, softmax};
}

/// Nothing outside the layers is computed again, or in a graph but that of the step.
TrainingShape kept(TrainingShape shape) {
  shape.recompute = Recompute::None;
  if (shape.graphs != Graphs::Step) shape.graphs = Graphs::None;
  return shape;
}

/// One kernel for the sums of a row and one that writes its gradient over it; backward scales that. Ranks
/// that each have a part of the row gather three numbers of it: largest, sum, chosen. Transformer Engine's
/// parallel cross-entropy, whose kernels have a program a row, far from the speed of a copy.
std::vector<Step> fused_loss(const Slice& s) {
  const double logits = s.tokens * s.vocabulary;
  Step sums{.forward = number_by_number(s.precision, logits, {s.e})};
  if (s.t > 1)
    sums.after_forward =
        collective(LayerGroup::Tensor, CollectiveKind::AllGather, s.t * s.tokens * 3 * Fp32, "loss");
  Step gradient{.forward = number_by_number(s.precision, logits, {2 * s.e}),
                .input = number_by_number(s.precision, logits, {2 * s.e})};
  return {sums, gradient};
}

/// Whether the loss is Megatron-LM's.
bool cut_by_vocabulary(const Slice& s) {
  return s.megatron || s.t > 1;
}

std::vector<Step> head_steps(const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  const Fusion fusion = s.megatron ? shape.fusion : Fusion::Eager;
  std::vector<Step> steps{norm(s, model, fusion, 1, false, model.norm == Norm::Rms)};
  if (!model.output_projection) return steps;
  for (const Step& step :
       {enter(s, s.hidden, "head", Again::No), plain_linear(s, s.tokens, s.hidden, s.vocabulary, Again::No),
        gather_again(s, s.hidden, "head")})
    steps.push_back(step);
  const std::vector<Step> of_loss = shape.fused_loss       ? fused_loss(s)
                                    : cut_by_vocabulary(s) ? parallel_loss(s)
                                                           : std::vector{loss(s)};
  steps.insert(steps.end(), of_loss.begin(), of_loss.end());
  return steps;
}

/// Bytes of an element of the logits. PyTorch keeps the logarithm of softmax in fp32, and the logits
/// themselves, whose block a caching allocator holds until their gradient takes it; backward has two more
/// gradients in fp32. Megatron-LM keeps softmax in fp32 and frees the logits (Korthikanti et al.,
/// section 4.3: 4sbh(1 + V/h)/t); backward has a cast. A fused loss keeps the gradient in the logits' place.
struct LogitBytes {
  double kept, transient;
  double freed;  // of those kept, before the projection's backward
};
LogitBytes logit_bytes(const Slice& s, const TrainingShape& shape) {
  if (shape.fused_loss) return {s.e, 0, 0};
  return cut_by_vocabulary(s) ? LogitBytes{Fp32, s.e, Fp32} : LogitBytes{Fp32 + s.e, 2 * Fp32, Fp32};
}

/// In the projection's backward, as Megatron-LM holds them: the gradient of its input and, sequence parallel,
/// the input itself, of all tokens; and the stand-in for that of its weight.
double projection_bytes(const Slice& s) {
  if (!s.stands_in()) return 0;
  return s.e * (s.whole() * (s.sequence_parallel ? 2 : 1) + s.vocabulary * s.hidden);
}

/// Of the final norm, an element: its input and what the projection reads; eager RMSNorm keeps its input in
/// fp32 and both of its outputs.
double final_norm_bytes(const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  const bool eager = model.norm == Norm::Rms && !(s.megatron && shape.fusion == Fusion::Compiled);
  const double last = s.frozen || !model.output_projection ? 0 : s.e;
  return eager ? Fp32 + (s.frozen ? 0 : s.e) + last : s.e + last;
}

}  // namespace
}  // namespace transformer

using transformer::Fp32;
using transformer::Slice;

ModuleCost embedding_cost(const ModelSpec& model, const TrainingShape& shape) {
  const Slice s(model, shape);
  ModuleCost cost = cost_of(transformer::embedding_steps(s, model, shape), transformer::kept(shape));
  cost.parameters = s.vocabulary * s.hidden;
  if (model.position == Position::Learned) cost.parameters += model.max_sequence * s.hidden;
  cost.saved = Bytes(shape.dropout ? s.outer() : 0);  // its mask, a byte an element
  if (shape.frozen) {                                 // nothing before it, nothing in it that has gradients
    cost.backward_input.clear();
    cost.saved = Bytes(0);
    return cost;
  }
  cost.trainable_parameters = cost.parameters;
  cost.kept_for_weight = Bytes(s.whole() * s.e);  // the gradient of its output
  if (s.weight_gradients != WeightGradients::Plain)
    cost.transient = Bytes(s.e * s.vocabulary * s.hidden);  // the table's
  return cost;
}

ModuleCost head_cost(const ModelSpec& model, const TrainingShape& shape) {
  const Slice s(model, shape);
  const double logits = model.output_projection ? s.tokens * s.vocabulary : 0;
  const bool rms = model.norm == Norm::Rms;
  ModuleCost cost = cost_of(transformer::head_steps(s, model, shape), transformer::kept(shape));
  const bool own_projection = model.output_projection && !model.tied_embedding;
  cost.parameters = s.hidden * (rms ? 1 : 2) + (own_projection ? s.vocabulary * s.hidden : 0.0);
  cost.trainable_parameters = shape.frozen ? 0 : cost.parameters;
  const transformer::LogitBytes of_logit = transformer::logit_bytes(s, shape);
  cost.saved = Bytes(s.outer() * transformer::final_norm_bytes(s, model, shape) + logits * of_logit.kept);
  // The wider of loss and projection.
  const double projection = model.output_projection ? transformer::projection_bytes(s) : 0;
  cost.transient = Bytes(logits * of_logit.transient + std::max(0.0, projection - logits * of_logit.freed));
  const double norm = transformer::norm_weight_later(s, model, shape) ? 2 * s.outer() : 0;
  if (!shape.frozen) cost.kept_for_weight = Bytes(s.e * (s.whole() + logits + norm));
  return cost;
}

namespace {

void append(std::vector<Segment>& to, const std::vector<Segment>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Modules one after another, as one.
ModuleCost in_a_row(const std::vector<ModuleCost>& modules) {
  ModuleCost all;
  for (const ModuleCost& module : modules) {
    append(all.forward, module.forward);
    append(all.recompute, module.recompute);
    all.saved += module.saved;
    all.saved_by_load += module.saved_by_load;
    all.transient = std::max(all.transient, module.transient);
    all.workspace = std::max(all.workspace, module.workspace);
    all.kept_for_weight += module.kept_for_weight;
  }
  for (auto module = modules.rbegin(); module != modules.rend(); ++module) {
    append(all.backward_input, module->backward_input);
    transformer::append(all.expert_weight, module->expert_weight);
    transformer::append(all.backward_weight, module->backward_weight);
  }
  return all;
}

/// The word embedded once more, both norms, and the product of 2h × h.
ModuleCost entrance(const Slice& s, const ModelSpec& model, const TrainingShape& shape) {
  using namespace transformer;
  std::vector<Step> steps = embedding_steps(s, model, shape);
  for (int i = 0; i < 2; ++i) steps.push_back(norm(s, model, shape.fusion, 1, false, false));
  steps.push_back(enter(s, 2 * s.hidden, "prediction", Again::No));
  steps.push_back(linear(s, s.tokens, 2 * s.hidden, s.hidden / s.t, Again::No));
  steps.push_back(gather_again(s, 2 * s.hidden, "prediction"));
  ModuleCost cost = cost_of(steps, kept(shape));
  cost.saved = Bytes(s.outer() * 2 * (s.e + s.kept_input()));  // both inputs, before and after the norms
  cost.kept_for_weight = Bytes(s.kept_input() * s.whole() * 3);
  return cost;
}

}  // namespace

ModuleCost prediction_cost(const ModelSpec& model, const TrainingShape& shape) {
  const Slice s(model, shape);
  const ModuleCost layer = layer_cost(model, shape, layer_kind(model, model.layers));
  ModuleCost cost = in_a_row({entrance(s, model, shape), layer, head_cost(model, shape)});
  const double norms = (model.norm == Norm::Rms ? 1 : 2) * 3 * s.hidden;
  cost.parameters = layer.parameters + 2 * s.hidden * s.hidden / s.t + norms;
  cost.expert_parameters = layer.expert_parameters;
  cost.trainable_parameters = shape.frozen ? 0 : cost.parameters + cost.expert_parameters;
  return cost;
}

}  // namespace syncline
