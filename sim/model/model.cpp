#include "sim/model/model.hpp"

#include <iterator>
#include <utility>

namespace syncline {
namespace {

constexpr double Fp32 = 4;  // bytes of the precision that norms, rotary embedding and loss are computed in

double element_size(Precision precision) {
  return size_of(precision).si();
}

// --- kernels -----------------------------------------------------------------------------------------------

/// (m × k)·(k × n), each matrix moved once.
Kernel gemm(Precision precision, double m, double n, double k) {
  Kernel kernel;
  kernel.kind = KernelClass::Gemm;
  kernel.precision = precision;
  kernel.flop = Flop(2 * m * n * k);
  kernel.hbm = Bytes((m * k + k * n + m * n) * element_size(precision));
  kernel.m = static_cast<std::int64_t>(m);
  kernel.n = static_cast<std::int64_t>(n);
  kernel.k = static_cast<std::int64_t>(k);
  return kernel;
}

/// One kernel for each entry, over `elements` elements; an entry is the bytes read and written per element.
std::vector<Kernel> elementwise(Precision precision, double elements,
                                const std::vector<double>& bytes_per_element) {
  std::vector<Kernel> kernels;
  for (const double bytes : bytes_per_element) {
    Kernel kernel;
    kernel.kind = KernelClass::Elementwise;
    kernel.precision = precision;
    kernel.hbm = Bytes(elements * bytes);
    kernels.push_back(kernel);
  }
  return kernels;
}

void append(std::vector<Kernel>& to, const std::vector<Kernel>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::vector<Segment> one_segment(std::vector<Kernel> kernels) {
  if (kernels.empty()) return {};
  return {{std::move(kernels), {}}};
}

// --- steps: an operation's kernels in both directions ------------------------------------------------------

struct Step {
  std::vector<Kernel> forward;
  std::vector<Kernel> input;   // backward: gradients of the inputs
  std::vector<Kernel> weight;  // ... and of weights
  bool again = true;  // run again under selective recompute
};

/// y[tokens × out] = x[tokens × in] · W; backward: dx = dy · Wᵀ, dW = xᵀ · dy.
Step linear(Precision precision, double tokens, double in, double out, bool again) {
  return {{gemm(precision, tokens, out, in)},
          {gemm(precision, tokens, in, out)},
          {gemm(precision, out, in, tokens)},
          again};
}

/// Causal flash attention: forward 2 products over the lower triangle, backward 5 (one of them recomputes the
/// scores; Dao et al., NeurIPS 2022, arXiv 2205.14135). Forward moves q, k, v, o; backward those, their
/// gradients and the row statistics; k and v stand expanded to all heads.
Step flash_attention(const ModelSpec& model, const TrainingShape& shape) {
  Kernel kernel;
  kernel.kind = KernelClass::Attention;
  kernel.precision = shape.compute;
  kernel.batch = shape.microbatch * model.heads;
  kernel.m = kernel.n = shape.sequence;
  kernel.k = model.head_dim();
  const double square = static_cast<double>(shape.sequence) * static_cast<double>(shape.sequence);
  const double width = static_cast<double>(model.heads) * model.head_dim();
  const double tensor = static_cast<double>(shape.tokens()) * width * element_size(shape.compute);
  const double statistics = static_cast<double>(shape.tokens()) * model.heads * Fp32;
  Kernel backward = kernel;
  kernel.flop = Flop(4 * square * width / 2 * static_cast<double>(shape.microbatch));
  kernel.hbm = Bytes(4 * tensor + statistics);
  backward.backward = true;
  backward.flop = 2.5 * kernel.flop;
  backward.hbm = Bytes(8 * tensor + statistics);
  return {{kernel}, {backward}, {}, false};
}

/// RMSNorm over `elements`, whose output feeds `uses` products; backward adds up their gradients, and the
/// gradient that came round by the residual. `input_at_hand`: a compiler fuses it with what produced its
/// input.
Step rms_norm(const TrainingShape& shape, Fusion fusion, double elements, int uses, bool input_at_hand) {
  const double e = element_size(shape.compute);
  std::vector<double> forward, backward, weight;
  if (fusion == Fusion::Eager) {
    forward = {
        e + Fp32,            // to fp32
        8,        4,     8,  // square, its mean, times the scale
        Fp32 + e, 2 * e,     // from fp32, times the weight
    };
    for (int use = 1; use < uses; ++use) backward.push_back(3 * e);  // sum of the products' gradients
    const double rest[] = {
        2 * e,                   // times the weight
        e + Fp32, 8,             // to fp32, times the scale
        12,       4,             // the scale's gradient and its sum
        4,        8,        12,  // through mean and square
        12,       Fp32 + e,      // sum of the two ways to the input, from fp32
        3 * e,                   // plus the residual's gradient
    };
    backward.insert(backward.end(), std::begin(rest), std::end(rest));
    weight = {3 * e, e};  // product with the normalised input, and its sum over tokens
  } else {
    forward = {input_at_hand ? e : 2 * e};
    backward = {(3 + uses) * e};  // x, gradients, residual gradient, dx
    weight = {2 * e};
  }
  return {elementwise(shape.compute, elements, forward), elementwise(shape.compute, elements, backward),
          elementwise(shape.compute, elements, weight)};
}

/// Rotary embedding by complex numbers: cast, multiply, cast back. Compilers leave complex arithmetic alone
/// (torch.compile falls back to eager kernels), so fused or not makes no difference.
Step rotary(const TrainingShape& shape, double query, double kv) {
  const double e = element_size(shape.compute);
  std::vector<Kernel> kernels;
  for (const double width : {query, kv}) {
    append(kernels, elementwise(shape.compute, static_cast<double>(shape.tokens()) * width,
                                {e + Fp32, 2 * Fp32, Fp32 + e}));
  }
  return {kernels, kernels, {}};
}

/// k and v copied so that every query head has its own; none where there is one each already.
Step repeat_kv(const ModelSpec& model, const TrainingShape& shape, double query, double kv) {
  if (model.heads == model.kv_heads) return {};
  const double e = element_size(shape.compute);
  const double elements = static_cast<double>(shape.tokens()) * (query + kv);
  const std::vector<Kernel> both = elementwise(shape.compute, elements, {e, e});
  return {both, both, {}};
}

Step residual(const TrainingShape& shape, double elements, bool again) {
  return {elementwise(shape.compute, elements, {3 * element_size(shape.compute)}), {}, {}, again};
}

/// silu(gate) · up.
Step swiglu(const TrainingShape& shape, double elements) {
  const double e = element_size(shape.compute);
  if (shape.fusion == Fusion::Eager) {
    return {elementwise(shape.compute, elements, {2 * e, 3 * e}),
            elementwise(shape.compute, elements, {3 * e, 3 * e, 3 * e}), {}};
  }
  return {elementwise(shape.compute, elements, {3 * e}), elementwise(shape.compute, elements, {5 * e}), {}};
}

/// Widths of a layer's tensors.
struct Widths {
  double hidden, query, kv, ffn;
};

Widths widths_of(const ModelSpec& model) {
  return {static_cast<double>(model.hidden), static_cast<double>(model.heads) * model.head_dim(),
          static_cast<double>(model.kv_heads) * model.head_dim(), static_cast<double>(model.ffn)};
}

/// A layer's operations in order of forward.
std::vector<Step> layer_steps(const ModelSpec& model, const TrainingShape& shape) {
  const Widths w = widths_of(model);
  const auto tokens = static_cast<double>(shape.tokens());
  const Precision p = shape.compute;
  return {
      rms_norm(shape, shape.fusion, tokens * w.hidden, 3, false),
      linear(p, tokens, w.hidden, w.query, false),
      linear(p, tokens, w.hidden, w.kv, true),
      linear(p, tokens, w.hidden, w.kv, false),
      rotary(shape, w.query, w.kv),
      repeat_kv(model, shape, w.query, w.kv),
      flash_attention(model, shape),
      linear(p, tokens, w.query, w.hidden, true),
      residual(shape, tokens * w.hidden, true),
      rms_norm(shape, shape.fusion, tokens * w.hidden, 2, true),
      linear(p, tokens, w.hidden, w.ffn, false),
      linear(p, tokens, w.hidden, w.ffn, true),
      swiglu(shape, tokens * w.ffn),
      linear(p, tokens, w.ffn, w.hidden, false),
      residual(shape, tokens * w.hidden, false),
  };
}

double matrix_parameters(const ModelSpec& model) {
  const Widths w = widths_of(model);
  return w.hidden * (2 * w.query + 2 * w.kv + 3 * w.ffn);
}

/// Bytes per token that a layer holds, and for how long.
struct LayerActivations {
  double kept;        // from forward to backward
  double recomputed;  // made again before backward
  double gradients;  // alive together at the widest point of backward, after the gradient of silu(gate) · up
};

LayerActivations layer_activations(const ModelSpec& model, const TrainingShape& shape) {
  const Widths w = widths_of(model);
  const double e = element_size(shape.compute);
  const bool eager = shape.fusion == Fusion::Eager;
  const double input = e * w.hidden;
  const double attention_output = e * w.query + Fp32 * model.heads;  // and the row statistics
  const double attention_inputs = e * (w.query + 2 * (model.heads == model.kv_heads ? w.kv : w.query));
  // Eager autograd keeps each norm's fp32 input and both of its outputs; a compiler makes them again from the
  // input.
  const double norms = 2 * w.hidden * (eager ? Fp32 + 2 * e : e);
  const double mlp = e * w.ffn * (eager ? 4 : 3);  // gate, up, their product, eager: silu(gate)
  const double residual_sum = e * w.hidden;
  const double all = input + norms + residual_sum + attention_inputs + attention_output + mlp;
  const double gradients = e * (3 * w.ffn + 2 * w.hidden);
  switch (shape.recompute) {
    case Recompute::Full:
      return {input, all - input, gradients};
    case Recompute::SelectiveOp: {
      // Eager checkpointing also stores the output of the down product, which no gradient needs.
      const double products = e * (w.query + w.kv + w.ffn + (eager ? w.hidden : 0));
      return {input + products + attention_output,
              norms + residual_sum + attention_inputs + e * w.kv + mlp - e * w.ffn, gradients};
    }
    case Recompute::None:
      break;
  }
  // Compiled: norm outputs and the product gate · up are made again, being cheap.
  const double cheap = eager ? 0 : norms + e * w.ffn;
  return {all - cheap, cheap, gradients};
}

}  // namespace

Bytes size_of(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
    case Precision::Tf32:
      return Bytes(4);
    case Precision::Fp16:
    case Precision::Bf16:
      return Bytes(2);
    case Precision::Fp8:
      return Bytes(1);
  }
  return Bytes(0);
}

std::vector<Kernel> kernels_of(const std::vector<Segment>& segments) {
  std::vector<Kernel> kernels;
  for (const Segment& segment : segments) append(kernels, segment.kernels);
  return kernels;
}

std::vector<Kernel> backward_kernels(const ModuleCost& cost) {
  std::vector<Kernel> kernels = kernels_of(cost.backward_input);
  append(kernels, cost.backward_weight);
  return kernels;
}

ModuleCost embedding_cost(const ModelSpec& model, const TrainingShape& shape) {
  const double e = element_size(shape.compute);
  const double table = static_cast<double>(model.vocabulary) * model.hidden;
  const double elements = static_cast<double>(shape.tokens()) * model.hidden;
  ModuleCost cost;
  cost.parameters = table;
  cost.forward = one_segment(elementwise(shape.compute, elements, {2 * e}));
  cost.backward_weight = elementwise(shape.compute, table, {e});                // clear the table's gradient
  append(cost.backward_weight, elementwise(shape.compute, elements, {3 * e}));  // and add the rows
  return cost;
}

ModuleCost layer_cost(const ModelSpec& model, const TrainingShape& shape) {
  const std::vector<Step> steps = layer_steps(model, shape);
  ModuleCost cost;
  cost.parameters = matrix_parameters(model) + 2.0 * model.hidden;
  std::vector<Kernel> forward, recompute, input;
  for (const Step& step : steps) {
    append(forward, step.forward);
    const bool again =
        shape.recompute == Recompute::Full || (shape.recompute == Recompute::SelectiveOp && step.again);
    if (again) append(recompute, step.forward);
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    append(input, step->input);
    append(cost.backward_weight, step->weight);
  }
  cost.forward = one_segment(std::move(forward));
  cost.recompute = one_segment(std::move(recompute));
  cost.backward_input = one_segment(std::move(input));
  const LayerActivations held = layer_activations(model, shape);
  const auto tokens = static_cast<double>(shape.tokens());
  cost.saved = Bytes(tokens * held.kept);
  cost.transient = Bytes(tokens * (held.recomputed + held.gradients));
  return cost;
}

ModuleCost head_cost(const ModelSpec& model, const TrainingShape& shape) {
  const double e = element_size(shape.compute);
  const auto tokens = static_cast<double>(shape.tokens());
  const double hidden = model.hidden;
  const double logits = tokens * model.vocabulary;
  const Step norm = rms_norm(shape, Fusion::Eager, tokens * hidden, 1, false);
  const Step projection = linear(shape.compute, tokens, hidden, model.vocabulary, true);
  ModuleCost cost;
  cost.parameters = hidden + (model.tied_embedding ? 0.0 : static_cast<double>(model.vocabulary) * hidden);
  std::vector<Kernel> forward = norm.forward;
  append(forward, projection.forward);
  // Cast to fp32; log-softmax, which reads a row three times (largest, sum, result): a row is too long for a
  // cache.
  append(forward, elementwise(Precision::Fp32, logits, {e + Fp32, 3 * Fp32 + Fp32}));
  // Clear the gradient of the chosen logits; log-softmax reads it twice and its result once; cast back.
  std::vector<Kernel> input = elementwise(Precision::Fp32, logits, {Fp32, 3 * Fp32 + Fp32, Fp32 + e});
  append(input, projection.input);
  append(input, norm.input);
  cost.forward = one_segment(std::move(forward));
  cost.backward_input = one_segment(std::move(input));
  cost.backward_weight = projection.weight;
  append(cost.backward_weight, norm.weight);
  // Kept: the norm's input in fp32 and its two outputs, log-softmax in fp32, and the logits themselves, whose
  // block a caching allocator holds until their gradient takes it. During backward: two more gradients in
  // fp32.
  cost.saved = Bytes(tokens * hidden * (Fp32 + 2 * e) + logits * (Fp32 + e));
  cost.transient = Bytes(logits * 2 * Fp32);
  return cost;
}

double parameter_count(const ModelSpec& model) {
  const TrainingShape any{.sequence = 1};
  return embedding_cost(model, any).parameters + model.layers * layer_cost(model, any).parameters +
         head_cost(model, any).parameters;
}

Flop model_flop(const ModelSpec& model, std::int64_t sequence, double tokens) {
  const double matrices =
      model.layers * matrix_parameters(model) + static_cast<double>(model.vocabulary) * model.hidden;
  const double attention =
      static_cast<double>(model.layers) * widths_of(model).query * static_cast<double>(sequence);
  return Flop(6 * tokens * (matrices + attention));
}

}  // namespace syncline
