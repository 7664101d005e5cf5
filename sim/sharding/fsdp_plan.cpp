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

Degrees degrees_of(const FsdpJob& job) {
  Degrees degrees{
      job.shape.tensor_parallel, job.shape.context_parallel, job.data_parallel, 1, shards_of(job), job.order};
  if (job.model.experts) degrees.expert = job.shape.experts.parallel;
  degrees.expert_tensor = job.shape.experts.tensor;
  return degrees;
}

/// The shard cast to the precision of compute, and the gathered buffer copied out into the weights.
std::vector<Kernel> gather_copies(double parameters, const FsdpJob& job, int shards) {
  if (parameters == 0) return {};
  const double e = size_of(job.shape.compute).si();
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

/// AdamW in PyTorch's foreach form, the default: each line is one pass over arrays in fp32, and moments in theirs.
std::vector<Kernel> adam(double shard, Precision moments) {
  struct Pass {
    int arrays, moments;
  };
  constexpr Pass Passes[] = {
      {2, 0},  // gradients times the clipping factor
      {2, 0},  // weight decay of the parameters
      {1, 2},  // first moment: read it and the gradient, write it
      {0, 2},  // second moment times beta
      {1, 2},  // plus the squared gradient
      {1, 1},  // its root, to a temporary
      {2, 0},  // divided by the bias correction
      {2, 0},  // plus epsilon
      {3, 1},  // parameters: read them, the first moment and the temporary, write them
  };
  std::vector<Kernel> kernels;
  for (const Pass& pass : Passes)
    kernels.push_back(
        moves(KernelClass::Optimizer, (pass.arrays * Master + pass.moments * size_of(moments).si()) * shard));
  return kernels;
}

/// One after another; where no collective parts them, the last segment of one and the first of the next are one.
std::vector<Segment> joined(std::initializer_list<std::vector<Segment>> parts) {
  std::vector<Segment> all;
  for (const auto& part : parts)
    for (std::size_t i = 0; i < part.size(); ++i) {
      const Segment& segment = part[i];
      if (i > 0 || all.empty() || all.back().then || all.back().by_load != segment.by_load) {
        all.push_back(segment);
        continue;
      }
      all.back().kernels.insert(all.back().kernels.end(), segment.kernels.begin(), segment.kernels.end());
      all.back().then = segment.then;
    }
  return all;
}

std::vector<Segment> alone(std::vector<Kernel> kernels, bool by_load = false) {
  if (kernels.empty()) return {};
  return {{std::move(kernels), std::nullopt, by_load}};
}

/// Whole: inputs, then weights.
std::vector<Segment> backward_of(const ModuleCost& cost) {
  return joined(
      {cost.recompute, cost.backward_input, alone(cost.expert_weight, true), alone(cost.backward_weight)});
}

class Planner {
 public:
  explicit Planner(const FsdpJob& job)
      : job_(job), embedding_(embedding_cost(job.model, job.shape)), head_(head_cost(job.model, job.shape)) {
    SYNCLINE_CHECK(job.model.layers >= 1 && job.data_parallel >= 1, "at least one layer and one rank");
    if (layers_of(job.model, LayerKind::Dense) > 0)
      dense_ = {"layer", layer_cost(job.model, job.shape, LayerKind::Dense)};
    if (job.model.experts) experts_ = {"expert-layer", layer_cost(job.model, job.shape, LayerKind::Experts)};
    if (job.model.extra_predictions > 0) prediction_ = {"prediction", prediction_cost(job.model, job.shape)};
    shards_ = shards_of(job);
    if (job.model.experts) expert_shards_ = degrees_of(job).expert_copies();
  }

  FsdpPlan run() {
    add_unit("root", root_parameters(), false);
    for (int layer = 0; layer < layers(); ++layer) {
      const ModuleCost& cost = block(layer).cost;
      add_unit("layer", cost.parameters, false);
      if (cost.expert_parameters > 0) add_unit("experts", cost.expert_parameters, true);
    }
    make_steps();
    add_forward();
    add_backward();
    if (job_.shape.frozen) return std::move(plan_);
    double shard = 0;
    for (const FsdpUnit& unit : plan_.units)
      shard += unit.gathered / size_of(job_.shape.compute) / (unit.experts ? expert_shards_ : shards_);
    plan_.replicated = replicated() / shards_ * size_of(job_.fsdp.reduce_precision);
    plan_.gradient_norm = add_work("gradient-norm", {moves(KernelClass::Optimizer, shard * Master)});
    plan_.optimizer = add_work("optimizer", adam(shard, job_.fsdp.moments));
    return std::move(plan_);
  }

 private:
  /// A kind of layer, and its steps in each direction.
  struct Block {
    std::string name{};  // of its works
    ModuleCost cost{};
    std::vector<FsdpStep> forward{}, backward{},
        gathered{};  // the last: where backward gathers the weights again
  };

  [[nodiscard]] double root_parameters() const { return embedding_.parameters + head_.parameters; }
  /// Extra predictions are layers after the last.
  [[nodiscard]] int layers() const { return job_.model.layers + job_.model.extra_predictions; }
  [[nodiscard]] const Block& block(int layer) const {
    if (layer >= job_.model.layers) return prediction_;
    return layer_kind(job_.model, layer) == LayerKind::Dense ? dense_ : experts_;
  }

  /// What all tensor-parallel ranks hold whole, and make the gradients of from their own tokens.
  [[nodiscard]] double replicated() const {
    if (!job_.shape.sequence_parallel || job_.shape.tensor_parallel == 1) return 0;
    double sum = replicated_parameters(job_.model, layers(), true);
    for (int layer = 0; layer < layers(); ++layer)
      sum += replicated_matrices(job_.model, layer_kind(job_.model, layer));
    return sum;
  }

  /// Weights stay between forward and backward: the last layer's would be gathered again at once.
  [[nodiscard]] bool kept(int layer) const {
    return !job_.fsdp.reshard_after_forward || layer == layers() - 1;
  }

  void add_unit(std::string name, double parameters, bool experts) {
    if (!experts) unit_of_layer_.push_back(plan_.units.size());
    plan_.units.push_back({std::move(name), parameters * size_of(job_.shape.compute),
                           parameters * size_of(job_.fsdp.reduce_precision), experts});
  }

  WorkId add_work(std::string name, std::vector<Kernel> kernels) {
    plan_.works.push_back({std::move(name), std::move(kernels)});
    return WorkId(plan_.works.size() - 1);
  }

  /// The works of segments, and the collectives between them: "layer-forward", "layer-forward.2"; of experts with
  /// the tag "experts".
  std::vector<FsdpStep> add_steps(const std::string& work, const std::string& tag,
                                  const std::vector<Segment>& segments) {
    std::vector<FsdpStep> steps;
    int count = 0;
    for (const Segment& segment : segments) {
      if (!segment.kernels.empty()) {
        const std::string number = ++count > 1 ? "." + std::to_string(count) : "";
        steps.push_back({add_work(work + number, segment.kernels), segment.by_load ? "experts" : tag + number,
                         segment.by_load});
      }
      if (segment.then) steps.push_back({*segment.then, {}});
    }
    if (steps.empty()) steps.push_back({add_work(work, {}), tag});
    return steps;
  }

  [[nodiscard]] std::vector<Segment> copies(const ModuleCost& cost) const {
    std::vector<Kernel> all = gather_copies(cost.parameters, job_, shards_);
    for (const Kernel& kernel : gather_copies(cost.expert_parameters, job_, expert_shards_))
      all.push_back(kernel);
    return alone(std::move(all));
  }

  void make_steps() {
    for (Block* block : {&dense_, &experts_, &prediction_}) {
      if (block->name.empty()) continue;
      const ModuleCost& cost = block->cost;
      const std::string tag = block == &prediction_ ? "prediction" : "layer";
      block->forward = add_steps(block->name + "-forward", tag, joined({copies(cost), cost.forward}));
      const double all = cost.parameters + cost.expert_parameters;
      const std::vector<Segment> backward = joined({backward_of(cost), alone(reduce_copies(all, job_))});
      block->backward = add_steps(block->name + "-backward", tag, backward);
      block->gathered =
          layers() > 1 && job_.fsdp.reshard_after_forward
              ? add_steps(block->name + "-backward-gathered", tag, joined({copies(cost), backward}))
              : block->backward;
    }
  }

  FsdpStage& add_stage(std::string name, Phase phase, int layer, std::vector<FsdpStep> steps) {
    FsdpStage stage;
    stage.name = std::move(name);
    stage.phase = phase;
    stage.layer = layer;
    stage.steps = std::move(steps);
    stage.unit = unit_of_layer_[static_cast<std::size_t>(layer + 1)];  // the root comes first
    if (layer >= 0 && block(layer).cost.expert_parameters > 0) stage.experts = stage.unit + 1;
    plan_.stages.push_back(std::move(stage));
    return plan_.stages.back();
  }

  void add_forward() {
    const auto embedding =
        add_steps("embedding-forward", "embedding",
                  joined({alone(gather_copies(root_parameters(), job_, shards_)), embedding_.forward}));
    const auto head = add_steps("head-forward", "head", joined({head_.forward}));

    FsdpStage& first = add_stage("embedding", Phase::Forward, -1, embedding);
    first.gather = true;
    first.memory = {{Activations, embedding_.saved}};
    for (int layer = 0; layer < layers(); ++layer) {
      FsdpStage& stage = add_stage("layer", Phase::Forward, layer, block(layer).forward);
      stage.gather = true;
      stage.release = !kept(layer);
      stage.memory = {{Activations, block(layer).cost.saved}};
    }
    add_stage("head", Phase::Forward, -1, head).memory = {{Activations, head_.saved}};
  }

  void add_backward() {
    const bool trained = !job_.shape.frozen;
    const auto head = add_steps("head-backward", "head", backward_of(head_));
    const auto embedding =
        add_steps("embedding-backward", "embedding",
                  joined({backward_of(embedding_), alone(reduce_copies(root_parameters(), job_))}));
    const Bytes weight = trained ? size_of(job_.shape.compute) : Bytes(0);

    FsdpStage& first = add_stage("head", Phase::Backward, -1, head);
    first.memory = given_back(head_);
    first.gradients = head_.parameters * weight;
    for (int index = layers() - 1; index >= 0; --index) {
      const Block& its = block(index);
      FsdpStage& stage =
          add_stage("layer", Phase::Backward, index, kept(index) ? its.backward : its.gathered);
      stage.gather = !kept(index);
      stage.release = true;
      stage.reduce = trained;
      stage.gradients = its.cost.parameters * weight;
      stage.expert_gradients = its.cost.expert_parameters * weight;
      stage.memory = given_back(its.cost);
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
  const ModuleCost embedding_, head_;
  Block dense_, experts_, prediction_;
  int shards_ = 1, expert_shards_ = 1;
  std::vector<std::size_t> unit_of_layer_;  // the root's, then by layer
  FsdpPlan plan_;
};

/// Parameters of a rank's shards.
double shard_of(const FsdpPlan& plan, const FsdpLanes& lanes, const FsdpJob& job) {
  double sum = 0;
  for (const FsdpUnit& unit : plan.units)
    sum += unit.gathered / size_of(job.shape.compute) /
           (unit.experts ? lanes.expert_gather : lanes.gather).ranks;
  return sum;
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
  FsdpLanes lanes{lane(groups.shard, FsdpGatherStream, groups.shards),
                  lane(groups.shard, FsdpReduceStream, groups.shards),
                  own_stream(groups.replicate, "dp-replicate", groups.replicas),
                  lane(groups.norm, FsdpReduceStream, different),
                  own_stream(groups.tensor, "tp", job.shape.tensor_parallel),
                  own_stream(groups.context, "cp", job.shape.context_parallel)};
  lanes.expert_gather = lane(groups.expert_data, FsdpGatherStream, groups.expert_copies);
  lanes.expert_reduce = lane(groups.expert_data, FsdpReduceStream, groups.expert_copies);
  lanes.expert = own_stream(groups.expert, "ep", job.shape.experts.parallel);
  lanes.expert_tensor = own_stream(groups.expert_tensor, "etp", job.shape.experts.tensor);
  return lanes;
}

std::vector<MemoryEffect> resident(double shard, const FsdpJob& job, const Device& device) {
  const bool trained = !job.shape.frozen;
  std::vector<MemoryEffect> effects{
      {Parameters, shard * (trained ? Bytes(Master) : size_of(job.shape.compute))}};
  if (trained) effects.push_back({Optimizer, 2 * shard * size_of(job.fsdp.moments)});
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
  Groups groups = groups_of(degrees_of(job));
  const ExpertTraffic traffic(job.model, job.shape, job.routing, groups, device);
  const int ranks = groups.mesh.world_size();

  Schedule schedule;
  schedule.name = job.model.name + "-fsdp-" + std::to_string(ranks);
  schedule.streams = fsdp_streams();
  const FsdpLanes lanes = lanes_of(groups, job, schedule.streams);
  schedule.meshes = groups.meshes();
  schedule.families = std::move(groups.families);

  Role role;
  role.name = "rank";
  role.program = fsdp_program(plan, job.fsdp, lanes, job.gradient_accumulation, &traffic);
  role.resident = resident(shard_of(plan, lanes, job), job, device);
  schedule.exchanges = traffic.exchanges();
  schedule.loads = traffic.loads();
  schedule.libraries = traffic.libraries();
  schedule.roles = {std::move(role)};
  schedule.role_of.assign(static_cast<std::size_t>(ranks), RoleId(0));

  schedule.job.tokens =
      static_cast<double>(job.shape.tokens()) * job.gradient_accumulation * job.data_parallel;
  schedule.job.model_flop = model_flop(job.model, job.shape.sequence, schedule.job.tokens);
  schedule.works = std::move(plan.works);
  schedule.job.hardware_flop = traffic.flop_of(schedule.roles.front().program, schedule.works) * ranks;
  schedule.job.precision = job.shape.compute;
  return schedule;
}

}  // namespace syncline
