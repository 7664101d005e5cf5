// Fully sharded data parallelism (ZeRO-3) as a schedule.
//
// Zhao et al., PyTorch FSDP, VLDB 2023 (arXiv 2304.11277); FSDP2 as torchtitan runs it (arXiv 2410.06511). In
// two steps: a model becomes a plan (units that are gathered together, stages that compute), and a plan
// becomes the program of a rank. The second knows nothing of models and serves textbook schedules as well.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/device/device.hpp"
#include "sim/model/model.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

struct FsdpOptions {
  int forward_prefetch = 1;  // gathers that may run ahead of the compute that needs them; 0: none
  int backward_prefetch = 1;
  int limit_all_gathers = 0;  // at most so many gathered units that wait or compute, held by a wait of the
                              // host; 0: no limit. A limit N caps the prefetch at N − 1
  bool reshard_after_forward = true;  // free a layer's full weights after its forward and gather them again
  Precision reduce_precision = Precision::Fp32;  // of gradients on the wire
};

struct FsdpJob {
  ModelSpec model;
  TrainingShape shape;
  int data_parallel = 1;
  int gradient_accumulation = 1;  // microbatches a step
  FsdpOptions fsdp;
};

// --- the plan ----------------------------------------------------------------------------------------------

/// Parameters that are gathered, and whose gradients are reduced, as one.
struct FsdpUnit {
  std::string name;
  Bytes gathered;  // all its parameters in the precision of compute: S of its all-gather
  Bytes reduced;   // all its gradients in the precision of the reduction: S of its reduce-scatter
};

/// One compute op of a microbatch, and what it does to the unit whose weights it uses.
struct FsdpStage {
  std::string name;  // of the tag: "layer"
  Phase phase = Phase::Forward;
  int layer = -1;
  WorkId work;           // position in FsdpPlan::works
  std::size_t unit = 0;  // position in FsdpPlan::units
  bool gather = false;   // the unit's weights are gathered for it
  bool release = false;  // ... and given back when it ends
  bool reduce = false;   // the unit's gradients are complete when it ends, and reduced
  Bytes gradients;       // of the unit, unsharded, that it makes; held until it or a later stage reduces
  std::vector<MemoryEffect> memory;  // activations
};

/// One step of one rank, without the collectives.
struct FsdpPlan {
  std::vector<Work> works;
  std::vector<FsdpUnit> units;
  std::vector<FsdpStage> stages;        // of one microbatch, in order
  std::optional<WorkId> gradient_norm;  // after the last microbatch: then an all-reduce of one number,
  std::optional<WorkId> optimizer;      // and the update
};

/// Units and stages of a transformer. The root unit (embedding, final norm, output projection) is gathered
/// first and kept until its backward; each layer is a unit; the last layer's weights are kept between forward
/// and backward. Work that FSDP adds to the compute stream (copies out of the gathered buffer and into the
/// reduced one) is part of the stages' works.
[[nodiscard]] FsdpPlan fsdp_plan(const FsdpJob& job);

// --- the program -------------------------------------------------------------------------------------------

inline constexpr std::size_t FsdpComputeStream = 0, FsdpGatherStream = 1, FsdpReduceStream = 2;
/// "compute", "dp-gather", "dp-reduce".
[[nodiscard]] std::vector<std::string> fsdp_streams();

/// The ops of a rank among `ranks`, in the order its host issues them; collectives name family 0. With one
/// rank there are none.
///
/// With a prefetch of k, the gather for a stage starts when the compute k + 1 stages before has ended, so
/// that k gathers run ahead of the compute; forward stages follow forward_prefetch, others backward_prefetch.
/// A stage waits for its gather; one that reduces also for the last reduction but one, so that two buffers
/// are enough. Memory: a gather takes its buffer; the stage takes the weights, and gives back the buffer when
/// it ends.
[[nodiscard]] std::vector<Op> fsdp_program(const FsdpPlan& plan, const FsdpOptions& options, int ranks,
                                           int microbatches);

/// One training step of every rank.
[[nodiscard]] Schedule fsdp_schedule(const FsdpJob& job, const Device& device);

}  // namespace syncline
