// A decoder-only transformer as an inventory of ops on one rank: FLOP, HBM bytes, collectives and saved
// activations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

enum class Norm : std::uint8_t { Rms, Layer };
/// Swiglu: silu(gate) · up, three products with the inner width; Gelu: two.
enum class Activation : std::uint8_t { Swiglu, Gelu };
enum class Position : std::uint8_t { Rotary, Learned };

/// Multi-head latent attention: keys and values are made from one compressed vector a token, queries from
/// another; a head's query and key have a part with and one without rotary embedding (DeepSeek-V2, arXiv
/// 2405.04434, section 2.1). Sizes a head but for the two ranks.
struct LatentAttention {
  int query_rank = 0;  // of the compressed query; 0: queries are not compressed
  int key_value_rank = 0;
  int plain_size = 0, rotary_size = 0;  // of query and key
  int value_size = 0;
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// Layers whose MLP is one of many: a router sends each token to the `top_k` experts of its choice (Shazeer et
/// al., arXiv 1701.06538; Fedus et al., Switch Transformers, arXiv 2101.03961).
struct ExpertSpec {
  int count = 0;             // E, routed experts of a layer
  int top_k = 1;             // k, of them that a token goes to
  int ffn = 0;               // inner width of one; ModelSpec::ffn is that of the dense layers
  int shared_ffn = 0;        // inner width of the shared experts together, which all tokens go to; 0: none
  bool shared_gate = false;  // the shared experts' output is scaled by a gate of its own, a number a token
  int dense_layers = 0;      // leading layers without experts
  int every = 1;             // of all layers, every so many-th has experts, but for those
  /// Experts stand in so many groups, and a token's come from `top_groups` of these at most (node-limited routing:
  /// DeepSeek-V3, arXiv 2412.19437, section 2.1.2).
  int groups = 1, top_groups = 1;
  friend bool operator==(const ExpertSpec&, const ExpertSpec&) = default;
};

/// Llama-like by default: RMSNorm, rotary embedding, grouped-query attention, SwiGLU. GPT-like: LayerNorm,
/// learned positions, as many key heads as heads, GeLU, biases, the output projection tied to the embedding.
struct ModelSpec {
  std::string name;
  std::string source;
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_size = 0;  // 0: hidden / heads
  int ffn = 0;
  int vocabulary = 0;
  bool tied_embedding = false;
  Norm norm = Norm::Rms;
  Activation activation = Activation::Swiglu;
  Position position = Position::Rotary;
  int max_sequence = 0;                     // rows of the table of learned positions
  bool bias = false;                        // of the products of a layer; not of latent attention
  bool output_projection = true;            // false: the model ends in its last norm
  std::optional<LatentAttention> latent{};  // in place of grouped-query attention; kv_heads is heads then
  std::optional<ExpertSpec> experts{};
  /// Modules that predict one more token each: two norms and a product of 2h × h before a layer as the last one,
  /// and the model's own head (DeepSeek-V3, arXiv 2412.19437, section 2.2).
  int extra_predictions = 0;
  /// Every `window_every`-th layer's attention reaches back so many tokens; 0: all reach all. Each layer is taken as
  /// the mean of them.
  int window = 0, window_every = 1;

