// Expert layers: router, dispatch, experts, combine.
#include <algorithm>
#include <utility>

#include "sim/model/expert_defaults.hpp"
#include "sim/model/steps.hpp"

namespace syncline {
namespace transformer {
namespace {

/// Bytes of an element of what goes between ranks: in fp8 by blocks with a scale in fp32 for 128 numbers
/// (DeepSeek-V3, arXiv 2412.19437, section 3.3.2), in fp4 with one of a byte for 16 (NVFP4).
double element_sent(const Slice& s, std::optional<Precision> precision) {
  const double bytes = precision ? size_of(*precision).si() : s.e;
  if (precision == Precision::Fp4) return bytes + 1.0 / 16;
  return bytes < 2 ? bytes + Fp32 / 128 : bytes;
}

class Experts {
 public:
  Experts(const Slice& slice, const ModelSpec& model, const TrainingShape& shape)
      : s_(slice), model_(model), shape_(shape), spec_(*model.experts) {}

  std::vector<Step> run() {
    const bool beside = shape_.experts.overlap == ExpertOverlap::SharedExperts;
    route();
    if (!beside) share();
    send();
    if (beside) share();
    between();
    return_home();
    if (spec_.shared_ffn > 0) {  // both are added, and their gradients
      const std::vector<Kernel> sum = elementwise(s_.precision, s_.own_tokens * s_.hidden, {3 * s_.e});
      add({.forward = sum, .input = sum, .part = Part::Shared});
    }
    return std::move(steps_);
  }

  /// What is computed with the tokens that came.
  void between() {
    put_in_order();
    compute();
  }
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

 private:
  void add(Step step) {
    if (step.part == Part::Other || step.part == Part::Mlp) step.part = Part::Experts;
    steps_.push_back(std::move(step));
  }
  void add_loaded(Step step) {
    step.by_load = true;
    step.by_tokens = false;
    add(std::move(step));
  }

  /// Scores of all experts; the largest k, their weights, and the map of tokens to experts.
  void route() {
    const bool fused = fused_router(shape_);
    Step product = plain_linear(s_, s_.own_tokens, s_.hidden, spec_.count, Again::No);
    product.by_tokens = false;
    product.graph = Graphs::Router;
    add(std::move(product));
    Step choice = fused || !s_.megatron ? plain_choice(fused) : choice_op_by_op();
    choice.graph = Graphs::Router;
    add(std::move(choice));
    if (spec_.shared_gate) add(plain_linear(s_, s_.own_tokens, s_.hidden, 1, Again::No));
  }

  [[nodiscard]] double scores() const { return s_.own_tokens * spec_.count; }

  /// In fp32. Fused: one kernel that scores and chooses, one that makes the map.
  [[nodiscard]] Step plain_choice(bool fused) const {
    const std::vector<double> passes =
        fused ? std::vector{2 * Fp32, Fp32 + 1}
              : std::vector{2 * Fp32, 2 * Fp32, 2 * Fp32, Fp32 + 1, 2 * Fp32, 2 * Fp32};
    const std::vector<Kernel> kernels = elementwise(Precision::Fp32, scores(), passes);
    return {.forward = kernels, .input = kernels};
  }

  /// torch.topk of scores of so many bytes: a read of all for every 2 bits, two more that take out what is chosen (ATen,
  /// SortingRadixSelect.cuh, TensorTopK.cu), and a sort of that.
  [[nodiscard]] std::vector<Kernel> largest(double bytes) const {
    std::vector<Kernel> kernels = number_by_number(s_.precision, scores(), {(8 * bytes / 2 + 2) * bytes});
    append(kernels, elementwise(s_.precision, scores(), {few()}));
    return kernels;
  }

  /// Of a tensor of the k chosen of each token, read and written, for each score.
  [[nodiscard]] double few() const { return 2 * s_.e * spec_.top_k / spec_.count; }

