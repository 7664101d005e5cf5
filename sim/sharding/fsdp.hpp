// Fully sharded data parallelism (ZeRO-3) as a schedule.
//
// Zhao et al., PyTorch FSDP, VLDB 2023 (arXiv 2304.11277); FSDP2 as torchtitan runs it (arXiv 2410.06511). In
// two steps: a model becomes a plan (units that are gathered together, stages that compute), and a plan
// becomes the program of a rank. The second knows nothing of models and serves textbook schedules as well.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/device/device.hpp"
#include "sim/model/model.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/sharding/expert_traffic.hpp"
#include "sim/sharding/groups.hpp"

namespace syncline {

struct FsdpOptions {
  int forward_prefetch = 1;  // gathers that may run ahead of the compute that needs them; 0: none
  int backward_prefetch = 1;
  int limit_all_gathers = 0;  // at most so many gathered units that wait or compute, held by a wait of the
                              // host; 0: no limit. A limit N caps the prefetch at N − 1
  bool reshard_after_forward = true;  // free a layer's full weights after its forward and gather them again
  bool reduce_every_microbatch =
      true;  // false: unsharded gradients add up, and are reduced with the last one
  Precision reduce_precision = Precision::Fp32;  // of gradients on the wire
  Precision moments = Precision::Fp32;           // of both of Adam's, as they are held
};

struct FsdpJob {
  ModelSpec model;
  TrainingShape shape;  // has the tensor- and context-parallel degrees
  int data_parallel = 1;
  int group = 0;  // ranks that have one set of shards between them (data- and context-parallel); 0: all.
                  // Fewer: replicas of it all-reduce the shards of the gradients (HSDP)
  int gradient_accumulation = 1;  // microbatches a step
  AxisOrder order = DefaultOrder;
  FsdpOptions fsdp;
  RoutingOptions routing{};  // of expert layers
};

// --- the plan ----------------------------------------------------------------------------------------------

/// Parameters that are gathered, and whose gradients are reduced, as one.
struct FsdpUnit {
  std::string name;
  Bytes gathered;        // all its parameters in the precision of compute: S of its all-gather
  Bytes reduced;         // all its gradients in the precision of the reduction: S of its reduce-scatter
  bool experts = false;  // of experts, which the ranks of a shard group of their own hold between them
};

/// One op of a stage: the kernels of a work, or a collective between kernels.
struct FsdpStep {
  std::variant<WorkId, LayerCollective> body;  // a position in FsdpPlan::works
  std::string name{};                          // of the tag; empty: the stage's
  bool by_load = false;                        // as Segment::by_load
};

/// What a microbatch computes with the weights of a unit, step after step, and what it does to the unit.
struct FsdpStage {
  std::string name;  // of the tag: "layer"
  Phase phase = Phase::Forward;
  int layer = -1;
  std::vector<FsdpStep> steps;           // at least one
  std::size_t unit = 0;                  // position in FsdpPlan::units
  std::optional<std::size_t> experts{};  // another, likewise: the layer's experts
  bool gather = false;                   // the unit's weights are gathered for it
  bool release = false;                  // ... and given back when it ends
  bool reduce = false;                   // the unit's gradients are complete when it ends, and reduced
  Bytes gradients;  // of the unit, unsharded, that it makes; held until it or a later stage reduces
  Bytes expert_gradients{};
  std::vector<MemoryEffect> memory;  // activations: taken by its first step, given back by its last
};

/// One step of one rank, without the collectives of the sharding.
struct FsdpPlan {
  std::vector<Work> works;
  std::vector<FsdpUnit> units;
  std::vector<FsdpStage> stages;        // of one microbatch, in order
  std::optional<WorkId> gradient_norm;  // after the last microbatch: then an all-reduce of one number,
  std::optional<WorkId> optimizer;      // and the update
  Bytes replicated;  // before these, gradients of what all tensor-parallel ranks hold whole, in shards: S of
                     // their all-reduce; 0: none
};

/// Units and stages of a transformer. The root unit (embedding, final norm, output projection) is gathered
/// first and kept until its backward; each layer is a unit; the last layer's weights are kept between forward
/// and backward. Work that FSDP adds to the compute stream (copies out of the gathered buffer and into the
/// reduced one) is part of the stages' works.
[[nodiscard]] FsdpPlan fsdp_plan(const FsdpJob& job);

/// Of some layers, and the head: parameters that every tensor-parallel rank holds whole, and of which it
/// makes the gradient of its own tokens only, sequence parallel: norms, and biases behind products cut by
/// rows. Besides them replicated_matrices() of each layer.
[[nodiscard]] double replicated_parameters(const ModelSpec& model, int layers, bool head);

// --- the program -------------------------------------------------------------------------------------------

inline constexpr std::size_t FsdpComputeStream = 0, FsdpGatherStream = 1, FsdpReduceStream = 2;
/// "compute", "dp-gather", "dp-reduce".
[[nodiscard]] std::vector<std::string> fsdp_streams();

/// Groups of a family and the stream of their collectives; none where a group is one rank.
struct FsdpLane {
  FamilyId family;
  StreamId stream;
  int ranks = 1;
};
struct FsdpLanes {
  FsdpLane gather, reduce;                    // of the ranks that have a set of shards between them
  FsdpLane replicate;                         // of those that hold the same shard
  FsdpLane norm;                              // of all that hold different gradients
  FsdpLane tensor, context;                   // between kernels
  FsdpLane expert_gather{}, expert_reduce{};  // of the ranks that have experts between them, in shards
  FsdpLane expert{}, expert_tensor{};         // between kernels

  [[nodiscard]] const FsdpLane& between(LayerGroup group) const;
};

/// The ops of a rank, in the order its host issues them.
///
/// With a prefetch of k, the gather for a stage starts when the compute k + 1 stages before has ended, so
/// that k gathers run ahead of the compute; forward stages follow forward_prefetch, others backward_prefetch.
/// A stage waits for its gather; one that reduces also for the last reduction but one, so that two buffers
/// are enough. Shards are all-reduced across replicas on a stream of their own. Memory: a gather takes its
/// buffer; the stage takes the weights, and gives back the buffer when it ends.
/// @param traffic  of its expert layers; null: it has none
[[nodiscard]] std::vector<Op> fsdp_program(const FsdpPlan& plan, const FsdpOptions& options,
                                           const FsdpLanes& lanes, int microbatches,
                                           const ExpertTraffic* traffic = nullptr);
/// The same of `ranks` ranks and nothing else; collectives name family 0.
[[nodiscard]] std::vector<Op> fsdp_program(const FsdpPlan& plan, const FsdpOptions& options, int ranks,
                                           int microbatches);

/// One training step of every rank. Mesh and families as groups_of() makes them.
[[nodiscard]] Schedule fsdp_schedule(const FsdpJob& job, const Device& device);

}  // namespace syncline
