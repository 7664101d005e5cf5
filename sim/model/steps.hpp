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

/// Sizes of what one rank holds. Widths of attention, MLP and vocabulary are a t-th of the model's; the
/// residual stream is whole in width, and in tokens too unless it is sequence parallel.
struct Slice {
  Slice(const ModelSpec& model, const TrainingShape& shape);

  Precision precision;
  double e;                // bytes of a number in it
  int t;                   // ranks that share a layer
  bool sequence_parallel;  // only where t > 1
  double sequence, sequences;
  double tokens;
  double outer_tokens;  // of norms, dropouts and residual sums
  double hidden, heads, query, kv, ffn, vocabulary;
  bool repeats_kv;      // key and value heads are copied to all heads
  bool one_projection;  // q, k and v in one product

  [[nodiscard]] double outer() const { return outer_tokens * hidden; }  // elements of the residual stream
  [[nodiscard]] double whole() const { return tokens * hidden; }        // ... of all tokens
};

// --- kernels -----------------------------------------------------------------------------------------------

/// (m × k)·(k × n), each matrix moved once; `batch` of them.
[[nodiscard]] Kernel gemm(Precision precision, double m, double n, double k, double batch = 1);
/// One kernel for each entry, over `elements` elements; an entry is the bytes read and written per element.
[[nodiscard]] std::vector<Kernel> elementwise(Precision precision, double elements,
                                              const std::vector<double>& bytes_per_element);
void append(std::vector<Kernel>& to, const std::vector<Kernel>& more);

// --- steps -------------------------------------------------------------------------------------------------

/// When a step is run again before backward, besides full recompute.
enum class Again : std::uint8_t { No, Op, Core };  // Op: Recompute::SelectiveOp; Core: Recompute::Selective

/// Forward: the kernels, then the collective. Backward: the collective, then the kernels.
struct Step {
  std::vector<Kernel> forward{};
  std::vector<Kernel> input{};   // gradients of the inputs
  std::vector<Kernel> weight{};  // gradients of weights
  Again again = Again::Op;
  std::optional<LayerCollective> after_forward{};
  std::optional<LayerCollective> before_backward{};
};

/// y[tokens × out] = x[tokens × in] · W; backward: dx = dy · Wᵀ, dW = xᵀ · dy.
[[nodiscard]] Step linear(const Slice& slice, double in, double out, Again again);
/// Adds a bias to `elements` numbers by a kernel of its own; its gradient is a sum over tokens.
[[nodiscard]] Step add_bias(const Slice& slice, double elements);
/// The norm of the residual stream. Its output feeds `uses` products, whose gradients it adds up where a
/// compiler fuses that; backward adds the gradient that came round by the residual. `input_at_hand`: a
/// compiler fuses it with what produced its input.
[[nodiscard]] Step norm(const Slice& slice, const ModelSpec& model, Fusion fusion, int uses,
                        bool input_at_hand, bool residual);
/// Sum of the gradients of products that read the same norm's output, where the norm does not do it.
[[nodiscard]] Step gradient_sum(const Slice& slice, const ModelSpec& model, Fusion fusion, int uses);
/// x + dropout(y + bias).
[[nodiscard]] Step residual(const Slice& slice, const ModelSpec& model, const TrainingShape& shape,
                            Again again);
/// silu(gate) · up, or gelu(up + bias).
[[nodiscard]] Step activation(const Slice& slice, const ModelSpec& model, Fusion fusion);
/// Rotary embedding by complex numbers.
[[nodiscard]] Step rotary(const Slice& slice);
/// k and v copied so that every query head has its own; none where there is one each already.
[[nodiscard]] Step repeat_kv(const Slice& slice);
[[nodiscard]] Step attention(const Slice& slice, const TrainingShape& shape);

// --- exchanges between the ranks that share a layer; none where t = 1
// --------------------------------------------

/// Into products cut by columns: backward adds up the gradients of all ranks; sequence parallel, forward
/// gathers the tokens and backward scatters the sum.
[[nodiscard]] Step enter(const Slice& slice, std::string_view part, Again again);
/// Out of products cut by rows: the reverse.
[[nodiscard]] Step leave(const Slice& slice, std::string_view part, Again again);
/// Sequence parallel, backward gathers the tokens of the products' input again for the gradient of the
/// weights, beside the gradient of the input (Korthikanti et al., section 4.2.2). To stand after the
/// products.
[[nodiscard]] Step gather_again(const Slice& slice, std::string_view part);
/// An all-reduce of 4 bytes a token.
[[nodiscard]] LayerCollective all_reduce_of_tokens(const Slice& slice, std::string_view part);

// --- the whole ---------------------------------------------------------------------------------------------

/// A layer's operations in order of forward.
[[nodiscard]] std::vector<Step> layer_steps(const ModelSpec& model, const TrainingShape& shape);

/// Fills forward, recompute and both backward parts.
[[nodiscard]] ModuleCost cost_of(const std::vector<Step>& steps, Recompute recompute);

/// Bytes that a layer holds, and for how long.
struct LayerActivations {
  double kept;        // from forward to backward
  double recomputed;  // made again before backward
  double gradients;   // alive together at the widest point of backward
  double for_weight;  // from I to W
};
[[nodiscard]] LayerActivations layer_activations(const ModelSpec& model, const TrainingShape& shape);

/// Count of a layer's matrices, of the whole model.
[[nodiscard]] double matrix_parameters(const ModelSpec& model);

}  // namespace syncline::transformer