  /// Megatron-LM's router without moe_router_fusion, an operation a kernel: moe_utils.py (topk_routing_with_score_function,
  /// group_limited_topk, apply_router_token_dropping, compute_routing_scores_for_aux_loss), router.py (_apply_aux_loss).
  [[nodiscard]] Step choice_op_by_op() const {
    const double e = s_.e, k = few(), to_fp32 = e + Fp32;
    Step step;
    const auto forward = [&](const std::vector<double>& passes) {
      append(step.forward, elementwise(s_.precision, scores(), passes));
    };
    const auto choose = [&](double bytes) { append(step.forward, largest(bytes)); };
    const std::vector<double> map{e, to_fp32, k,
                                  Fp32 + 1};  // of zeros, to integers, ones where chosen, to a mask

    forward({to_fp32, to_fp32});  // scores in fp32 and back
    if (spec_.groups > 1) {       // the groups' best, the best groups, and a mask that leaves out all others
      choose(e);
      forward({k, k, k, k, 2 * e, e + 1, 2, 2 * e + 1});
    }
    choose(e);
    forward({k, e, k});  // scaled, and put where they belong among zeros
    forward(map);
    if (shape_.experts.capacity) {  // each expert takes the tokens that want it most
      choose(e);
      forward({e, k, e + 1, 2 * e + 1});
    }
    forward({to_fp32});  // the loss that balances experts: scores, choice and map once more, sums over tokens
    choose(Fp32);
    forward(map);
    forward({1, Fp32, k, k, k, k, k, k});

    // Of that loss: spread over tokens, softmax, cast; of the choice: mask, places, scale, softmax, casts; their sum.
    std::vector<double> input{k, k, Fp32, 3 * Fp32, to_fp32};
    if (shape_.experts.capacity) input.push_back(2 * e + 1);
    input.insert(input.end(), {k, k, e, k});
    if (spec_.groups > 1) input.push_back(2 * e + 1);
    input.insert(input.end(), {to_fp32, 3 * Fp32, to_fp32, 3 * e});
    step.input = elementwise(s_.precision, scores(), input);
    return step;
  }

  /// All tokens' MLP.
  void share() {
    if (spec_.shared_ffn == 0) return;
    const std::size_t first = steps_.size();
    for (Step& step : mlp_steps(s_, model_, shape_, s_.shared_ffn, "shared-experts")) {
      step.part = step.part == Part::Activation ? Part::SharedActivation : Part::Shared;
      steps_.push_back(std::move(step));
    }
    // What runs beside an exchange is over before what needs the exchange.
    steps_[first].ends_input = steps_.back().ends_forward = overlaps();
  }

  [[nodiscard]] bool cut() const { return shape_.experts.parallel > 1; }
  [[nodiscard]] double copies() const { return s_.own_tokens * spec_.top_k * kept(); }
  /// Of the copies that tokens ask for, those that are sent, with padding.
  [[nodiscard]] double kept() const {
    return s_.routed / (s_.own_tokens * spec_.top_k * shape_.experts.tensor);
  }

  /// Tokens as they go: a copy for each expert, side by side by expert; two-hop exchanges copy on the way, and from
  /// tokens as they are.
  [[nodiscard]] std::vector<Kernel> copied(double copies) const {
    if (shape_.experts.dispatch != Dispatch::AllToAll && cut()) return {};
    return moved((s_.own_tokens + copies) * s_.hidden * s_.e);
  }

  [[nodiscard]] std::vector<Kernel> moved(double bytes) const {
    Kernel kernel;
    kernel.kind = KernelClass::Gather;
    kernel.precision = s_.precision;
    kernel.hbm = Bytes(bytes);
    return {kernel};
  }

  [[nodiscard]] LayerCollective exchange(TokenWay way, std::string_view part, bool awaited) const {
    const bool out = way == TokenWay::ToExperts;
    const double element = element_sent(s_, out ? shape_.experts.dispatched : shape_.experts.combined);
    const double tokens = s_.own_tokens * s_.hidden * element;
    if (shape_.experts.dispatch == Dispatch::AllGather)
      return collective(LayerGroup::Expert, out ? CollectiveKind::AllGather : CollectiveKind::ReduceScatter,
                        tokens * shape_.experts.parallel, part, awaited);
    LayerCollective all = collective(LayerGroup::Expert, CollectiveKind::AllToAll,
                                     copies() * s_.hidden * element, part, awaited);
    all.name = part;
    all.way = way;
    return all;
  }

  /// Narrow numbers are cast before they go.
  [[nodiscard]] std::vector<Kernel> cast(TokenWay way, double elements) const {
    const std::optional<Precision> sent =
        way == TokenWay::ToExperts ? shape_.experts.dispatched : shape_.experts.combined;
    if (!cut() || !sent || size_of(*sent).si() >= s_.e) return {};
    return elementwise(s_.precision, elements, {s_.e + element_sent(s_, sent)});
  }

