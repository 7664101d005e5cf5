#include "sim/training/training.hpp"

#include "sim/core/error.hpp"
#include "sim/training/pipeline_step.hpp"

namespace syncline {

Schedule training_schedule(const TrainingJob& job, const Device& device) {
  if (job.sharding.kind == DataSharding::Ddp) return pipeline_step(job, device);
  SYNCLINE_CHECK(job.model_parallel() == 1, "fsdp without model parallelism");
  FsdpJob fsdp;
  fsdp.model = job.model;
  fsdp.shape = job.shape;
  fsdp.data_parallel = job.data_parallel;
  fsdp.gradient_accumulation = job.gradient_accumulation;
  fsdp.fsdp = job.sharding.fsdp;
  return fsdp_schedule(fsdp, device);
}

}  // namespace syncline
