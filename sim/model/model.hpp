// A decoder-only transformer as an inventory of ops: FLOP, HBM bytes and saved activations.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

/// Llama-like: RMSNorm, rotary embedding, grouped-query attention, SwiGLU.
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

  [[nodiscard]] int head_dim() const { return head_size > 0 ? head_size : hidden / heads; }
};

/// What is computed again before backward instead of being kept.
///   None:        nothing; what backward reads is kept.
///   SelectiveOp: every second matrix product of a layer, in the order q, k, v, attention output, gate, up,
///   down
///                (so k, attention output and up), and all elementwise kernels; the other products' and
///                attention's outputs are kept. As torchtitan's per-op selective checkpointing
///                (parallelize_llama.py, 2024-12).
///   Full:        the whole layer; only its input is kept.
enum class Recompute : std::uint8_t { None, SelectiveOp, Full };

/// Elementwise kernels of the layers one by one, or fused by a compiler. Embedding, head and loss run eagerly
/// either way, as where each transformer block is compiled for itself (torchtitan).
enum class Fusion : std::uint8_t { Eager, Compiled };

/// How the model is run: what one rank sees of it.
struct TrainingShape {
  std::int64_t sequence = 0;    // tokens
  std::int64_t microbatch = 1;  // sequences
  Precision compute = Precision::Bf16;
  Recompute recompute = Recompute::None;
  Fusion fusion = Fusion::Compiled;
  [[nodiscard]] std::int64_t tokens() const { return sequence * microbatch; }
};

/// A collective of the tensor-parallel group.
struct TensorCollective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  Bytes bytes;            // S as nccl-tests count it: the whole buffer
  std::string name;       // for tags: "all-reduce-attention"
  bool awaited = true;    // false: the next segment does not need it and may run beside it; the one after that does
  friend bool operator==(const TensorCollective&, const TensorCollective&) = default;
};

/// Kernels, and the collective that follows them before the next segment.
struct Segment {
  std::vector<Kernel> kernels;  // may be empty
  std::optional<TensorCollective> then;
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// One module's part of a step on one rank: in order forward, then recompute, backward_input, backward_weight. Without
/// tensor parallelism each list has at most one segment, without a collective; none where there is nothing to do.
struct ModuleCost {
  double parameters = 0;  // count
  std::vector<Segment> forward;
  std::vector<Segment> recompute;       // run again before backward
  std::vector<Segment> backward_input;  // gradients of the inputs (I), which the module before waits for
  std::vector<Kernel> backward_weight;  // gradients of the weights (W); may come later
  Bytes saved;                          // activations kept from forward to backward
  Bytes transient;  // extra activations alive only during backward (recomputed ones, gradients)
};

/// All kernels, in order.
[[nodiscard]] std::vector<Kernel> kernels_of(const std::vector<Segment>& segments);
/// Of a whole backward: inputs, then weights; without recomputation.
[[nodiscard]] std::vector<Kernel> backward_kernels(const ModuleCost& cost);

[[nodiscard]] ModuleCost embedding_cost(const ModelSpec& model, const TrainingShape& shape);
[[nodiscard]] ModuleCost layer_cost(const ModelSpec& model, const TrainingShape& shape);
/// Final norm, output projection and cross-entropy loss in fp32. A tied projection counts no parameters of
/// its own.
[[nodiscard]] ModuleCost head_cost(const ModelSpec& model, const TrainingShape& shape);

[[nodiscard]] double parameter_count(const ModelSpec& model);

/// Bytes of one number.
[[nodiscard]] Bytes size_of(Precision precision);

/// FLOP of one training step on `tokens` tokens, forward and backward, without recomputation:
///   6 per token and parameter of the matrices (layers and output projection; not the embedding table, which
///   is looked up), plus 6 · layers · heads · head size · sequence per token for causal attention.
/// Attention counts the lower triangle only. torchtitan and PaLM count the full square, 12 · ..., so their
/// MFU of the same run is higher (by 13 % for Llama-3-8B at 8192 tokens).
[[nodiscard]] Flop model_flop(const ModelSpec& model, std::int64_t sequence, double tokens);

}  // namespace syncline