  void send() {
    Step step{.forward = cast(TokenWay::ToExperts, s_.own_tokens * s_.hidden), .again = Again::No};
    append(step.forward, copied(copies()));
    step.input = copied(copies());
    if (cut()) {
      step.after_forward = exchange(TokenWay::ToExperts, "dispatch", !overlaps());
      step.after_forward->host_waits = host_waits(model_, shape_);
    }
    add(std::move(step));
  }

  [[nodiscard]] bool overlaps() const {
    return shape_.experts.overlap == ExpertOverlap::SharedExperts && spec_.shared_ffn > 0;
  }

  /// From by-rank to by-expert, where a rank has several; with what the ranks that share each expert exchange.
  void put_in_order() {
    Step step{.again = Again::No};
    if (cut() && s_.local_experts > 1) {
      step.forward = moved(s_.routed * s_.hidden * 2 * s_.e);
      step.input = step.forward;
    }
    if (cut()) step.after_backward = exchange(TokenWay::Back, "dispatch-gradient", !overlaps());
    if (const int ranks = shape_.experts.tensor; ranks > 1) {
      add({.after_forward = among_tensor(CollectiveKind::AllGather),
           .after_backward = std::exchange(step.after_backward, {})});
      step.after_backward = among_tensor(CollectiveKind::ReduceScatter);
    }
    add_loaded(std::move(step));
  }

  [[nodiscard]] LayerCollective among_tensor(CollectiveKind kind) const {
    return collective(LayerGroup::ExpertTensor, kind, s_.routed * s_.hidden * s_.e, "experts");
  }

  /// Grouped products, an expert's tokens each. The weight of a token's expert is applied with the activation.
  void compute() {
    const double each = s_.routed / s_.local_experts, inner = inner_halves(model_) * s_.expert_ffn;
    const bool fused = in_products();
    add_loaded(linear(s_, each, s_.hidden, inner, Again::No, s_.local_experts, {.gradient = fused}));
    add_loaded(kept_in_less(s_, shape_.kept_activation_input, s_.routed * inner));
    Step activated =
        op_by_op() ? clamped_activation() : activation(s_, model_, shape_.fusion, s_.routed * s_.expert_ffn);
    if (s_.megatron && !op_by_op())  // gradient of the weights: sums of activations times their gradients
      append(activated.input,
             elementwise(s_.precision, s_.routed * s_.expert_ffn, {(inner_halves(model_) + 1) * s_.e}));
    if (fused) activated = {};
    activated.part = Part::ExpertActivation;
    add_loaded(std::move(activated));
    add_loaded(linear(s_, each, s_.expert_ffn, s_.hidden, Again::No, s_.local_experts, {.input = fused}));
    if (op_by_op()) add_loaded(weighted_bias());
  }

  /// Megatron-LM's experts with biases, as gpt-oss has them, go through the framework's kernels, and all that the tokens'
  /// weights touch is in fp32 (TEGroupedMLP._apply_bias, weighted_bias_quick_geglu_impl). Not in a graph of the step,
  /// which it does not allow: there kernels are fused.
  [[nodiscard]] bool op_by_op() const { return model_.bias && s_.megatron && shape_.graphs != Graphs::Step; }

  /// A graph of the step has Transformer Engine's grouped products of narrow numbers that apply the activation, and its
  /// derivative, to what they write, and write it as the next product reads it (ForwardGroupedMLP_CuTeGEMMSwiGLU_MXFP8;
  /// its issue 2897; 4220403e, ops/fused/forward_grouped_mlp.py, backward_grouped_mlp.py).
  [[nodiscard]] bool in_products() const {
    return s_.megatron && s_.linear == Precision::Fp8 && s_.scaling == Scaling::Block &&
           model_.activation == Activation::Swiglu && shape_.graphs == Graphs::Step;
  }

