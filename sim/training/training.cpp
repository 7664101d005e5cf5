#include "sim/training/training.hpp"

#include "sim/pipeline/generator.hpp"
#include "sim/training/pipeline_step.hpp"

namespace syncline {

bool TrainingJob::mirrored() const {
  const pipeline::Generator* generator = pipeline::find_generator(pipeline.schedule);
  return pipelined() && generator != nullptr && generator->placement == pipeline::Placement::Both;
}

Degrees TrainingJob::degrees() const {
  Degrees degrees{
      shape.tensor_parallel, shape.context_parallel, data_parallel, pipeline_parallel, shards(), order};
  if (model.experts) degrees.expert = shape.experts.parallel;
  degrees.expert_tensor = shape.experts.tensor;
  degrees.mirrored = mirrored();
  return degrees;
}

Schedule training_schedule(const TrainingJob& job, const Device& device) {
  if (job.pipelined()) return pipeline_step(job, device);
  FsdpJob fsdp;
  fsdp.model = job.model;
  fsdp.shape = job.shape;
  fsdp.data_parallel = job.data_parallel;
  fsdp.group = job.sharding.group;
  fsdp.gradient_accumulation = job.gradient_accumulation;
  fsdp.order = job.order;
  fsdp.routing = job.routing;
  fsdp.fsdp = job.sharding.fsdp;
  fsdp.fsdp.reduce_every_microbatch = job.reduces_every_microbatch();
  return fsdp_schedule(fsdp, device);
}

}  // namespace syncline
