// A whole training step: a model, how it is run, and how it is spread over ranks; and the schedule of all
// that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/device/device.hpp"
#include "sim/model/model.hpp"
#include "sim/pipeline/lower.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/sharding/expert_traffic.hpp"
#include "sim/sharding/fsdp.hpp"
#include "sim/sharding/groups.hpp"

namespace syncline {

/// What ranks that hold the same part of the model (data- and context-parallel ones) do with it.
///   Ddp:   every rank holds all; gradients are all-reduced.
///   Zero1: the optimizer's state is sharded: gradients are reduce-scattered when the last microbatch has
///   gone
///          backward, each rank updates its shard, parameters are all-gathered (Rajbhandari et al., ZeRO,
///          arXiv 1910.02054; Megatron-LM's distributed optimizer).
///   Zero2: gradients are sharded too: reduce-scattered after every microbatch, and added up in shards.
///   Fsdp:  parameters are sharded too (ZeRO-3), see sim/sharding/fsdp.hpp.
enum class DataSharding : std::uint8_t { Ddp, Zero1, Zero2, Fsdp };

struct ShardingOptions {
  DataSharding kind = DataSharding::Fsdp;
  /// Ranks that have one set of shards between them; 0: all. With fewer there are replicas of the set, which
  /// all-reduce the shards of the gradients (hybrid sharding, HSDP).
  int group = 0;
  /// Gradients that are reduced as one, of a stage's all; 0: all. Ddp, Zero1, Zero2.
  Bytes bucket{};
  bool overlap_reduction = true;  // buckets are reduced while others still compute; else after all
  bool overlap_gather = false;  // Zero1, Zero2: parameters are gathered beside the next step's forward, each
                                // bucket before its use; else after the update
  /// Zero1, Zero2 without `overlap_gather`, where a rank has parameters of experts: gathered once for each of two
  /// optimizers, as Megatron-LM did until 2026 (0044db1f20): those of experts and of all others were optimizers of
  /// their own, chained, and each gathered all (core_r0.14.0, distrib_optimizer.py: step_with_ready_grads).
  bool gather_by_optimizer = false;
  /// Ddp, Zero1: once a step a rank passes over all its gradients to clear them, to look for NaN and, reading and
  /// writing, to scale them by 1 / dp, and over those it updates to scale them by a norm above the limit: Megatron-LM's
  /// defaults (core_r0.14.0, param_and_grad_buffer.py: reset, check_grads, start_grad_sync; clip_grads.py).
  bool gradient_passes = false;
  /// Gradients are reduced whenever there are some; else they add up, and are reduced with the last
  /// microbatch. Not given: so of Zero2, and of Fsdp without a pipeline. Zero2 knows nothing else.
  std::optional<bool> reduce_every_microbatch{};
  /// Its reduce_precision holds for all kinds: of gradients, held and on the wire; and its moments.
  FsdpOptions fsdp;
};

/// How layers are dealt to virtual stages.
///   Even:     equal numbers; the first stages one more where they do not divide.
///   Balanced: so that the slowest stage, embedding and head included, is as fast as can be.
///   Listed:   as given.
enum class StageSplit : std::uint8_t { Even, Balanced, Listed };

struct PipelineOptions {
  std::string schedule = "1f1b";  // a name of pipeline::generator_names()
  int chunks = 0;                 // virtual stages a rank; 0: the schedule's own
  int group_size = 0;             // pipeline::Request::group_size
  std::optional<double> memory_limit{};
  pipeline::TransferMode transfers = pipeline::TransferMode::Overlapped;
  /// With tensor parallelism every rank of a stage has the whole activation; each sends a part of 1/t, which
  /// the receivers gather (Narayanan et al., SC 2021, arXiv 2104.04473, section 4.1).
  bool scatter_gather = false;
  StageSplit split = StageSplit::Even;
  std::vector<int> layers{};  // Listed: by virtual stage
};

struct TrainingJob {
  ModelSpec model;
  TrainingShape shape;  // has the tensor-parallel degree
  int data_parallel = 1;
  int pipeline_parallel = 1;
  AxisOrder order = DefaultOrder;  // of ranks: the fastest axis is inside a node first
  int gradient_accumulation = 1;   // microbatches of a step, per data-parallel rank
  ShardingOptions sharding;
  PipelineOptions pipeline;
  RoutingOptions routing{};

  /// Ranks of one replica of the model.
  [[nodiscard]] int model_parallel() const {
    return shape.tensor_parallel * shape.context_parallel * pipeline_parallel;
  }
  [[nodiscard]] int ranks() const { return model_parallel() * data_parallel; }
  /// Ranks that have one set of shards between them; 1 where nothing is sharded.
  [[nodiscard]] int shards() const {
    if (sharding.kind == DataSharding::Ddp) return 1;
    return sharding.group > 0 ? sharding.group
                              : shape.context_parallel * data_parallel * (mirrored() ? 2 : 1);
  }
  /// Every stage stands on two pipeline ranks, each with half of the microbatches (DualPipe).
  [[nodiscard]] bool mirrored() const;
  [[nodiscard]] Degrees degrees() const;
  /// Whether it follows `pipeline`, if only with one stage; Fsdp does so with several.
  [[nodiscard]] bool pipelined() const {
    return sharding.kind != DataSharding::Fsdp || pipeline_parallel > 1;
  }
  [[nodiscard]] bool reduces_every_microbatch() const {
    return sharding.reduce_every_microbatch.value_or(sharding.kind == DataSharding::Zero2 || !pipelined());
  }
};

/// One step of every rank. Mesh axes: sim/sharding/groups.hpp.
/// @throws std::invalid_argument when the pipeline schedule does not accept the job (pipeline_refusal() says
/// so before)
[[nodiscard]] Schedule training_schedule(const TrainingJob& job, const Device& device);

/// Why the job's pipeline cannot be made, with what would do; nothing when it can.
[[nodiscard]] std::optional<std::string> pipeline_refusal(const TrainingJob& job);

/// Layers of each virtual stage.
/// @pre pipeline_refusal() finds nothing
[[nodiscard]] std::vector<int> stage_layers(const TrainingJob& job, const Device& device);

}  // namespace syncline
