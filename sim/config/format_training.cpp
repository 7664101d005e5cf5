// The keys of a scenario that trains a model.
#include "sim/config/format_parts.hpp"
#include "sim/config/formats.hpp"
#include "sim/pipeline/generator.hpp"

namespace syncline {
namespace {

constexpr Limits Ahead{.low = 0, .high = 10000};

template <class Enum>
Names<Enum> schedule_names() {
  Names<Enum> names;
  for (const std::string& name : names_of<Enum>()) names.emplace_back(name, *value_of<Enum>(name));
  return names;
}

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

Fields parallel_fields(TrainingJob& job) {
  return {optional("tp", job.shape.tensor_parallel, Accelerators),
          optional("pp", job.pipeline_parallel, Accelerators),
          optional("dp", job.data_parallel, Accelerators),
          optional("sequence-parallel", job.shape.sequence_parallel)};
}

Fields sharding_fields(TrainingJob& job) {
  FsdpOptions& fsdp = job.sharding.fsdp;
  const bool is_fsdp = job.sharding.kind == DataSharding::Fsdp;
  return {required("kind", job.sharding.kind,
                   Names<DataSharding>{{"fsdp", DataSharding::Fsdp}, {"ddp", DataSharding::Ddp}}),
          printed_if(is_fsdp, optional("forward-prefetch", fsdp.forward_prefetch, Ahead)),
          printed_if(is_fsdp, optional("backward-prefetch", fsdp.backward_prefetch, Ahead)),
          printed_if(is_fsdp, optional("limit-all-gathers", fsdp.limit_all_gathers, Ahead)),
          printed_if(is_fsdp, optional("reshard-after-forward", fsdp.reshard_after_forward)),
          printed_if(!is_fsdp, optional("overlap-reduction", job.sharding.overlap_reduction))};
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
  return {required("topology", scenario.topology),
          required("device", scenario.device),
          required("model", job.model),
          optional_block("parallel", parallel_fields(job)),
          required_block("batch", {required("global", scenario.global_batch, Sequences),
                                   optional("microbatch", shape.microbatch, Sequences),
                                   required("sequence", shape.sequence, Sequences)}),
          optional_block("precision",
                         {optional("compute", shape.compute, schedule_names<Precision>()),
                          optional("reduce", job.sharding.fsdp.reduce_precision, schedule_names<Precision>())}),
          optional_block("sharding", sharding_fields(job)),
          printed_if(job.sharding.kind == DataSharding::Ddp, optional_block("pipeline", pipeline_fields(job))),
          optional("recompute", shape.recompute,
                   Names<Recompute>{{"none", Recompute::None},
                                    {"selective", Recompute::Selective},
                                    {"selective-op", Recompute::SelectiveOp},
                                    {"full", Recompute::Full}}),
          optional("kernels", shape.fusion,
                   Names<Fusion>{{"eager", Fusion::Eager}, {"compiled", Fusion::Compiled}}),
          optional("attention", shape.attention,
                   Names<AttentionKernels>{{"flash", AttentionKernels::Flash},
                                           {"unfused", AttentionKernels::Unfused}}),
          optional("dropout", shape.dropout)};
}

}  // namespace syncline
