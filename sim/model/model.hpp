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

/// What Recompute::Modules may name, as Megatron-LM's --recompute-modules. Norms: both norms' outputs. Core:
/// as Selective. Activation: of the MLP, its output. Mlp: the whole MLP, from its norm's output.
struct RecomputedModules {
  bool norms = false, core = false, activation = false, mlp = false;
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

/// How the model is run: what one rank sees of it.
struct TrainingShape {
  std::int64_t sequence = 0;            // tokens
  std::int64_t microbatch = 1;          // sequences
  Precision compute = Precision::Bf16;  // of weights, activations and all kernels but ...
  std::optional<Precision> linear{};    // ... the products of the layers, where they run in another
  Scaling scaling = Scaling::Current;   // of those, where `linear` has less than 16 bit
  Recompute recompute = Recompute::None;
  RecomputedModules modules{};  // of Recompute::Modules
  bool frozen = false;  // weights are not trained: no gradients of theirs (LoRA, its adapters left out)
  Fusion fusion = Fusion::Compiled;
  std::optional<Implementation> implementation{};  // as implementation_of() says where it is not given
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
  [[nodiscard]] std::int64_t tokens() const { return sequence * microbatch; }  // of a microbatch, all ranks
};

/// As given; else Megatron for a model with LayerNorm, Torchtitan for one with RMSNorm.
[[nodiscard]] Implementation implementation_of(const ModelSpec& model, const TrainingShape& shape);

/// The ranks that share a layer's weights, or a sequence.
enum class LayerGroup : std::uint8_t { Tensor, Context };

/// A collective between two of a layer's kernels.
struct LayerCollective {
  LayerGroup group = LayerGroup::Tensor;
  CollectiveKind kind = CollectiveKind::AllReduce;
  Bytes bytes;       // S as nccl-tests count it: the whole buffer
  std::string name;  // for tags: "all-reduce-attention"
  bool awaited =
      true;  // false: the next segment does not need it and may run beside it; the one after that does
  friend bool operator==(const LayerCollective&, const LayerCollective&) = default;
};

/// Kernels, and the collective that follows them before the next segment.
struct Segment {
  std::vector<Kernel> kernels;  // may be empty
  std::optional<LayerCollective> then;
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// One module's part of a step on one rank: in order forward, then recompute, backward_input,
/// backward_weight. Without tensor and context parallelism each list has at most one segment, without a
/// collective; none where there is nothing to do.
struct ModuleCost {
  double parameters = 0;            // count, on this rank
  double trainable_parameters = 0;  // of those; 0 where they are frozen
  std::vector<Segment> forward;
  std::vector<Segment> recompute;       // run again before backward
  std::vector<Segment> backward_input;  // gradients of the inputs (I), which the module before waits for
  std::vector<Kernel> backward_weight;  // gradients of the weights (W); may come later
  Bytes saved;                          // activations kept from forward to backward
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
[[nodiscard]] ModuleCost layer_cost(const ModelSpec& model, const TrainingShape& shape);
/// Final norm, output projection and cross-entropy loss in fp32. A tied projection counts no parameters of
/// its own.
[[nodiscard]] ModuleCost head_cost(const ModelSpec& model, const TrainingShape& shape);

/// All kernels, in order.
[[nodiscard]] std::vector<Kernel> kernels_of(const std::vector<Segment>& segments);
/// Of a whole backward: inputs, then weights; without recomputation.
[[nodiscard]] std::vector<Kernel> backward_kernels(const ModuleCost& cost);

/// Of the whole model. GPT-like: 12Lh²(1 + 13/(12h) + (V + s)/(12Lh)) as in Narayanan et al. (arXiv
/// 2104.04473, eq. 2), plus the 2h of the final norm, which they leave out.
[[nodiscard]] double parameter_count(const ModelSpec& model);

/// Bytes of one number.
[[nodiscard]] Bytes size_of(Precision precision);

/// FLOP of one training step on `tokens` tokens, forward and backward, without recomputation:
///   6 per token and parameter of the matrices (layers and output projection; not the embedding table, which
///   is looked up), plus 6 · layers · heads · head size · sequence per token for causal attention (head size:
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
