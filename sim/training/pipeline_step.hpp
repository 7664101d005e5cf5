// A training step under pipeline, tensor and replicated data parallelism.
#pragma once

#include "sim/training/training.hpp"

namespace syncline {

/// @pre job.sharding.kind is Ddp
/// @throws std::invalid_argument when the pipeline schedule does not accept the job
[[nodiscard]] Schedule pipeline_step(const TrainingJob& job, const Device& device);

}  // namespace syncline
