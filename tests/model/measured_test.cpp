// Activations, head and workspace against what Megatron-LM's allocator reports.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "sim/model/model.hpp"

namespace syncline {
namespace {

/// Llama-3 cut to few layers, on 8 B200 by Megatron-LM 23e00ed and TransformerEngine 2.11: torch's
/// max_memory_allocated, largest of the ranks. Source: MooreThreads/SimuMax 4dcaae5,
/// docs/b200/b200_release_v1.2_summary.json. One microbatch of one sequence, no recompute, fused loss, fp32
/// gradients that the products add to, optimizer states over all ranks of the same part (tensor parallel runs
/// are sequence parallel; context parallel ones exchange by all-to-all).
struct Row {
  const char* name;
  int hidden, heads, kv_heads, ffn, layers;
  std::int64_t sequence;
  int tp, cp, dp;
  double peak;
};
const std::vector<Row> Rows = {{"70B tp2", 8192, 64, 8, 28672, 12, 4096, 2, 1, 4, 65154739712},
                               {"70B tp4", 8192, 64, 8, 28672, 12, 4096, 4, 1, 2, 41953287680},
                               {"70B tp8", 8192, 64, 8, 28672, 12, 4096, 8, 1, 1, 30372386304},
                               {"405B tp2", 16384, 128, 16, 53248, 4, 4096, 2, 1, 4, 87608367616},
                               {"405B tp4", 16384, 128, 16, 53248, 4, 4096, 4, 1, 2, 56788897280},
                               {"70B tp2 cp4", 8192, 64, 8, 28672, 12, 32768, 2, 4, 1, 73474310656},
                               {"405B tp2 cp4", 16384, 128, 16, 53248, 4, 32768, 2, 4, 1, 93442593280}};

int padded(int vocabulary, int tp) {
  const int unit = 128 * tp;
  return (vocabulary + unit - 1) / unit * unit;
}

TEST_CASE("peak memory of Megatron-LM is within half a per cent") {
  for (const Row& row : Rows) {
    SUBCASE(row.name) {
      const ModelSpec model{.name = "llama",
                            .source = {},
                            .layers = row.layers,
                            .hidden = row.hidden,
                            .heads = row.heads,
                            .kv_heads = row.kv_heads,
                            .ffn = row.ffn,
                            .vocabulary = padded(128256, row.tp)};
      const TrainingShape shape{.sequence = row.sequence,
                                .implementation = Implementation::Megatron,
                                .weight_gradients = WeightGradients::Fused,
                                .fused_loss = true,
                                .tensor_parallel = row.tp,
                                .sequence_parallel = true,
                                .context_parallel = row.cp,
                                .context_exchange = ContextExchange::AllToAll};
      const ModuleCost embedding = embedding_cost(model, shape), layer = layer_cost(model, shape),
                       head = head_cost(model, shape);
      const double parameters = embedding.parameters + row.layers * layer.parameters + head.parameters;
      const double states = parameters * (2 + 4 + 12.0 / (row.dp * row.cp));
      // When the projection goes backward: all that is kept, and what it needs besides.
      const double rest = (row.layers * layer.saved + layer.workspace + head.saved + head.transient).si();
      const double error = (states + rest) / row.peak - 1;
      CAPTURE(error);
      CHECK(std::abs(error) < 0.005);
    }
  }
}

}  // namespace
}  // namespace syncline