  /// Of queries and keys.
  [[nodiscard]] int head_dim() const {
    if (latent) return latent->plain_size + latent->rotary_size;
    return head_size > 0 ? head_size : hidden / heads;
  }
  [[nodiscard]] int value_dim() const { return latent ? latent->value_size : head_dim(); }
};

/// What is computed again before backward instead of being kept.
///   None:        nothing; what backward reads is kept.
///   Selective:   the core of attention: scores, softmax, dropout, times values (Korthikanti et al., arXiv
///                2205.05198, section 5). Flash attention keeps little there: its row statistics.
///   SelectiveOp: every second matrix product of a layer, in the order q, k, v, attention output, gate, up,
///                down (so k, attention output and up), and all elementwise kernels; the other products' and
///                attention's outputs are kept. As torchtitan's per-op selective checkpointing
///                (parallelize_llama.py, 2024-12). Where q, k and v are one product and there is no gate:
///                attention output alone, as nothing in backward reads what the last product makes.
///   Full:        the whole layer; only its input is kept.
///   Modules:     those that are named, each from its own input.
enum class Recompute : std::uint8_t { None, Selective, SelectiveOp, Full, Modules };

/// What Recompute::Modules may name, as Megatron-LM's --recompute-modules. Norms: all norms' outputs. Core:
/// as Selective. Activation: of the MLP, its output. Mlp: the whole MLP, from its norm's output.
/// Expert layers: Experts: router, dispatch, experts, combine. ExpertActivation: their activation. Shared: the shared
/// experts. Latent: the products that expand latent attention's compressed vectors, and rotary embedding.
struct RecomputedModules {
  bool norms = false, core = false, activation = false, mlp = false;
  bool experts = false, expert_activation = false, shared = false, latent = false;
  friend bool operator==(const RecomputedModules&, const RecomputedModules&) = default;
};

/// How numbers of less than 16 bit get their scales, which costs passes over the operands of each product.
///   Tensor:  one scale a tensor from the values before (delayed scaling): the cast only.
///   Current: one scale a tensor from its own values: a pass for the largest, then the cast.
///   Block:   a scale for each 1 × 128 block (DeepSeek-V3, arXiv 2412.19437, section 3.3.2; fp32), each 32
///            numbers (MX; a byte) or, in fp4, each 16 (NVFP4; a byte): the cast writes them besides.
/// A cast writes each number and, where both directions need it, its transposed copy. Transformer Engine
/// casts an input and a weight once, both ways, and keeps the input's copy for the gradient of the weight in
/// place of its 16 bit; torchao keeps the 16 bit and casts again in backward. Copies of weights are not
/// counted as activations.
enum class Scaling : std::uint8_t { Tensor, Current, Block };

/// What a tensor is kept in from forward to backward where that is less than it is computed in: E5M6, a float of 12
/// bits (DeepSeek-V3, arXiv 2412.19437, section 3.3.3), or fp8. With scales as the products' where these are by block.
enum class KeptPrecision : std::uint8_t { E5m6, Fp8 };

/// How ranks that share a sequence exchange keys and values.
///   Ring:      passed on, a block a step, while attention works on the block before (Liu et al., Ring
///              Attention, arXiv 2310.01889).
///   AllGather: all of them before attention (Llama 3, arXiv 2407.21783, section 3.3.2).
///   AllToAll:  q, k and v change from a part of the sequence to a part of the heads, and the output back
///              (Jacobs et al., DeepSpeed Ulysses, arXiv 2309.14509).
enum class ContextExchange : std::uint8_t { Ring, AllGather, AllToAll };

/// Whose layers they are.
///   Megatron:   Megatron-LM on Transformer Engine. q, k and v are one product, gate and up are one; keys and
///               values are not copied to all heads; fused norms, rotary embedding, SwiGLU, bias + GeLU,
///               bias + dropout + add, scale + mask + softmax. All that backward reads is kept: norms keep
///               their input, products theirs. The loss is cut by vocabulary, its softmax kept in fp32, the
///               logits given back.
///   Torchtitan: a product each; rotary embedding by complex numbers; k and v copied. Compiled, what is cheap
///               is made again: outputs of RMSNorm, and the product gate · up. Embedding, head and loss run
///               eagerly, as each block is compiled for itself.
enum class Implementation : std::uint8_t { Megatron, Torchtitan };

/// Elementwise kernels of the layers one by one, or fused as the implementation does.
enum class Fusion : std::uint8_t { Eager, Compiled };

/// What becomes of a product's gradient of its weights.
///   Plain: written in the precision of compute; whoever holds the gradients adds them up (FSDP does, in
///   shards). Added: written so, and added to a sum in fp32 by a pass of its own. Fused: the product adds to
///   the sum itself (Megatron-LM's gradient accumulation fusion).
enum class WeightGradients : std::uint8_t { Plain, Added, Fused };

/// Unfused: scores, softmax and dropout of probabilities, and the product with the values each over the whole
/// square, in memory.
enum class AttentionKernels : std::uint8_t { Flash, Unfused };

/// How tokens get to their experts and back.
///   AllToAll:  a copy for each expert, to the rank that has it; what comes back is summed up at home.
///   TwoHop:    once to every rank that has experts of it, across nodes once to every node, for all of its ranks
///              (DeepEP: github.com/deepseek-ai/DeepEP).
///   AllGather: all tokens to all ranks; partial sums are scattered back.
enum class Dispatch : std::uint8_t { AllToAll, TwoHop, AllGather };

/// What runs beside dispatch and combine. SharedExperts: the shared experts, beside dispatch (and its gradient).
/// Batch: another microbatch: forward of one and backward of another are issued in turn (DeepSeek-V3, section
/// 3.2.1; Megatron-LM's overlap_moe_expert_parallel_comm).
enum class ExpertOverlap : std::uint8_t { None, SharedExperts, Batch };

/// What is captured in CUDA graphs, whose kernels cost the host one call together. Router: the router of expert layers,
/// with what comes before their dispatch. Attention: that and attention, with the norms. Layers: each whole layer. Step:
/// everything.
enum class Graphs : std::uint8_t { None, Router, Attention, WholeLayers, Step };

/// How expert layers are run.
struct ExpertOptions {
  int parallel = 1;  // ep, ranks that share the experts of a layer; divides their count
  int tensor = 1;    // etp, ranks that share each expert; divides its ffn
  std::optional<double>
      capacity{};    // an expert takes tokens · k / E times this, and drops others; none: takes all
  bool pad = false;  // an expert is given as many as it can take, zeros among them
  Dispatch dispatch = Dispatch::AllToAll;
  std::optional<Precision>
      dispatched{};  // what goes to experts (and the gradients of what comes back); of compute
  std::optional<Precision> combined{};  // ... and comes back; of compute
  ExpertOverlap overlap = ExpertOverlap::None;
  /// The host stands before each dispatch of forward until it knows how many tokens will come: it must allocate what they
  /// are put into. Not given: so of Megatron's layers, unless experts are padded.
  std::optional<bool> host_waits{};
  int units = 0;  // of the device, that dispatch and combine take from compute; 0: as any communication
  std::optional<bool>
      fused_router{};  // its choice is a few kernels (Megatron-LM's moe_router_fusion), else one for
                       // each operation; not given: where kernels are compiled
  friend bool operator==(const ExpertOptions&, const ExpertOptions&) = default;
};

/// How the model is run: what one rank sees of it.
struct TrainingShape {
  std::int64_t sequence = 0;            // tokens
  std::int64_t microbatch = 1;          // sequences
  Precision compute = Precision::Bf16;  // of weights, activations and all kernels but ...
  std::optional<Precision> linear{};    // ... the products of the layers, where they run in another
  Scaling scaling = Scaling::Current;   // of those, where `linear` has less than 16 bit
  Recompute recompute = Recompute::None;
  RecomputedModules modules{};  // of Recompute::Modules
  /// Of Megatron's layers: inputs of SwiGLU, gate and up (Megatron-LM's activation_func_fp8_input_store).
  std::optional<KeptPrecision> kept_activation_input{};
  /// ... and attention's output, one copy for flash attention's backward and for the gradient of the product behind it.
  std::optional<KeptPrecision> kept_attention_output{};
  bool frozen = false;  // weights are not trained: no gradients of theirs (LoRA, its adapters left out)
  Fusion fusion = Fusion::Compiled;
  std::optional<Implementation> implementation{};  // as implementation_of() says where it is not given
  /// Weights come for each use (fsdp), so that what was made of them does not stay. training_schedule() sets it.
  bool weights_come_and_go = false;
  WeightGradients weight_gradients = WeightGradients::Plain;
  /// The loss in one kernel that puts the gradient of the logits in their place (Transformer Engine's
  /// cross-entropy).
  bool fused_loss = false;
  /// t, ranks that share every layer; divides heads, key heads, ffn and vocabulary. Shoeybi et al.,
  /// Megatron-LM, arXiv 1909.08053.
  int tensor_parallel = 1;
  /// Norms, dropouts and residual sums on sequence / t tokens a rank, and pairs of all-gather and
  /// reduce-scatter in place of all-reduces; t divides the sequence. Korthikanti et al., section 4.2.2.
  bool sequence_parallel = false;
  /// Products and the collective beside them are cut into so many parts, each part's product beside the next
  /// one's collective; 1: one after the other. Only where sequence parallel.
  int tensor_chunks = 1;
  /// Ranks that share a sequence, each with two chunks of 2c, so that all have as much of the causal triangle
  /// (Llama 3, section 3.3.2); 2c divides the sequence.
  int context_parallel = 1;
  ContextExchange context_exchange = ContextExchange::Ring;
  AttentionKernels attention = AttentionKernels::Flash;
  bool dropout = false;  // after embedding, attention and MLP; of probabilities where attention is unfused
                         // (flash attention makes its own in registers)
  Graphs graphs = Graphs::None;
  ExpertOptions experts{};
  [[nodiscard]] std::int64_t tokens() const { return sequence * microbatch; }  // of a microbatch, all ranks
};

/// As given; else Megatron for a model with LayerNorm, Torchtitan for one with RMSNorm.
[[nodiscard]] Implementation implementation_of(const ModelSpec& model, const TrainingShape& shape);

/// The ranks that share a layer's weights, a sequence, the experts of a layer, or each of these.
enum class LayerGroup : std::uint8_t { Tensor, Context, Expert, ExpertTensor };

/// Which way tokens go in an all-to-all of expert layers.
enum class TokenWay : std::uint8_t { None, ToExperts, Back };

/// A collective between two of a layer's kernels.
struct LayerCollective {
  LayerGroup group = LayerGroup::Tensor;
  CollectiveKind kind = CollectiveKind::AllReduce;
  Bytes bytes;       // S as nccl-tests count it: the whole buffer
  std::string name;  // for tags: "all-reduce-attention"
  bool awaited =
      true;  // false: the next segment does not need it and may run beside it; the one after that does
  bool host_waits = false;        // the host issues it only when the kernels before it have run
  TokenWay way = TokenWay::None;  // of tokens by the routing; `bytes` is of tokens · k copies
  friend bool operator==(const LayerCollective&, const LayerCollective&) = default;
};

/// Kernels, and the collective that follows them before the next segment.
struct Segment {
  std::vector<Kernel> kernels;  // may be empty
  std::optional<LayerCollective> then;
  bool by_load =
      false;  // its kernels are for the tokens that came to the rank's experts, here as many as on average
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// One module's part of a step on one rank: in order forward, then recompute, backward_input,
/// backward_weight. Without tensor and context parallelism each list has at most one segment, without a
/// collective; none where there is nothing to do.
struct ModuleCost {
  double parameters = 0;  // count, on this rank; without those of experts
  double expert_parameters = 0;
  double trainable_parameters = 0;  // of all those; 0 where they are frozen
  std::vector<Segment> forward;
  std::vector<Segment> recompute;       // run again before backward
  std::vector<Segment> backward_input;  // gradients of the inputs (I), which the module before waits for
  std::vector<Kernel> backward_weight;  // gradients of the weights (W); may come later
  std::vector<Kernel> expert_weight;    // ... of those of experts, before the others; by load
  Bytes saved;                          // activations kept from forward to backward
  Bytes saved_by_load;                  // of these, of tokens that came to the rank's experts
  Bytes transient;  // extra activations alive only during backward (recomputed ones, gradients)
  /// Held from the first backward to the end of the run, once for all layers of a rank: where Transformer
  /// Engine's products add to the sum of the gradients themselves, autograd is handed an unused one of each
  /// weight's shape.
  Bytes workspace;
  /// Of those, what is still held from I to a W that comes later: the inputs of the products and the
  /// gradients of their outputs. 32 s·b·h bytes of a GPT layer in 16 bit (Qi et al., Zero Bubble, arXiv
  /// 2401.10241, Table 1).
  Bytes kept_for_weight;
};

[[nodiscard]] ModuleCost embedding_cost(const ModelSpec& model, const TrainingShape& shape);
/// Whether a layer has experts or a dense MLP.
enum class LayerKind : std::uint8_t { Dense, Experts };
/// Extra predictions are numbered after the layers, and have one as the last.
[[nodiscard]] LayerKind layer_kind(const ModelSpec& model, int layer);
/// Layers of a kind, without extra predictions.
[[nodiscard]] int layers_of(const ModelSpec& model, LayerKind kind);
/// Those with experts, ascending, with extra predictions.
[[nodiscard]] std::vector<int> expert_layers(const ModelSpec& model);
/// Parameters of a layer's matrices, on any rank, that all ranks which share the layer hold whole: the compressing
/// products of latent attention, the router, the shared experts' gate.
[[nodiscard]] double replicated_matrices(const ModelSpec& model, LayerKind kind);
[[nodiscard]] ModuleCost layer_cost(const ModelSpec& model, const TrainingShape& shape,
                                    LayerKind kind = LayerKind::Dense);
/// One of ModelSpec::extra_predictions, with its layer, head and loss. Embedding and output projection are the
/// model's.
[[nodiscard]] ModuleCost prediction_cost(const ModelSpec& model, const TrainingShape& shape);
/// The kernels of an expert layer that stand between dispatch and combine, of forward and a whole backward, when
/// `tokens` copies of tokens have come to the rank.
[[nodiscard]] std::vector<Kernel> expert_kernels(const ModelSpec& model, const TrainingShape& shape,
                                                 double tokens);
/// Copies of tokens that come to a rank's experts on average: tokens of a rank · k · etp, more or fewer where there is a
/// capacity.
[[nodiscard]] double routed_tokens(const ModelSpec& model, const TrainingShape& shape);
/// Tokens of a microbatch that one rank routes: a part of the sequence under context or sequence parallelism.
[[nodiscard]] double tokens_to_route(const ModelSpec& model, const TrainingShape& shape);
/// Final norm, output projection and cross-entropy loss in fp32. A tied projection counts no parameters of
/// its own.
[[nodiscard]] ModuleCost head_cost(const ModelSpec& model, const TrainingShape& shape);

/// All kernels, in order.
[[nodiscard]] std::vector<Kernel> kernels_of(const std::vector<Segment>& segments);
/// Of a whole backward: inputs, then weights; without recomputation.
[[nodiscard]] std::vector<Kernel> backward_kernels(const ModuleCost& cost);

/// Of the whole model, all experts. GPT-like: 12Lh²(1 + 13/(12h) + (V + s)/(12Lh)) as in Narayanan et al. (arXiv
/// 2104.04473, eq. 2), plus the 2h of the final norm, which they leave out.
[[nodiscard]] double parameter_count(const ModelSpec& model);

/// Bytes of one number.
[[nodiscard]] Bytes size_of(Precision precision);

/// FLOP of one training step on `tokens` tokens, forward and backward, without recomputation:
///   6 per token and parameter of the matrices that it meets (layers, of experts `top_k`, and output projection; not
///   the embedding table, which is looked up; extra predictions with theirs), plus 6 · layers · heads · head size · sequence per token for causal attention (head size:
///   the mean of that of queries and that of values).
/// Attention counts the lower triangle only. torchtitan and PaLM count the full square, 12 · ..., so their
/// MFU of the same run is higher (by 13 % for Llama-3-8B at 8192 tokens); so do Megatron-LM's papers.
[[nodiscard]] Flop model_flop(const ModelSpec& model, std::int64_t sequence, double tokens);

/// FLOP of one training step as Megatron-LM's paper of 2021 counts them for its TFLOP/s per GPU, of GPT-like
/// models:
///   96·B·s·L·h²(1 + s/(6h) + V/(16Lh)),
/// i.e. with the whole square of attention and every layer run forward twice (full recomputation).
/// Korthikanti et al. leave the second forward out of their model FLOP: 72·B·s·L·h²(1 + s/(6h) + V/(12Lh)).
/// @param sequences  B, of the global batch
/// Source: Narayanan et al., SC 2021, arXiv 2104.04473, eq. 3.
[[nodiscard]] Flop megatron_flop(const ModelSpec& model, std::int64_t sequence, double sequences);

}  // namespace syncline
