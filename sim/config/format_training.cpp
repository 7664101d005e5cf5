// The keys of a scenario that trains a model.
#include <fmt/format.h>

#include <algorithm>

#include "sim/config/format_parts.hpp"
#include "sim/config/formats.hpp"
#include "sim/pipeline/generator.hpp"

namespace syncline {
namespace {

constexpr Limits Ahead{.low = 0, .high = 10000};

/// `even`, `balanced`, or the layers of each virtual stage.
Codec split_codec(StageSplit& split, std::vector<int>& layers) {
  const Names<StageSplit> words{{"even", StageSplit::Even}, {"balanced", StageSplit::Balanced}};
  const auto read = [&split, &layers, words](const ConfigValue& value) {
    if (value.node.kind != ConfigNode::Kind::List) return codec(split, words).read(value);
    split = StageSplit::Listed;
    codec(layers, Limits{.low = 0, .high = Layers.high}).read(value);
  };
  const auto write = [&split, &layers, words] {
    return split == StageSplit::Listed ? codec(layers).write() : codec(split, words).write();
  };
  return {"even, balanced, or a list of layers by virtual stage", read, write};
}

/// The four axes in any order, as Megatron-LM writes it: "tp-cp-dp-pp", the fastest first.
Codec order_codec(AxisOrder& order) {
  const std::string expects = "tp, cp, dp and pp in any order, the fastest first, such as \"tp-cp-dp-pp\"";
  const auto read = [&order, expects](const ConfigValue& value) {
    std::string text;
    codec(text).read(value);
    AxisOrder axes = DefaultOrder;
    std::ranges::sort(axes);
    do {
      if (fmt::format("{}", fmt::join(axes, "-")) != text) continue;
      order = axes;
      return;
    } while (std::ranges::next_permutation(axes).found);
    if (!text.empty()) value.fail(fmt::format("\"{}\" is not {}", text, expects));
  };
  return {expects, read, [&order] { return scalar_node(fmt::format("{}", fmt::join(order, "-"))); }};
}

Fields parallel_fields(TrainingJob& job) {
  return {optional("tp", job.shape.tensor_parallel, Accelerators),
          optional("cp", job.shape.context_parallel, Accelerators),
          optional("pp", job.pipeline_parallel, Accelerators),
          optional("dp", job.data_parallel, Accelerators),
          printed_if(job.model.experts.has_value(), optional("ep", job.shape.experts.parallel, Accelerators)),
          printed_if(job.model.experts.has_value(), optional("etp", job.shape.experts.tensor, Accelerators)),
          {"order", false, order_codec(job.order)},
          optional("sequence-parallel", job.shape.sequence_parallel),
          printed_if(job.shape.sequence_parallel, optional("tensor-chunks", job.shape.tensor_chunks, Layers)),
          printed_if(job.shape.context_parallel > 1,
                     optional("cp-exchange", job.shape.context_exchange,
                              Names<ContextExchange>{{"ring", ContextExchange::Ring},
                                                     {"all-gather", ContextExchange::AllGather},
                                                     {"all-to-all", ContextExchange::AllToAll}}))};
}

/// A size that is not given, and not printed, when it is 0.
Codec given_size_codec(Bytes& size) {
  Codec plain = codec(size);
  const auto write = [&size] { return size > Bytes(0) ? codec(size).write() : ConfigNode{}; };
  return {plain.expects, plain.read, write};
}

/// Which key is of which kind: kinds.cpp.
Fields sharding_fields(TrainingJob& job) {
  ShardingOptions& sharding = job.sharding;
  FsdpOptions& fsdp = sharding.fsdp;
  using enum DataSharding;
  const bool is_fsdp = sharding.kind == Fsdp, unpiped = !job.pipelined();
  const bool optimizer_alone = sharding.kind == Zero1 || sharding.kind == Zero2;
  return {
      required("kind", sharding.kind,
               Names<DataSharding>{{"fsdp", Fsdp}, {"ddp", Ddp}, {"zero-1", Zero1}, {"zero-2", Zero2}}),
      {"group", false, given_count_codec(sharding.group, Accelerators)},
      printed_if(is_fsdp, optional("forward-prefetch", fsdp.forward_prefetch, Ahead)),
      printed_if(unpiped, optional("backward-prefetch", fsdp.backward_prefetch, Ahead)),
      printed_if(unpiped, optional("limit-all-gathers", fsdp.limit_all_gathers, Ahead)),
      printed_if(unpiped, optional("reshard-after-forward", fsdp.reshard_after_forward)),
      {"bucket", false, given_size_codec(sharding.bucket)},
      printed_if(!is_fsdp, optional("overlap-reduction", sharding.overlap_reduction)),
      printed_if(optimizer_alone, optional("overlap-gather", sharding.overlap_gather)),
      printed_if(sharding.gather_by_optimizer, optional("gather-by-optimizer", sharding.gather_by_optimizer)),
      printed_if(sharding.gradient_passes, optional("gradient-passes", sharding.gradient_passes)),
      optional("reduce-every-microbatch", sharding.reduce_every_microbatch)};
}

/// After `parallel`: a memory limit may count in stages.
Fields pipeline_fields(TrainingJob& job) {
  PipelineOptions& options = job.pipeline;
  return {{"schedule", false, kept_word_codec(options.schedule, pipeline::generator_names())},
          {"chunks", false, given_count_codec(options.chunks, Layers)},
          {"group-size", false, given_count_codec(options.group_size, Microbatches)},
          optional("transfers", options.transfers, transfer_modes()),
          optional("scatter-gather", options.scatter_gather),
          {"split", false, split_codec(options.split, options.layers)},
          {"memory-limit", false, memory_limit_codec(options.memory_limit, job.pipeline_parallel)}};
}

}  // namespace

Fields training_fields(Scenario& scenario) {
  TrainingJob& job = scenario.job;
  TrainingShape& shape = job.shape;
  Fields fields{required("topology", scenario.topology),
                required("device", scenario.device),
                required("model", job.model),
                optional_block("parallel", parallel_fields(job)),
                required_block("batch", {required("global", scenario.global_batch, Sequences),
                                         optional("microbatch", shape.microbatch, Sequences),
                                         required("sequence", shape.sequence, Sequences)}),
                optional_block("precision", precision_fields(job)),
                optional_block("sharding", sharding_fields(job)),
                printed_if(job.pipelined(), optional_block("pipeline", pipeline_fields(job))),
                printed_if(job.model.experts.has_value(), optional_block("moe", expert_fields(job)))};
  for (Field& field : kernel_fields(shape)) fields.push_back(std::move(field));
  return fields;
}

}  // namespace syncline
