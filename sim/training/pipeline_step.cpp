#include "sim/training/pipeline_step.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <stdexcept>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/training/stages.hpp"

namespace syncline {
namespace {

using enum MemoryCategory;
using pipeline::Action;
using pipeline::ActionKind;
using pipeline::Block;
using pipeline::Step;
using pipeline::StepStream;

/// Bytes of a parameter, and of each Adam moment, in the optimizer's state (fp32).
constexpr double Master = 4;

using Steps = std::vector<Step>;

void append(Steps& to, const Steps& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Groups that the step's collectives name, by position in Schedule::families.
enum Family : std::size_t { TensorFamily, DataFamily, ModelFamily, TableFamily, FamilyCount };

Step collective(Family family, StepStream stream, CollectiveKind kind, Bytes bytes, Tag tag) {
  Step step;
  step.body = Collective{kind, FamilyId(family), Algorithm::Auto, bytes};
  step.stream = stream;
  step.tag = std::move(tag);
  return step;
}

Kernel pass_over(double bytes) {
  Kernel kernel;
  kernel.kind = KernelClass::Optimizer;
  kernel.precision = Precision::Fp32;
  kernel.hbm = Bytes(bytes);
  return kernel;
}

/// The works of a step, each kept once.
class Works {
 public:
  WorkId add(std::string name, std::vector<Kernel> kernels) {
    all_.push_back({std::move(name), std::move(kernels)});
    return WorkId(all_.size() - 1);
  }
  [[nodiscard]] const std::vector<Work>& all() const { return all_; }

 private:
  std::vector<Work> all_;
};

/// A module's ops in every direction; a layer's differ from layer to layer by their tags alone.
class ModuleSteps {
 public:
  ModuleSteps(std::string name, const ModuleCost& cost, Works& works) : name_(std::move(name)) {
    const Bytes during = cost.saved + cost.transient;
    forward_ = segments(Phase::Forward, "", cost.forward, works);
    hold(forward_, cost.saved, Bytes(0));

    Steps input = segments(Phase::BackwardInput, "recompute", cost.recompute, works);
    append(input, segments(Phase::BackwardInput, "", cost.backward_input, works));
    Steps weight = segments(Phase::BackwardWeight, "weight", {{cost.backward_weight, std::nullopt}}, works);

    backward_ = input;
    append(backward_, weight);
    for (Step& step : backward_) step.tag.phase = Phase::Backward;
    hold(backward_, cost.transient, -during);
    input_ = std::move(input);
    weight_ = std::move(weight);
    const Bytes kept = input_.empty() ? during : weight_.empty() ? Bytes(0) : cost.kept_for_weight;
    hold(input_, cost.transient, kept - during);
    hold(weight_, input_.empty() ? cost.transient : Bytes(0), -kept);
  }

  [[nodiscard]] Steps steps(ActionKind kind, int layer) const {
    Steps steps = of(kind);
    for (Step& step : steps) step.tag.layer = layer;
    return steps;
  }

 private:
  [[nodiscard]] const Steps& of(ActionKind kind) const {
    switch (kind) {
      case ActionKind::Forward:
        return forward_;
      case ActionKind::Backward:
        return backward_;
      case ActionKind::BackwardInput:
        return input_;
      case ActionKind::BackwardWeight:
        break;
    }
    return weight_;
  }

  /// Kernels and collectives in turn: "layer", "layer.2"; "layer-recompute".
  Steps segments(Phase phase, std::string_view what, const std::vector<Segment>& segments,
                 Works& works) const {
    const std::string name = what.empty() ? name_ : fmt::format("{}-{}", name_, what);
    Steps steps;
    int count = 0;
    for (const Segment& segment : segments) {
      if (!segment.kernels.empty()) {
        const std::string numbered = ++count > 1 ? fmt::format("{}.{}", name, count) : name;
        Step step;
        step.body = Compute{works.add(fmt::format("{}-{}", numbered, name_of(phase)), segment.kernels)};
        step.tag = {phase, -1, -1, -1, numbered};
        steps.push_back(std::move(step));
      }
      if (!segment.then) continue;
      const LayerCollective& then = *segment.then;
      steps.push_back(collective(TensorFamily, StepStream::Tensor, then.kind, then.bytes,
                                 {phase, -1, -1, -1, then.name}));
      steps.back().awaited = then.awaited;
    }
    return steps;
  }

  /// Takes bytes with the first step and gives some back (below zero) with the last.
  static void hold(Steps& steps, Bytes taken, Bytes given_back) {
    if (steps.empty()) return;
    if (taken > Bytes(0)) steps.front().memory.push_back({Activations, taken});
    if (given_back != Bytes(0)) steps.back().memory.push_back({Activations, given_back});
  }

  std::string name_;
  Steps forward_, backward_, input_, weight_;
};

class PipelineStep {
 public:
  PipelineStep(const TrainingJob& job, const Device& device)
      : job_(job),
        device_(device),
        generator_(*pipeline::find_generator(job.pipeline.schedule)),
        modules_(job),
        stages_(cut_into_stages(stage_layers(job, device))),
        embedding_("embedding", modules_.embedding, works_),
        layer_("layer", modules_.layer, works_),
        head_("head", modules_.head, works_) {
    nothing_.body = Compute{works_.add("nothing", {})};
    nothing_.tag.phase = Phase::Other;
    nothing_.tag.name = "nothing";
    for (std::size_t stage = 0; stage < stages_.size(); ++stage)
      rank_of_.push_back(rank_of_stage(generator_.placement, job.pipeline_parallel, static_cast<int>(stage)));
    copy_of_table_ = job.model.tied_embedding && rank_of_.front() != rank_of_.back();
    parameters_.resize(static_cast<std::size_t>(job.pipeline_parallel));
    for (std::size_t stage = 0; stage < stages_.size(); ++stage)
      parameters_[static_cast<std::size_t>(rank_of_[stage])] +=
          parameters_of(stages_[stage], modules_, copy_of_table_);
  }

  Schedule run() {
    pipeline::Lowering lowering;
    lowering.name = fmt::format("{}-{}-{}", job_.model.name, job_.pipeline.schedule, job_.ranks());
    lowering.mesh = Mesh(
        "dense",
        {{"tp", job_.shape.tensor_parallel}, {"dp", job_.data_parallel}, {"pp", job_.pipeline_parallel}});
    lowering.families = families(lowering.mesh);
    lowering.transfers = job_.pipeline.transfers;
    lowering.boundary = sharded_boundary() ? whole_boundary() / job_.shape.tensor_parallel : whole_boundary();
    lowering.overlap_reduction = job_.sharding.overlap_reduction;
    lowering.steps = [this](const Block& block) { return steps(block); };
    lowering.reduction = [this](int stage) { return reduction(stage); };
    if (job_.model.tied_embedding && !copy_of_table_)
      lowering.complete_with = {{0, static_cast<int>(stages_.size()) - 1}};
    lowering.update = [this](int rank) { return updates_[static_cast<std::size_t>(rank)]; };
    for (int rank = 0; rank < job_.pipeline_parallel; ++rank) {
      updates_.push_back(update(rank));
      lowering.resident.push_back(resident(rank));
    }
    const pipeline::Request request = this->request();
    lowering.costs = request.costs;
    lowering.works = works_.all();
    Schedule schedule = lower(make_order(generator_, request), lowering).schedule;
    schedule.job = worth(schedule);
    return schedule;
  }

 private:
  // --- what it is made of ---

  [[nodiscard]] pipeline::Request request() const {
    pipeline::Request request;
    request.ranks = job_.pipeline_parallel;
    request.microbatches = job_.gradient_accumulation;
    request.chunks = job_.pipeline.chunks;
    request.group_size = job_.pipeline.group_size;
    request.memory_limit = job_.pipeline.memory_limit;
    for (const Stage& stage : stages_) request.costs.stages.push_back(times_of(stage, modules_, device_));
    return request;
  }

  [[nodiscard]] std::vector<GroupFamily> families(const Mesh& mesh) const {
    std::vector<GroupFamily> families;
    for (const auto& [name, axes] : std::array<std::pair<const char*, std::vector<std::string>>, 3>{
             {{"tp", {"tp"}}, {"dp", {"dp"}}, {"model", {"tp", "pp"}}}})
      families.push_back(GroupFamily::along(name, mesh, axes));
    if (!copy_of_table_) return families;
    std::vector<std::vector<RankId>> ends;  // the ranks that hold the same part of the table
    const int axis = mesh.find_axis("pp");
    for (int rank = 0; rank < mesh.world_size() / job_.pipeline_parallel; ++rank) {
      const RankId first(static_cast<std::size_t>(rank));
      ends.push_back({mesh.with_coordinate(first, axis, rank_of_.front()),
                      mesh.with_coordinate(first, axis, rank_of_.back())});
    }
    families.push_back(GroupFamily::listed("embedding", mesh.world_size(), std::move(ends)));
    return families;
  }

  /// Gradients are kept, and reduced, in the precision of the reduction; the optimizer has two moments in
  /// fp32, and the parameters too where they are computed with in less.
  [[nodiscard]] std::vector<MemoryEffect> resident(int rank) const {
    const double held = parameters_[static_cast<std::size_t>(rank)];
    std::vector<MemoryEffect> effects{
        {Parameters, held * size_of(job_.shape.compute)},
        {Gradients, held * reduced()},
        {MemoryCategory::Optimizer, Bytes(held * (own_master() ? 3 : 2) * Master)}};
    if (device_.reserve > Bytes(0)) effects.push_back({Reserve, device_.reserve});
    return effects;
  }

  /// The optimizer keeps parameters of its own.
  [[nodiscard]] bool own_master() const { return size_of(job_.shape.compute).si() < Master; }

  [[nodiscard]] Bytes reduced() const { return size_of(job_.sharding.fsdp.reduce_precision); }

  // --- blocks ---

  [[nodiscard]] Bytes whole_boundary() const {
    return static_cast<double>(job_.shape.tokens()) * job_.model.hidden * size_of(job_.shape.compute);
  }
  /// Each tensor-parallel rank sends a part.
  [[nodiscard]] bool sharded_boundary() const {
    return job_.shape.sequence_parallel || job_.pipeline.scatter_gather;
  }

  /// Of a fused block, the forward's before the backward's: what they communicate is not hidden by each
  /// other.
  [[nodiscard]] Steps steps(const Block& block) {
    Steps all = steps_of(block.first);
    if (!block.fused) return all;
    for (Step step : steps_of(block.second)) {
      step.of_second = true;
      all.push_back(std::move(step));
    }
    return all;
  }

  const Steps& steps_of(const Action& action) {
    const auto [found, first_time] = steps_.try_emplace({action.kind, action.stage});
    if (first_time) found->second = make_steps(action.kind, action.stage);
    return found->second;
  }

  [[nodiscard]] Steps make_steps(ActionKind kind, int index) const {
    const Stage& stage = stages_[static_cast<std::size_t>(index)];
    const bool forward = kind == ActionKind::Forward;
    Steps all = gather(kind, index);
    if (stage.embedding && forward) append(all, embedding_.steps(kind, -1));
    if (stage.head && !forward) append(all, head_.steps(kind, -1));
    for (int i = 0; i < stage.count; ++i)
      append(all, layer_.steps(kind, stage.first + (forward ? i : stage.count - 1 - i)));
    if (stage.head && forward) append(all, head_.steps(kind, -1));
    if (stage.embedding && !forward) append(all, embedding_.steps(kind, -1));
    if (all.empty()) all.push_back(nothing_);
    return all;
  }

  /// What came in parts from another stage is made whole, where the stage needs it whole.
  [[nodiscard]] Steps gather(ActionKind kind, int stage) const {
    const bool forward = kind == ActionKind::Forward;
    const int from = forward ? stage - 1 : stage + 1;
    const bool comes = from >= 0 && from < static_cast<int>(stages_.size()) &&
                       kind != ActionKind::BackwardWeight &&
                       rank_of_[static_cast<std::size_t>(from)] != rank_of_[static_cast<std::size_t>(stage)];
    if (!comes || job_.shape.tensor_parallel == 1 || job_.shape.sequence_parallel ||
        !job_.pipeline.scatter_gather)
      return {};
    return {collective(TensorFamily, StepStream::Tensor, CollectiveKind::AllGather, whole_boundary(),
                       {forward ? Phase::Forward : Phase::Backward, -1, -1, -1, "all-gather-boundary"})};
  }

  // --- after the blocks ---

  [[nodiscard]] Steps reduction(int stage) const {
    if (job_.data_parallel == 1) return {};
    const Bytes bytes =
        parameters_of(stages_[static_cast<std::size_t>(stage)], modules_, copy_of_table_) * reduced();
    return {collective(DataFamily, StepStream::Reduce, CollectiveKind::AllReduce, bytes,
                       {Phase::Backward, -1, -1, -1, "all-reduce-gradients"})};
  }

  /// The table's gradients of both ends are added; the gradient's norm over the whole model; the update by a
  /// fused Adam, which reads gradient, parameter and both moments once and writes all but the gradient, and a
  /// copy of the parameter in the precision of compute where that is less (NVIDIA apex, FusedAdam).
  [[nodiscard]] Steps update(int rank) {
    const double held = parameters_[static_cast<std::size_t>(rank)];
    Steps steps;
    if (copy_of_table_ && (rank == rank_of_.front() || rank == rank_of_.back()))
      steps.push_back(collective(TableFamily, StepStream::Reduce, CollectiveKind::AllReduce,
                                 modules_.table * reduced(),
                                 {Phase::Optimizer, -1, -1, -1, "all-reduce-embedding"}));
    const double copy = own_master() ? size_of(job_.shape.compute).si() : 0;
    const double update = reduced().si() + 6 * Master + copy;
    steps.push_back(optimizer_step("gradient-norm", held * reduced().si()));
    if (job_.model_parallel() > 1)
      steps.push_back(collective(ModelFamily, StepStream::Reduce, CollectiveKind::AllReduce,
                                 size_of(Precision::Fp32),
                                 {Phase::Optimizer, -1, -1, -1, "all-reduce-norm"}));
    steps.push_back(optimizer_step("optimizer", held * update));
    return steps;
  }

  [[nodiscard]] Step optimizer_step(const std::string& name, double bytes) {
    Step step;
    step.body = Compute{works_.add(name, {pass_over(bytes)})};
    step.tag = {Phase::Optimizer, -1, -1, -1, name};
    return step;
  }

  // --- what a step is worth ---

  [[nodiscard]] Job worth(const Schedule& schedule) const {
    Job job;
    job.tokens = static_cast<double>(job_.shape.tokens()) * job_.gradient_accumulation * job_.data_parallel;
    job.model_flop = model_flop(job_.model, job_.shape.sequence, job.tokens);
    std::vector<Flop> flop_of;  // by work
    for (const Work& work : schedule.works) {
      Flop& sum = flop_of.emplace_back();
      for (const Kernel& kernel : work.kernels) sum += kernel.flop;
    }
    for (const Role& role : schedule.roles)
      for (const Op& op : role.program)
        if (const auto* compute = std::get_if<Compute>(&op.body))
          job.hardware_flop += flop_of[compute->work.value()];
    job.hardware_flop = job.hardware_flop * (job_.shape.tensor_parallel * job_.data_parallel);
    job.precision = job_.shape.compute;
    return job;
  }

  const TrainingJob& job_;
  const Device& device_;
  const pipeline::Generator& generator_;
  const Modules modules_;
  const std::vector<Stage> stages_;
  Works works_;
  const ModuleSteps embedding_, layer_, head_;
  std::vector<int> rank_of_;        // by stage: the pipeline rank that holds it
  Step nothing_;                    // of a stage without work in a direction
  bool copy_of_table_ = false;      // a tied table stands on two ranks
  std::vector<double> parameters_;  // by pipeline rank
  std::map<std::pair<ActionKind, int>, Steps> steps_;
  std::vector<Steps> updates_;
};

}  // namespace

Schedule pipeline_step(const TrainingJob& job, const Device& device) {
  if (const auto reason = pipeline_refusal(job)) throw std::invalid_argument(*reason);
  return PipelineStep(job, device).run();
}

}  // namespace syncline
