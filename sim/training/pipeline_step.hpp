// A training step that goes through a pipeline, of one stage or more, under any kind of data sharding.
#pragma once

#include "sim/training/training.hpp"

namespace syncline {

/// Under Fsdp a stage's weights are gathered at their first use and kept until its last backward, as
/// torchtitan does with pipelines (arXiv 2410.06511).
/// @throws std::invalid_argument when the pipeline schedule does not accept the job
[[nodiscard]] Schedule pipeline_step(const TrainingJob& job, const Device& device);

}  // namespace syncline
