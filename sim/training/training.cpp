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
  if (job.pipelined()) {
    TrainingJob piped = job;
    piped.shape.weights_come_and_go = job.sharding.kind == DataSharding::Fsdp;
    return pipeline_step(piped, device);
  }
  FsdpJob fsdp;
  fsdp.model = job.model;
  fsdp.shape = job.shape;
  fsdp.shape.weights_come_and_go = true;
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
