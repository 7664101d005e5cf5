// A transformer as FSDP units and stages, and the whole schedule.
#include <initializer_list>

#include "sim/core/error.hpp"
#include "sim/sharding/fsdp.hpp"

namespace syncline {
namespace {

using enum MemoryCategory;

constexpr double Master = 4;  // bytes of a parameter, gradient and Adam moment in the sharded state (fp32)

Kernel moves(KernelClass kind, double bytes) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.precision = Precision::Fp32;
  kernel.hbm = Bytes(bytes);
  return kernel;
}

/// The shard cast to the precision of compute, and the gathered buffer copied out into the weights.
std::vector<Kernel> gather_copies(double parameters, const FsdpJob& job) {
  const double e = size_of(job.shape.compute).si();
  std::vector<Kernel> kernels{moves(KernelClass::Elementwise, parameters / job.data_parallel * (Master + e))};
  if (job.data_parallel > 1) kernels.push_back(moves(KernelClass::Elementwise, parameters * 2 * e));
  return kernels;
}

/// The gradients cast to the precision of the reduction and copied into its buffer.
std::vector<Kernel> reduce_copies(double parameters, const FsdpJob& job) {
  const double e = size_of(job.shape.compute).si() + size_of(job.fsdp.reduce_precision).si();
  return {moves(KernelClass::Elementwise, parameters * e)};
}

/// AdamW in PyTorch's foreach form, the default: each line is one pass over fp32 arrays.
std::vector<Kernel> adam(double shard) {
  constexpr int Arrays[] = {
      2,  // gradients times the clipping factor
      2,  // weight decay of the parameters
      3,  // first moment: read it and the gradient, write it
      2,  // second moment times beta
      3,  // plus the squared gradient
      2,  // its root, to a temporary
      2,  // divided by the bias correction
      2,  // plus epsilon
      4,  // parameters: read them, the first moment and the temporary, write them
  };
  std::vector<Kernel> kernels;
  for (const int arrays : Arrays) kernels.push_back(moves(KernelClass::Optimizer, arrays * Master * shard));
  return kernels;
}

std::vector<Kernel> joined(std::initializer_list<std::vector<Kernel>> parts) {
  std::vector<Kernel> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

class Planner {
 public:
  explicit Planner(const FsdpJob& job)
      : job_(job),
        embedding_(embedding_cost(job.model, job.shape)),
        layer_(layer_cost(job.model, job.shape)),
        head_(head_cost(job.model, job.shape)) {
    SYNCLINE_CHECK(job.model.layers >= 1 && job.data_parallel >= 1, "at least one layer and one rank");
    SYNCLINE_CHECK(job.shape.tensor_parallel == 1, "no collectives between kernels");
  }

  FsdpPlan run() {
    add_unit("root", root_parameters());
    for (int layer = 0; layer < job_.model.layers; ++layer) add_unit("layer", layer_.parameters);
    add_forward();
    add_backward();
    const double shard = (root_parameters() + job_.model.layers * layer_.parameters) / job_.data_parallel;
    plan_.gradient_norm = add_work("gradient-norm", {moves(KernelClass::Optimizer, shard * Master)});
    plan_.optimizer = add_work("optimizer", adam(shard));
    return std::move(plan_);
  }

 private:
  [[nodiscard]] double root_parameters() const { return embedding_.parameters + head_.parameters; }

  /// Weights stay between forward and backward: the last layer's would be gathered again at once.
  [[nodiscard]] bool kept(int layer) const {
    return !job_.fsdp.reshard_after_forward || layer == job_.model.layers - 1;
  }

  void add_unit(std::string name, double parameters) {
    plan_.units.push_back({std::move(name), parameters * size_of(job_.shape.compute),
                           parameters * size_of(job_.fsdp.reduce_precision)});
  }

  WorkId add_work(std::string name, std::vector<Kernel> kernels) {
    plan_.works.push_back({std::move(name), std::move(kernels)});
    return WorkId(plan_.works.size() - 1);
  }

  FsdpStage& add_stage(std::string name, Phase phase, int layer, WorkId work) {
    FsdpStage stage;
    stage.name = std::move(name);
    stage.phase = phase;
    stage.layer = layer;
    stage.work = work;
    stage.unit = static_cast<std::size_t>(layer + 1);  // the root is unit 0
    plan_.stages.push_back(std::move(stage));
    return plan_.stages.back();
  }

  void add_forward() {
    const WorkId embedding =
        add_work("embedding-forward",
                 joined({gather_copies(root_parameters(), job_), kernels_of(embedding_.forward)}));
    const WorkId layers = add_work(
        "layer-forward", joined({gather_copies(layer_.parameters, job_), kernels_of(layer_.forward)}));
    const WorkId head = add_work("head-forward", kernels_of(head_.forward));

    FsdpStage& first = add_stage("embedding", Phase::Forward, -1, embedding);
    first.gather = true;
    first.memory = {{Activations, embedding_.saved}};
    for (int layer = 0; layer < job_.model.layers; ++layer) {
      FsdpStage& stage = add_stage("layer", Phase::Forward, layer, layers);
      stage.gather = true;
      stage.release = !kept(layer);
      stage.memory = {{Activations, layer_.saved}};
    }
    add_stage("head", Phase::Forward, -1, head).memory = {{Activations, head_.saved}};
  }

  void add_backward() {
    const std::vector<Kernel> layer = joined(
        {kernels_of(layer_.recompute), backward_kernels(layer_), reduce_copies(layer_.parameters, job_)});
    const WorkId head = add_work("head-backward", backward_kernels(head_));
    const WorkId with_weights = add_work("layer-backward", layer);
    const WorkId gathered =
        job_.model.layers > 1 && job_.fsdp.reshard_after_forward
            ? add_work("layer-backward-gathered", joined({gather_copies(layer_.parameters, job_), layer}))
            : with_weights;
    const WorkId embedding = add_work(
        "embedding-backward", joined({backward_kernels(embedding_), reduce_copies(root_parameters(), job_)}));
    const Bytes weight = size_of(job_.shape.compute);

    FsdpStage& first = add_stage("head", Phase::Backward, -1, head);
    first.memory = given_back(head_);
    first.gradients = head_.parameters * weight;
    for (int index = job_.model.layers - 1; index >= 0; --index) {
      FsdpStage& stage = add_stage("layer", Phase::Backward, index, kept(index) ? with_weights : gathered);
      stage.gather = !kept(index);
      stage.release = true;
      stage.reduce = true;
      stage.gradients = layer_.parameters * weight;
      stage.memory = given_back(layer_);
    }
    FsdpStage& last = add_stage("embedding", Phase::Backward, -1, embedding);
    last.release = true;
    last.reduce = true;
    last.gradients = embedding_.parameters * weight;
    last.memory = given_back(embedding_);
  }

  /// What backward needs besides, and what it frees.
  static std::vector<MemoryEffect> given_back(const ModuleCost& cost) {
    return {{Activations, cost.transient}, {Activations, -(cost.saved + cost.transient)}};
  }

  const FsdpJob& job_;
  const ModuleCost embedding_, layer_, head_;
  FsdpPlan plan_;
};

Flop flop_of(const Work& work) {
  Flop total;
  for (const Kernel& kernel : work.kernels) total += kernel.flop;
  return total;
}

/// FLOP of a rank's step, recomputation included.
Flop flop_of(const FsdpPlan& plan, int microbatches) {
  Flop total;
  for (const FsdpStage& stage : plan.stages) total += flop_of(plan.works[stage.work.value()]);
  return total * microbatches;
}

}  // namespace

FsdpPlan fsdp_plan(const FsdpJob& job) {
  return Planner(job).run();
}

Schedule fsdp_schedule(const FsdpJob& job, const Device& device) {
  FsdpPlan plan = fsdp_plan(job);
  const int ranks = job.data_parallel;
  const double shard = parameter_count(job.model) / ranks;

  Schedule schedule;
  schedule.name = job.model.name + "-fsdp-" + std::to_string(ranks);
  schedule.meshes = {Mesh("dense", {{"dp", ranks}})};
  schedule.families = {GroupFamily::along("dp", schedule.meshes.front(), {"dp"})};
  schedule.streams = fsdp_streams();

  Role role;
  role.name = "rank";
  role.program = fsdp_program(plan, job.fsdp, ranks, job.gradient_accumulation);
  role.resident = {{Parameters, Bytes(shard * Master)}, {Optimizer, Bytes(2 * shard * Master)}};
  if (device.reserve > Bytes(0)) role.resident.push_back({Reserve, device.reserve});
  schedule.roles = {std::move(role)};
  schedule.role_of.assign(static_cast<std::size_t>(ranks), RoleId(0));

  schedule.job.tokens = static_cast<double>(job.shape.tokens()) * job.gradient_accumulation * ranks;
  schedule.job.model_flop = model_flop(job.model, job.shape.sequence, schedule.job.tokens);
  schedule.job.hardware_flop = flop_of(plan, job.gradient_accumulation) * ranks;
  schedule.job.precision = job.shape.compute;
  schedule.works = std::move(plan.works);
  return schedule;
}

}  // namespace syncline