  /// Gate g and the other half u are clamped and put together again; (u + 1) · g · sigmoid(1.702 g), times the weight.
  [[nodiscard]] Step clamped_activation() const {
    const double e = s_.e, elements = s_.routed * s_.expert_ffn;
    const std::vector<double> clamp{2 * e, 2 * e, 4 * e}, gelu{2 * e, 2 * e, 3 * e, 2 * e, 3 * e};
    const double scaled = e + Fp32, times = 2 * Fp32 + e;  // a product of one in fp32
    const std::vector<double> derivative{scaled, 2 * e, 2 * e, times, 2 * e, 3 * e,    2 * e,     2 * e,
                                         times,  2 * e, times, times, times, 4 * Fp32, 2 * scaled};
    const std::vector<double> of_weight{scaled, times, Fp32}, of_clamp{3 * e, 3 * e, 4 * e};
    Step step;
    for (const auto& passes : {clamp, gelu, {scaled, scaled}})
      append(step.forward, elementwise(s_.precision, elements, passes));
    for (const auto& passes : {derivative, gelu, of_weight, of_clamp})
      append(step.input, elementwise(s_.precision, elements, passes));
    append(step.input, elementwise(s_.precision, elements, {2 * e}));  // sum for the first product's bias
    return step;
  }

  /// The second product's bias times the token's weight, added expert by expert, all of them put together, and cast.
  [[nodiscard]] Step weighted_bias() const {
    const double e = s_.e, elements = s_.routed * s_.hidden, cast = e + Fp32;
    Step step;
    step.forward = elementwise(s_.precision, elements, {Fp32, e + 2 * Fp32, 2 * Fp32, cast});
    step.input = elementwise(s_.precision, elements, {cast, cast, 2 * Fp32, Fp32, 2 * Fp32, Fp32, 2 * e});
    return step;
  }

  void return_home() {
    if (shape_.experts.tensor > 1)
      add({.after_forward = among_tensor(CollectiveKind::ReduceScatter),
           .before_backward = among_tensor(CollectiveKind::AllGather)});
    Step back{.again = Again::No};
    if (cut() && s_.local_experts > 1) back.forward = back.input = moved(s_.routed * s_.hidden * 2 * s_.e);
    add_loaded(std::move(back));
    Step home{.again = Again::No};
    if (cut()) {
      add({.after_forward = exchange(TokenWay::Back, "combine", true)});
      home.after_backward = exchange(TokenWay::ToExperts, "combine-gradient", true);
    }
    home.forward = copied(copies());
    home.input = cast(TokenWay::ToExperts, s_.own_tokens * s_.hidden);
    append(home.input, copied(copies()));
    add(std::move(home));
  }

  const Slice& s_;
  const ModelSpec& model_;
  const TrainingShape& shape_;
  const ExpertSpec& spec_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> expert_steps(const Slice& slice, const ModelSpec& model, const TrainingShape& shape) {
  return Experts(slice, model, shape).run();
}

}  // namespace transformer

bool host_waits(const ModelSpec& model, const TrainingShape& shape) {
  const bool captured = shape.graphs >= Graphs::WholeLayers;
  const bool needs_counts = implementation_of(model, shape) == Implementation::Megatron && !shape.experts.pad;
  return shape.experts.host_waits.value_or(needs_counts && !captured);
}

bool fused_router(const TrainingShape& shape) {
  return shape.experts.fused_router.value_or(shape.fusion == Fusion::Compiled);
}

double tokens_to_route(const ModelSpec& model, const TrainingShape& shape) {
  if (!model.experts) return 0;
  const double tokens = static_cast<double>(shape.tokens()) / shape.context_parallel;
  return shape.sequence_parallel && shape.tensor_parallel > 1 ? tokens / shape.tensor_parallel : tokens;
}

double routed_tokens(const ModelSpec& model, const TrainingShape& shape) {
  if (!model.experts) return 0;
  const ExpertOptions& options = shape.experts;
  const double asked = tokens_to_route(model, shape) * model.experts->top_k * options.tensor;
  if (!options.capacity) return asked;
  return asked * (options.pad ? *options.capacity : std::min(1.0, *options.capacity));
}

std::vector<Kernel> expert_kernels(const ModelSpec& model, const TrainingShape& shape, double tokens) {
  transformer::Slice slice(model, shape);
  slice.routed = tokens;
  transformer::Experts experts(slice, model, shape);
  experts.between();
  std::vector<Kernel> kernels;
  for (const transformer::Step& step : experts.steps())
    for (const auto* part : {&step.forward, &step.input, &step.weight}) transformer::append(kernels, *part);
  return kernels;
}

}  // namespace syncline
