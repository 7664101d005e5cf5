// A transformer's operations one by one, each with its kernels in both directions; module costs are made of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/model/model.hpp"

namespace syncline::transformer {

inline constexpr double Fp32 =
    4;  // bytes of the precision that norms, rotary embedding and loss are computed in

// --- one rank's part ---------------------------------------------------------------------------------------

/// Sizes of what one rank holds. Widths of attention, MLP and vocabulary are a t-th of the model's; tokens
/// are a c-th. The residual stream is whole in width, and in tokens too unless it is sequence parallel.
struct Slice {
  Slice(const ModelSpec& model, const TrainingShape& shape);

  Precision precision;
  double e;                // bytes of a number in it
  Precision linear;        // of the layers' products
  Scaling scaling;         // of those, where they are narrow
  int t;                   // ranks that share a layer
  int c;                   // ranks that share a sequence
  bool sequence_parallel;  // only where t > 1
  bool megatron;           // else torchtitan
  bool frozen;
  bool weights_come_and_go;
  WeightGradients weight_gradients;
  double sequence, sequences;
  double reach;         // reach(), of the sequence
  double tokens;        // of this rank
  double outer_tokens;  // of norms, dropouts and residual sums
  double hidden, heads, query, key, value;
  double context;  // output of attention
  double ffn, vocabulary;
  bool repeats_kv;      // key and value heads are copied to all heads; not where ranks share a sequence
  bool one_projection;  // q, k and v in one product, gate and up in one

  // Of expert layers; 0 where the model has none.
  double own_tokens;     // tokens that the rank routes
  double routed;         // copies that come to its experts, on average
  double local_experts;  // that it has, or a part of
  double expert_ffn;     // of one, on this rank
  double shared_ffn;     // of the shared experts, on this rank

