#include "sim/training/training.hpp"

#include "sim/training/pipeline_step.hpp"

namespace syncline {

Schedule training_schedule(const TrainingJob& job, const Device& device) {
  if (job.pipelined()) return pipeline_step(job, device);
  FsdpJob fsdp;
  fsdp.model = job.model;
  fsdp.shape = job.shape;
  fsdp.data_parallel = job.data_parallel;
  fsdp.group = job.sharding.group;
  fsdp.gradient_accumulation = job.gradient_accumulation;
  fsdp.order = job.order;
  fsdp.fsdp = job.sharding.fsdp;
  fsdp.fsdp.reduce_every_microbatch = job.reduces_every_microbatch();
  return fsdp_schedule(fsdp, device);
}

}  // namespace syncline
