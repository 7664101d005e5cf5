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

int shards_of(const FsdpJob& job) {
  return job.group > 0 ? job.group : job.shape.context_parallel * job.data_parallel;
}

/// The shard cast to the precision of compute, and the gathered buffer copied out into the weights.
std::vector<Kernel> gather_copies(double parameters, const FsdpJob& job) {
  const double e = size_of(job.shape.compute).si();
  const int shards = shards_of(job);
  std::vector<Kernel> kernels{moves(KernelClass::Elementwise, parameters / shards * (Master + e))};
  if (shards > 1) kernels.push_back(moves(KernelClass::Elementwise, parameters * 2 * e));
  return kernels;
}

/// The gradients cast to the precision of the reduction and copied into its buffer.
std::vector<Kernel> reduce_copies(double parameters, const FsdpJob& job) {
  if (job.shape.frozen) return {};
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

/// One after another; what no collective parts becomes one segment.
std::vector<Segment> joined(std::initializer_list<std::vector<Segment>> parts) {
  std::vector<Segment> all;
  for (const auto& part : parts)
    for (const Segment& segment : part) {
      if (all.empty() || all.back().then) {
        all.push_back(segment);
        continue;
      }
      all.back().kernels.insert(all.back().kernels.end(), segment.kernels.begin(), segment.kernels.end());
      all.back().then = segment.then;
    }
  return all;
}

std::vector<Segment> alone(std::vector<Kernel> kernels) {
  if (kernels.empty()) return {};
  return {{std::move(kernels), std::nullopt}};
}

/// Whole: inputs, then weights.
std::vector<Segment> backward_of(const ModuleCost& cost) {
  return joined({cost.recompute, cost.backward_input, alone(cost.backward_weight)});
}

class Planner {
 public:
  explicit Planner(const FsdpJob& job)
      : job_(job),
        embedding_(embedding_cost(job.model, job.shape)),
        layer_(layer_cost(job.model, job.shape)),
        head_(head_cost(job.model, job.shape)) {
    SYNCLINE_CHECK(job.model.layers >= 1 && job.data_parallel >= 1, "at least one layer and one rank");
  }

  FsdpPlan run() {
    add_unit("root", root_parameters());
    for (int layer = 0; layer < job_.model.layers; ++layer) add_unit("layer", layer_.parameters);
    add_forward();
    add_backward();
    if (job_.shape.frozen) return std::move(plan_);
    const double shard = (root_parameters() + job_.model.layers * layer_.parameters) / shards_of(job_);
    if (job_.shape.sequence_parallel && job_.shape.tensor_parallel > 1)
      plan_.replicated = replicated_parameters(job_.model, job_.model.layers, true) / shards_of(job_) *
                         size_of(job_.fsdp.reduce_precision);
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

  /// The works of segments, and the collectives between them: "layer-forward", "layer-forward.2".
  std::vector<FsdpStep> add_steps(const std::string& work, const std::string& tag,
                                  const std::vector<Segment>& segments) {
    std::vector<FsdpStep> steps;
    int count = 0;
    for (const Segment& segment : segments) {
      if (!segment.kernels.empty()) {
        const std::string number = ++count > 1 ? "." + std::to_string(count) : "";
        steps.push_back({add_work(work + number, segment.kernels), tag + number});
      }
      if (segment.then) steps.push_back({*segment.then, {}});
    }
    if (steps.empty()) steps.push_back({add_work(work, {}), tag});
    return steps;
  }

  FsdpStage& add_stage(std::string name, Phase phase, int layer, std::vector<FsdpStep> steps) {
    FsdpStage stage;
    stage.name = std::move(name);
    stage.phase = phase;
    stage.layer = layer;
    stage.steps = std::move(steps);
    stage.unit = static_cast<std::size_t>(layer + 1);  // the root is unit 0
    plan_.stages.push_back(std::move(stage));
    return plan_.stages.back();
  }

  void add_forward() {
    const auto embedding =
        add_steps("embedding-forward", "embedding",
                  joined({alone(gather_copies(root_parameters(), job_)), embedding_.forward}));
    const auto layers = add_steps("layer-forward", "layer",
                                  joined({alone(gather_copies(layer_.parameters, job_)), layer_.forward}));
    const auto head = add_steps("head-forward", "head", joined({head_.forward}));

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
    const bool trained = !job_.shape.frozen;
    const std::vector<Segment> layer =
        joined({backward_of(layer_), alone(reduce_copies(layer_.parameters, job_))});
    const auto head = add_steps("head-backward", "head", backward_of(head_));
    const auto with_weights = add_steps("layer-backward", "layer", layer);
    const auto gathered = job_.model.layers > 1 && job_.fsdp.reshard_after_forward
                              ? add_steps("layer-backward-gathered", "layer",
                                          joined({alone(gather_copies(layer_.parameters, job_)), layer}))
                              : with_weights;
    const auto embedding =
        add_steps("embedding-backward", "embedding",
                  joined({backward_of(embedding_), alone(reduce_copies(root_parameters(), job_))}));
    const Bytes weight = trained ? size_of(job_.shape.compute) : Bytes(0);

    FsdpStage& first = add_stage("head", Phase::Backward, -1, head);
    first.memory = given_back(head_);
    first.gradients = head_.parameters * weight;
    for (int index = job_.model.layers - 1; index >= 0; --index) {
      FsdpStage& stage = add_stage("layer", Phase::Backward, index, kept(index) ? with_weights : gathered);
      stage.gather = !kept(index);
      stage.release = true;
      stage.reduce = trained;
      stage.gradients = layer_.parameters * weight;
      stage.memory = given_back(layer_);
    }
    FsdpStage& last = add_stage("embedding", Phase::Backward, -1, embedding);
    last.release = true;
    last.reduce = trained;
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
  for (const FsdpStage& stage : plan.stages)
    for (const FsdpStep& step : stage.steps)
      if (const auto* work = std::get_if<WorkId>(&step.body)) total += flop_of(plan.works[work->value()]);
  return total * microbatches;
}

double parameters_of(const FsdpPlan& plan, const FsdpJob& job) {
  Bytes all;
  for (const FsdpUnit& unit : plan.units) all += unit.gathered;
  return all / size_of(job.shape.compute);
}

/// Streams come after those that all have, as they are needed.
FsdpLanes lanes_of(const Groups& groups, const FsdpJob& job, std::vector<std::string>& streams) {
  const auto lane = [](std::optional<FamilyId> family, std::size_t stream, int ranks) {
    return family ? FsdpLane{*family, StreamId(stream), ranks} : FsdpLane{};
  };
  const auto own_stream = [&](std::optional<FamilyId> family, const char* name, int ranks) {
    if (family) streams.emplace_back(name);
    return lane(family, streams.size() - 1, ranks);
  };
  const int different = groups.shards * job.shape.tensor_parallel;
  return {lane(groups.shard, FsdpGatherStream, groups.shards),
          lane(groups.shard, FsdpReduceStream, groups.shards),
          own_stream(groups.replicate, "dp-replicate", groups.replicas),
          lane(groups.norm, FsdpReduceStream, different),
          own_stream(groups.tensor, "tp", job.shape.tensor_parallel),
          own_stream(groups.context, "cp", job.shape.context_parallel)};
}

std::vector<MemoryEffect> resident(double shard, const FsdpJob& job, const Device& device) {
  const bool trained = !job.shape.frozen;
  std::vector<MemoryEffect> effects{
      {Parameters, shard * (trained ? Bytes(Master) : size_of(job.shape.compute))}};
  if (trained) effects.push_back({Optimizer, Bytes(2 * shard * Master)});
  if (device.reserve > Bytes(0)) effects.push_back({Reserve, device.reserve});
  return effects;
}

}  // namespace

double replicated_parameters(const ModelSpec& model, int layers, bool head) {
  const double norm = model.norm == Norm::Layer ? 2.0 * model.hidden : model.hidden;
  const double layer =
      2 * norm + (model.bias ? 2.0 * model.hidden : 0);  // of attention's and the MLP's output
  return layers * layer + (head ? norm : 0);
}

FsdpPlan fsdp_plan(const FsdpJob& job) {
  return Planner(job).run();
}

Schedule fsdp_schedule(const FsdpJob& job, const Device& device) {
  FsdpPlan plan = fsdp_plan(job);
  Groups groups = groups_of({job.shape.tensor_parallel, job.shape.context_parallel, job.data_parallel, 1,
                             shards_of(job), job.order});
  const int ranks = groups.mesh.world_size();

  Schedule schedule;
  schedule.name = job.model.name + "-fsdp-" + std::to_string(ranks);
  schedule.streams = fsdp_streams();
  const FsdpLanes lanes = lanes_of(groups, job, schedule.streams);
  schedule.meshes = {std::move(groups.mesh)};
  schedule.families = std::move(groups.families);

  Role role;
  role.name = "rank";
  role.program = fsdp_program(plan, job.fsdp, lanes, job.gradient_accumulation);
  role.resident = resident(parameters_of(plan, job) / shards_of(job), job, device);
  schedule.roles = {std::move(role)};
  schedule.role_of.assign(static_cast<std::size_t>(ranks), RoleId(0));

  schedule.job.tokens =
      static_cast<double>(job.shape.tokens()) * job.gradient_accumulation * job.data_parallel;
  schedule.job.model_flop = model_flop(job.model, job.shape.sequence, schedule.job.tokens);
  schedule.job.hardware_flop = flop_of(plan, job.gradient_accumulation) * ranks;
  schedule.job.precision = job.shape.compute;
  schedule.works = std::move(plan.works);
  return schedule;
}

}  // namespace syncline
