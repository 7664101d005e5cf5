// Attention without its products with weights.
#include "sim/core/error.hpp"
#include "sim/model/steps.hpp"

namespace syncline::transformer {
namespace {

/// A block of the scores of one rank: causal flash attention of some queries over some keys. Forward has 2
/// products over the part below the diagonal, backward 5 (one of them recomputes the scores; Dao et al.,
/// NeurIPS 2022, arXiv 2205.14135). Forward moves q, k, v, o; backward those, their gradients and the row
/// statistics.
struct Block {
  double queries, keys;  // tokens of a sequence
  double pairs;          // of them, all sequences, below the diagonal
  double heads;
  double q_width, k_width, v_width, o_width;  // of those heads
};

Kernel flash(const Slice& s, const Block& b, bool backward) {
  Kernel kernel;
  kernel.kind = KernelClass::Attention;
  kernel.precision = s.precision;
  kernel.batch = static_cast<std::int64_t>(s.sequences * b.heads);
  kernel.m = static_cast<std::int64_t>(b.queries);
  kernel.n = static_cast<std::int64_t>(b.keys);
  kernel.k = static_cast<std::int64_t>(b.q_width / b.heads);
  kernel.backward = backward;
  // Scores and gradients of q and k have the width of q; the others that of o.
  const double widths = backward ? 3 * b.q_width + 2 * b.o_width : b.q_width + b.o_width;
  const double moved = b.queries * (b.q_width + b.o_width) + b.keys * (b.k_width + b.v_width);
  kernel.flop = Flop(2 * b.pairs * widths);
  kernel.hbm = Bytes(s.sequences * ((backward ? 2 : 1) * moved * s.e + b.queries * b.heads * Fp32));
  return kernel;
}

/// The whole triangle of the rank's heads, or a band of it; with k and v copied to all heads where they are.
Block whole_block(const Slice& s) {
  const double pairs = s.sequence * s.reach / 2 * s.sequences;
  return {.queries = s.sequence,
          .keys = s.sequence,
          .pairs = pairs,
          .heads = s.heads,
          .q_width = s.query,
          .k_width = s.repeats_kv ? s.query : s.key,
          .v_width = s.repeats_kv ? s.context : s.value,
          .o_width = s.context};
}

Step of_block(const Slice& s, const Block& block) {
  return {.forward = {flash(s, block, false)}, .input = {flash(s, block, true)}, .again = Again::Core};
}

LayerCollective of_context(CollectiveKind kind, double bytes, std::string_view part, bool awaited = true) {
  return collective(LayerGroup::Context, kind, bytes, part, awaited);
}

/// Blocks of keys and values go round; each is passed on while the one before is worked on. A rank's first
/// block is its own triangle. Of every other it needs, by their two chunks each, either all queries and half
/// of the keys or half of the queries and all keys: as many pairs, and 3/4 of each on average. Parts are put
/// together in fp32. Backward passes keys and values again, and beside the next block the gradients of the
/// last, which end where they began.
std::vector<Step> ring(const Slice& s) {
  Block own = whole_block(s);
  own.queries = own.keys = s.sequence / s.c;
  own.pairs /= static_cast<double>(s.c) * s.c;
  Block other = own;
  other.queries = other.keys = 0.75 * own.queries;
  const double bytes = s.tokens * (s.key + s.value) * s.e;
  const auto passed_on = [bytes](double times) {
    return of_context(CollectiveKind::Shift, times * bytes, "key-value", false);
  };
  std::vector<Step> steps{{.again = Again::Core, .after_forward = passed_on(1)}};
  for (int i = 0; i < s.c; ++i) {
    const bool first = i == 0, last = i == s.c - 1;
    Step step = of_block(s, first ? own : other);
    const double share = first ? 1 : 0.75;
    append(step.forward,
           elementwise(s.precision, share * s.tokens * s.context, {s.e + (first ? 1 : 2) * Fp32}));
    if (i < s.c - 2) step.after_forward = passed_on(1);
    step.ends_forward = i == s.c - 2;  // the last block waits for the last passing-on
    step.ends_input = first;           // and what comes before attention for the last of the gradients
    // The last of the list is the first of backward.
    const double widths = s.query + s.key + s.value;
    if (!last) append(step.input, elementwise(s.precision, share * s.tokens * widths, {3 * s.e}));
    step.before_backward = passed_on(first || last ? 1 : 2);
    steps.push_back(std::move(step));
  }
  return steps;
}

/// Each rank's two chunks of queries against all keys before them, gathered.
std::vector<Step> gathered(const Slice& s) {
  Block block = whole_block(s);
  block.queries /= s.c;
  block.pairs /= s.c;
  const double bytes = s.c * s.tokens * (s.key + s.value) * s.e;
  Step keys{.again = Again::Core};
  keys.after_forward = of_context(CollectiveKind::AllGather, bytes, "key-value");
  keys.before_backward = of_context(CollectiveKind::ReduceScatter, bytes, "key-value-gradient");
  Step core = of_block(s, block);
  core.before_backward = of_context(CollectiveKind::AllGather, bytes, "key-value");
  return {keys, core};
}

/// The whole sequence for a c-th of the heads. Parts are put in order for the exchange, and the sequence
/// after it, by a copy each.
std::vector<Step> exchanged(const Slice& s) {
  Block block = whole_block(s);
  for (double* part : {&block.heads, &block.q_width, &block.k_width, &block.v_width, &block.o_width})
    *part /= s.c;
  const double inputs = s.tokens * (s.query + s.key + s.value), outputs = s.tokens * s.context;
  const auto copy = [&s](double elements) { return elementwise(s.precision, elements, {2 * s.e}); };
  const auto all_to_all = [&s](double elements, std::string_view part) {
    return of_context(CollectiveKind::AllToAll, elements * s.e, part);
  };
  Step in{.forward = copy(inputs), .input = copy(inputs), .again = Again::Core};
  in.after_forward = all_to_all(inputs, "query-key-value");
  in.before_backward = all_to_all(inputs, "query-key-value");
  Step core = of_block(s, block);
  core.forward.insert(core.forward.begin(), copy(inputs).front());
  append(core.forward, copy(outputs));
  core.after_forward = all_to_all(outputs, "attention");
  core.input.insert(core.input.begin(), copy(outputs).front());
  append(core.input, copy(inputs));
  Step out{.forward = copy(outputs), .input = copy(outputs), .again = Again::Core};
  core.before_backward = all_to_all(outputs, "attention");
  return {in, core, out};
}

/// Scores, softmax, dropout and the product with the values, over the whole square in memory; the mask is
/// causal, but nothing is left out. As Megatron-LM's CoreAttention: scaling rides in the product, and the
/// output is copied from heads by sequence to tokens by width.
Step unfused(const Slice& slice, const TrainingShape& shape) {
  constexpr double Mask = 1;  // byte an element
  const Precision p = slice.precision;
  const double s = slice.sequence, batch = slice.sequences * slice.heads, e = slice.e;
  const double d = slice.query / slice.heads, dv = slice.context / slice.heads;
  const double scores = batch * s * s, output = slice.tokens * slice.context;
  const bool fused = shape.fusion == Fusion::Compiled;
  const std::vector<double> softmax =
      fused ? std::vector{2 * e}
            : std::vector{e + Fp32, 2 * Fp32, 2 * Fp32, Fp32 + e};  // to fp32, mask, softmax, back
  const std::vector<double> softmax_backward =
      fused ? std::vector{3 * e} : std::vector{e + Fp32, 3 * Fp32, 2 * Fp32, Fp32 + e};
  const std::vector<Kernel> dropout =
      shape.dropout ? elementwise(p, scores, {2 * e + Mask}) : std::vector<Kernel>{};
  const std::vector<Kernel> copy = elementwise(p, output, {2 * e});

  Step step{.again = Again::Core};
  step.forward = {gemm(p, s, s, d, batch)};  // q kᵀ
  append(step.forward, elementwise(p, scores, softmax));
  append(step.forward, dropout);
  append(step.forward, {gemm(p, s, dv, s, batch)});  // times v
  append(step.forward, copy);
  step.input = copy;
  append(step.input, {gemm(p, s, s, dv, batch), gemm(p, s, dv, s, batch)});  // of the probabilities, of v
  append(step.input, dropout);
  append(step.input, elementwise(p, scores, softmax_backward));
  append(step.input, {gemm(p, s, d, s, batch), gemm(p, s, d, s, batch)});  // of q, of k
  return step;
}

}  // namespace

/// Megatron-LM's own kernel, one for queries and one for keys. Else by complex numbers: cast, multiply, cast
/// back; compilers leave complex arithmetic alone (torch.compile falls back to eager kernels), so fused or
/// not makes no difference.
Step rotary(const Slice& slice, Fusion fusion, double query, double key) {
  const double e = slice.e;
  const bool fused = slice.megatron && fusion == Fusion::Compiled;
  const std::vector<double> passes = fused ? std::vector{2 * e} : std::vector{e + Fp32, 2 * Fp32, Fp32 + e};
  std::vector<Kernel> kernels;
  for (const double width : {query, key})
    append(kernels, elementwise(slice.precision, slice.tokens * width, passes));
  return {.forward = kernels, .input = kernels};
}

Step repeat_kv(const Slice& slice) {
  if (!slice.repeats_kv) return {};
  const std::vector<Kernel> both =
      elementwise(slice.precision, slice.tokens * (slice.query + slice.key), {slice.e, slice.e});
  return {.forward = both, .input = both};
}

std::vector<Step> attention(const Slice& slice, const TrainingShape& shape) {
  if (shape.attention == AttentionKernels::Unfused) {
    SYNCLINE_CHECK(slice.c == 1, "ranks share a sequence with flash attention alone");
    return {unfused(slice, shape)};
  }
  if (slice.c == 1) return {of_block(slice, whole_block(slice))};
  switch (shape.context_exchange) {
    case ContextExchange::Ring: return ring(slice);
    case ContextExchange::AllGather: return gathered(slice);
    case ContextExchange::AllToAll: return exchanged(slice);
  }
  return {};
}

}  // namespace syncline::transformer
