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
#include "sim/sharding/fsdp.hpp"

namespace syncline {

/// What data-parallel ranks do with parameters and gradients.
///   Ddp:  every rank holds all of its stage; gradients are all-reduced, when the last microbatch has gone
///         backward through a stage.
///   Fsdp: sim/sharding/fsdp.hpp; without tensor or pipeline parallelism.
enum class DataSharding : std::uint8_t { Ddp, Fsdp };

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
  int gradient_accumulation = 1;  // microbatches of a step, per data-parallel rank
  DataSharding sharding = DataSharding::Fsdp;
  bool overlap_reduction =
      true;          // Ddp: a stage's gradients are reduced while others still compute; else after all
  FsdpOptions fsdp;  // its reduce_precision holds for Ddp too
  PipelineOptions pipeline;

  /// Ranks of one replica of the model.
  [[nodiscard]] int model_parallel() const { return shape.tensor_parallel * pipeline_parallel; }
  [[nodiscard]] int ranks() const { return model_parallel() * data_parallel; }
};

/// One step of every rank. Mesh axes: tp fastest, then dp, then pp. Left out under sequence parallelism: the
/// all-reduce over tp of the gradients of norms and biases, a few thousandths of the parameters.
/// @throws std::invalid_argument when the pipeline schedule does not accept the job (pipeline_refusal() says
/// so before)
[[nodiscard]] Schedule training_schedule(const TrainingJob& job, const Device& device);

/// Why the job's pipeline cannot be made, with what would do; nothing when it can.
[[nodiscard]] std::optional<std::string> pipeline_refusal(const TrainingJob& job);

/// Layers of each virtual stage.
/// @pre pipeline_refusal() finds nothing
[[nodiscard]] std::vector<int> stage_layers(const TrainingJob& job, const Device& device);

}  // namespace syncline