  /// The layers' products are in less than 16 bit, whose operands are cast first.
  [[nodiscard]] bool narrow() const;
  /// Bytes of an operand of the layers' products, and of what scales it.
  [[nodiscard]] double operand() const;
  /// Bytes kept of an element that only the gradient of a weight reads.
  [[nodiscard]] double kept_input() const { return frozen ? 0 : narrow() && megatron ? operand() : e; }
  /// ... and of one that is kept in a precision of its own, if in any.
  [[nodiscard]] double kept(std::optional<KeptPrecision> in) const;
  /// Products add to the sum of their weights' gradients, and autograd has an unused one instead.
  [[nodiscard]] bool stands_in() const {
    return megatron && !frozen && weight_gradients == WeightGradients::Fused;
  }
  [[nodiscard]] double outer() const { return outer_tokens * hidden; }  // elements of the residual stream
  [[nodiscard]] double whole() const { return tokens * hidden; }        // ... of all tokens
};

// --- kernels -----------------------------------------------------------------------------------------------

/// (m × k)·(k × n), each matrix moved once; `batch` of them.
[[nodiscard]] Kernel gemm(Precision precision, double m, double n, double k, double batch = 1);
/// One kernel for each entry, over `elements` elements; an entry is the bytes read and written per element.
[[nodiscard]] std::vector<Kernel> elementwise(Precision precision, double elements,
                                              const std::vector<double>& bytes_per_element);
/// The same by kernels that read or write number by number: PyTorch's vectorise neither what is strided nor what
/// has two precisions (ATen/native/cuda/CUDALoops.cuh).
[[nodiscard]] std::vector<Kernel> number_by_number(Precision precision, double elements,
                                                   const std::vector<double>& bytes_per_element);
void append(std::vector<Kernel>& to, const std::vector<Kernel>& more);

// --- steps -------------------------------------------------------------------------------------------------

/// When a step is run again before backward, besides full recompute.
enum class Again : std::uint8_t { No, Op, Core };  // Op: Recompute::SelectiveOp; Core: Recompute::Selective

/// What Recompute::Modules calls it. The core of attention is Again::Core.
enum class Part : std::uint8_t {
  Other,
  Norm,
  Activation,
  Mlp,
  Experts,
  ExpertActivation,
  Shared,
  SharedActivation,
  Latent
};

/// Forward: the kernels, then the collective. Backward: the collective, then the kernels, then the other
/// collective.
struct Step {
  std::vector<Kernel> forward{};
  std::vector<Kernel> input{};   // gradients of the inputs
  std::vector<Kernel> weight{};  // gradients of weights
  Again again = Again::Op;
  Part part = Part::Other;
  bool by_tokens =
      false;  // its kernels can be cut by tokens: a product beside a collective of the same tokens
  // Whether a segment ends with its kernels, so that what follows waits for a collective that they run
  // beside.
  bool ends_forward = false, ends_input = false;
  bool by_load = false;                // as Segment::by_load
  Graphs graph = Graphs::WholeLayers;  // the least of them that has its kernels
  std::optional<LayerCollective> after_forward{};
  std::optional<LayerCollective> before_backward{};
  std::optional<LayerCollective> after_backward{};
};

/// Operands that the kernels which made them wrote in the precision of the layers' products. Grouped products that have
/// any are one kernel.
struct Handed {
  bool input = false, gradient = false;
  [[nodiscard]] bool any() const { return input || gradient; }
};

/// y[tokens × out] = x[tokens × in] · W; backward: dx = dy · Wᵀ, dW = xᵀ · dy. In the precision of the
/// layers' products, with the casts that it takes; those of Megatron's weights are apart (weight_cast_bytes()).
/// @param batch  so many of them, with weights of their own
/// @pre handed only in Megatron's layers
[[nodiscard]] Step linear(const Slice& slice, double tokens, double in, double out, Again again,
                          double batch = 1, Handed handed = {});
/// The same in the precision of everything else.
[[nodiscard]] Step plain_linear(const Slice& slice, double tokens, double in, double out, Again again);
/// Gate and the other half of an MLP's first product, or one.
[[nodiscard]] inline double inner_halves(const ModelSpec& model) {
  return model.activation == Activation::Swiglu ? 2 : 1;
}
/// Adds a bias to `elements` numbers by a kernel of its own; its gradient is a sum over tokens.
[[nodiscard]] Step add_bias(const Slice& slice, double elements);
/// The norm of the residual stream. Its output feeds `uses` products, whose gradients it adds up where a
/// compiler fuses that; backward adds the gradient that came round by the residual. `input_at_hand`: a
/// compiler fuses it with what produced its input.
[[nodiscard]] Step norm(const Slice& slice, const ModelSpec& model, Fusion fusion, int uses,
                        bool input_at_hand, bool residual);
/// Whether the gradient of a norm's weight is made in W. LayerNorm's and Transformer Engine's are made in I.
[[nodiscard]] bool norm_weight_later(const Slice& slice, const ModelSpec& model, const TrainingShape& shape);
/// The norm of a compressed vector of latent attention, one kernel each way.
[[nodiscard]] Step latent_norm(const Slice& slice, double width);
/// Adds a gradient in the precision of compute to one in fp32: PyTorch's add, which is not vectorised for two
/// precisions (Megatron-LM, DistributedDataParallel: main_grad.add_(grad)).
[[nodiscard]] std::vector<Kernel> added_gradient(const Slice& slice, double elements);
/// Sum of the gradients of products that read the same norm's output, where the norm does not do it.
[[nodiscard]] Step gradient_sum(const Slice& slice, const ModelSpec& model, Fusion fusion, int uses);
/// x + dropout(y + bias).
[[nodiscard]] Step residual(const Slice& slice, const ModelSpec& model, const TrainingShape& shape,
                            Again again);
/// Cast to what they are kept in behind forward, and back before backward, by a pass each; nothing where they are kept
/// as computed.
[[nodiscard]] Step kept_in_less(const Slice& slice, std::optional<KeptPrecision> precision, double elements);
/// silu(gate) · up, or gelu(up + bias), of so many elements.
[[nodiscard]] Step activation(const Slice& slice, const ModelSpec& model, Fusion fusion, double elements);
/// Rotary embedding of queries and keys `query` and `key` wide.
[[nodiscard]] Step rotary(const Slice& slice, Fusion fusion, double query, double key);
/// k and v copied so that every query head has its own; none where there is one each already.
[[nodiscard]] Step repeat_kv(const Slice& slice);
/// The core of attention, with what ranks that share a sequence exchange.
[[nodiscard]] std::vector<Step> attention(const Slice& slice, const TrainingShape& shape);

// --- exchanges between the ranks that share a layer; none where t = 1 --------------------------------------

/// Into products cut by columns, of a stream `width` wide: backward adds up the gradients of all ranks;
/// sequence parallel, forward gathers the tokens and backward scatters the sum.
[[nodiscard]] Step enter(const Slice& slice, double width, std::string_view part, Again again);
/// Out of products cut by rows, to the residual stream: the reverse.
[[nodiscard]] Step leave(const Slice& slice, std::string_view part, Again again);
/// Sequence parallel, backward gathers the tokens of the products' input again for the gradient of the
/// weights, beside the gradient of the input (Korthikanti et al., section 4.2.2). To stand after the
/// products.
[[nodiscard]] Step gather_again(const Slice& slice, double width, std::string_view part);
/// An all-reduce of 4 bytes a token; none where there is one rank.
[[nodiscard]] std::optional<LayerCollective> all_reduce_of_tokens(const Slice& slice, std::string_view part);

/// Named by its kind and `part`.
[[nodiscard]] LayerCollective collective(LayerGroup group, CollectiveKind kind, double bytes,
                                         std::string_view part, bool awaited = true);

/// How many tokens before it a token attends to, times two: the sequence, or less where layers have a window; the mean
/// over layers. A window of w tokens in a sequence of s: w (2s − w) / s.
[[nodiscard]] double reach(const ModelSpec& model, double sequence);

// --- the whole ---------------------------------------------------------------------------------------------

/// A layer's operations in order of forward.
[[nodiscard]] std::vector<Step> layer_steps(const ModelSpec& model, const TrainingShape& shape,
                                            LayerKind kind);
/// In place of the MLP: router, dispatch, experts, combine, and the shared experts.
[[nodiscard]] std::vector<Step> expert_steps(const Slice& slice, const ModelSpec& model,
                                             const TrainingShape& shape);
/// The MLP: products into `ffn` and out of it, with what stands before and between; on all tokens.
[[nodiscard]] std::vector<Step> mlp_steps(const Slice& slice, const ModelSpec& model,
                                          const TrainingShape& shape, double ffn, std::string_view part);

/// Fills forward, recompute and both backward parts.
[[nodiscard]] ModuleCost cost_of(const std::vector<Step>& all, const TrainingShape& shape);

/// Kernels or a collective, one of the two, in a list of them.
struct Piece {
  std::vector<Kernel> kernels{};
  std::optional<LayerCollective> then{};
  bool by_tokens = false;  // as of a step, as are the next
  bool ends = false;
  bool by_load = false;
};
/// The pieces as segments. What can be cut by tokens right after an all-gather of the ranks that share a
/// layer is cut with it into `parts`, each beside the gathering of the next; what is right before a
/// reduce-scatter likewise.
[[nodiscard]] std::vector<Segment> join(std::vector<Piece> pieces, int parts);

/// Bytes that a layer holds, and for how long.
struct LayerActivations {
  double kept;         // from forward to backward
  double recomputed;   // made again before backward
  double gradients;    // alive together at the widest point of backward
  double for_weight;   // from I to W
  double by_load = 0;  // of those kept
};
[[nodiscard]] LayerActivations layer_activations(const ModelSpec& model, const TrainingShape& shape,
                                                 LayerKind kind);

/// Count of a layer's matrices, of the whole model: those of its experts apart.
struct MatrixCount {
  double dense = 0;    // all but the experts: attention, router, shared experts or MLP
  double experts = 0;  // all of them
  double used = 0;     // ... by a token
};
[[nodiscard]] MatrixCount matrix_parameters(const ModelSpec& model, LayerKind kind);
}  // namespace syncline::transformer
