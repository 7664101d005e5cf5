#include "sim/training/pipeline_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/training/states.hpp"

namespace syncline {
namespace {

using enum MemoryCategory;
using pipeline::Action;
using pipeline::ActionKind;
using pipeline::Block;
using pipeline::Step;
using pipeline::StepStream;

/// A virtual stage with all that is asked of it block after block.
struct StagePlan {
  Stage stage;
  int rank = 0;  // of the pipeline, that holds it
  std::vector<Unit> units;
  std::vector<Bucket> buckets;                // in order of backward
  std::vector<std::size_t> bucket_of;         // by unit
  int first_bucket = 0;                       // number of the first; they are numbered through all stages
  int first_forward = -1;                     // microbatch
  int first_weights = -1, last_weights = -1;  // microbatches whose weight gradients are the first and last
};

/// Which of a stage's actions of its kind it is.
struct Turn {
  bool first = false, last = false;
  friend auto operator<=>(const Turn&, const Turn&) = default;
};

bool makes_weight_gradients(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardWeight;
}

Groups groups_of(const TrainingJob& job) {
  return groups_of(Degrees{job.shape.tensor_parallel, job.shape.context_parallel, job.data_parallel,
                           job.pipeline_parallel, job.shards(), job.order});
}

class PipelineStep {
 public:
  PipelineStep(const TrainingJob& job, const Device& device)
      : job_(job),
        device_(device),
        generator_(*pipeline::find_generator(job.pipeline.schedule)),
        modules_(job),
        groups_(groups_of(job)),
        states_(job, groups_, works_),
        embedding_("embedding", modules_.embedding, groups_, works_),
        layer_("layer", modules_.layer, groups_, works_),
        head_("head", modules_.head, groups_, works_) {
    nothing_.body = Compute{works_.add("nothing", {})};
    nothing_.tag.phase = Phase::Other;
    nothing_.tag.name = "nothing";
    plan_stages();
    if (copy_of_table_) add_table_family();
  }

  Schedule run() {
    pipeline::Lowering lowering;
    lowering.name = fmt::format("{}-{}-{}", job_.model.name, job_.pipeline.schedule, job_.ranks());
    lowering.mesh = groups_.mesh;
    lowering.families = groups_.families;
    lowering.transfers = job_.pipeline.transfers;
    lowering.boundary = sharded_boundary() ? whole_boundary() / job_.shape.tensor_parallel : whole_boundary();
    lowering.overlap_reduction = job_.sharding.overlap_reduction;
    lowering.begin = [this](int rank) { return begin(rank); };
    lowering.steps = [this](const Block& block) { return steps(block); };
    lowering.reduction = [this](int stage) { return reduction(plan(stage)); };
    if (table_completes_late()) lowering.complete_with = {{0, static_cast<int>(stages_.size()) - 1}};
    lowering.update = [this](int rank) { return updates_[static_cast<std::size_t>(rank)]; };
    for (int rank = 0; rank < job_.pipeline_parallel; ++rank) {
      updates_.push_back(update(rank));
      lowering.resident.push_back(resident(rank));
    }
    const pipeline::Request request = this->request();
    const pipeline::Order order = make_order(generator_, request);
    find_turns(order);
    lowering.costs = request.costs;
    lowering.works = works_.all();
    Schedule schedule = lower(order, lowering).schedule;
    schedule.job = worth(schedule);
    return schedule;
  }

 private:
  // --- what it is made of ---

  void plan_stages() {
    const std::vector<Stage> cut = cut_into_stages(stage_layers(job_, device_));
    for (const Stage& stage : cut) {
      StagePlan& plan = stages_.emplace_back();
      plan.stage = stage;
      plan.rank =
          rank_of_stage(generator_.placement, job_.pipeline_parallel, static_cast<int>(stages_.size()) - 1);
    }
    copy_of_table_ = job_.model.tied_embedding && stages_.front().rank != stages_.back().rank;
    int buckets = 0;
    for (StagePlan& plan : stages_) {
      plan.units = units_of(plan.stage, modules_, copy_of_table_);
      plan.buckets = buckets_of(plan.units, states_.bucket());
      plan.bucket_of.resize(plan.units.size());
      for (std::size_t bucket = 0; bucket < plan.buckets.size(); ++bucket)
        for (std::size_t unit = plan.buckets[bucket].first; unit <= plan.buckets[bucket].last; ++unit)
          plan.bucket_of[unit] = bucket;
      plan.first_bucket = buckets;
      buckets += static_cast<int>(plan.buckets.size());
    }
  }

  /// The ranks that hold the same part of a tied table.
  void add_table_family() {
    const Mesh& mesh = groups_.mesh;
    const int axis = mesh.find_axis("pp");
    std::vector<std::vector<RankId>> ends;
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      const RankId first(static_cast<std::size_t>(rank));
      if (mesh.coordinate(first, axis) != 0) continue;
      ends.push_back({mesh.with_coordinate(first, axis, stages_.front().rank),
                      mesh.with_coordinate(first, axis, stages_.back().rank)});
    }
    table_ends_ = FamilyId(groups_.families.size());
    groups_.families.push_back(GroupFamily::listed("embedding", mesh.world_size(), std::move(ends)));
  }

  [[nodiscard]] pipeline::Request request() const {
    pipeline::Request request;
    request.ranks = job_.pipeline_parallel;
    request.microbatches = job_.gradient_accumulation;
    request.chunks = job_.pipeline.chunks;
    request.group_size = job_.pipeline.group_size;
    request.memory_limit = job_.pipeline.memory_limit;
    for (const StagePlan& plan : stages_)
      request.costs.stages.push_back(times_of(plan.stage, modules_, device_));
    return request;
  }

  void find_turns(const pipeline::Order& order) {
    const auto note = [this](const Action& action) {
      StagePlan& plan = stages_[static_cast<std::size_t>(action.stage)];
      if (action.kind == ActionKind::Forward && plan.first_forward < 0)
        plan.first_forward = action.microbatch;
      if (!makes_weight_gradients(action.kind)) return;
      if (plan.first_weights < 0) plan.first_weights = action.microbatch;
      plan.last_weights = action.microbatch;
    };
    for (const pipeline::RankOrder& rank : order.ranks)
      for (const Block& block : rank) {
        note(block.first);
        if (block.fused) note(block.second);
      }
  }

  [[nodiscard]] const StagePlan& plan(int stage) const { return stages_[static_cast<std::size_t>(stage)]; }

  /// A tied table on one rank is used by two of its stages.
  [[nodiscard]] bool table_completes_late() const {
    return job_.model.tied_embedding && !copy_of_table_ && stages_.size() > 1;
  }

  [[nodiscard]] double parameters(int rank) const {
    double sum = 0;
    for (const StagePlan& plan : stages_)
      if (plan.rank == rank) sum += parameters_of(plan.units);
    return sum;
  }

  [[nodiscard]] std::vector<MemoryEffect> resident(int rank) const {
    std::vector<MemoryEffect> effects = states_.resident(parameters(rank));
    const bool layers = std::ranges::any_of(
        stages_, [&](const StagePlan& plan) { return plan.rank == rank && plan.stage.count > 0; });
    if (layers && modules_.layer.workspace > Bytes(0))
      effects.push_back({Gradients, modules_.layer.workspace});
    if (device_.reserve > Bytes(0)) effects.push_back({Reserve, device_.reserve});
    return effects;
  }

  // --- blocks ---

  [[nodiscard]] Bytes whole_boundary() const {
    return static_cast<double>(job_.shape.tokens()) / job_.shape.context_parallel * job_.model.hidden *
           size_of(job_.shape.compute);
  }
  /// Each tensor-parallel rank sends a part.
  [[nodiscard]] bool sharded_boundary() const {
    return job_.shape.sequence_parallel || job_.pipeline.scatter_gather;
  }

  /// Of a fused block, the forward's before the backward's: what they communicate is not hidden by each
  /// other.
  [[nodiscard]] std::span<const Step> steps(const Block& block) {
    if (!block.fused) return steps_of(block.first);
    fused_ = steps_of(block.first);
    for (Step step : steps_of(block.second)) {
      step.of_second = true;
      fused_.push_back(std::move(step));
    }
    return fused_;
  }

  const Steps& steps_of(const Action& action) {
    const StagePlan& plan = this->plan(action.stage);
    Turn turn;
    if (action.kind == ActionKind::Forward) {
      turn.first = action.microbatch == plan.first_forward;
    } else if (makes_weight_gradients(action.kind)) {
      turn = {action.microbatch == plan.first_weights, action.microbatch == plan.last_weights};
    }
    const auto [found, first_time] = steps_.try_emplace({action.kind, action.stage, turn});
    if (first_time)
      found->second =
          action.kind == ActionKind::Forward ? forward(plan, turn) : backward(action.kind, plan, turn);
    return found->second;
  }

  [[nodiscard]] Steps forward(const StagePlan& plan, Turn turn) const {
    Steps all = gather_boundary(ActionKind::Forward, plan);
    const bool gathers = turn.first && states_.kind() == DataSharding::Fsdp;
    const bool awaits = gathers || (turn.first && gathers_first());
    const std::size_t ahead = gathers ? static_cast<std::size_t>(job_.sharding.fsdp.forward_prefetch) : 0;
    std::size_t gathered = 0;
    for (std::size_t i = 0; i < plan.units.size(); ++i) {
      for (; gathers && gathered < plan.units.size() && gathered <= i + ahead; ++gathered)
        if (plan.units[gathered].parameters > 0) all.push_back(gather_unit(plan, gathered));
      Steps module = module_steps(ActionKind::Forward, plan.units[i]);
      if (plan.units[i].parameters > 0 && !module.empty()) {
        if (awaits) module.front().needs = bucket_number(plan, i);
        if (gathers) take_weights(module, plan.units[i]);
      }
      append(all, module);
    }
    if (all.empty()) all.push_back(nothing_);
    return all;
  }

  /// The gathered buffer is copied out into the weights, which stay to the stage's last backward.
  void take_weights(Steps& module, const Unit& unit) const {
    const Bytes bytes = states_.gathered(unit.parameters);
    module.front().memory.push_back({GatheredParameters, bytes});
    module.front().memory.push_back({CommunicationBuffers, -bytes});
  }

  [[nodiscard]] Step gather_unit(const StagePlan& plan, std::size_t unit) const {
    Step step = states_.gathering(plan.units[unit].parameters, Phase::Forward);
    step.tag.layer = plan.units[unit].layer;
    step.beside = true;
    step.gives = bucket_number(plan, unit);
    step.memory = {{CommunicationBuffers, states_.gathered(plan.units[unit].parameters)}};
    return step;
  }

  [[nodiscard]] int bucket_number(const StagePlan& plan, std::size_t unit) const {
    return plan.first_bucket + static_cast<int>(plan.bucket_of[unit]);
  }

  [[nodiscard]] Steps backward(ActionKind kind, const StagePlan& plan, Turn turn) const {
    Steps all = gather_boundary(kind, plan);
    const bool weights = makes_weight_gradients(kind);
    const bool now =
        weights && states_.reduces() && (states_.reduces_always() || (turn.last && reduces_inside(plan)));
    Steps after;  // reductions that nothing runs beside
    for (std::size_t i = plan.units.size(); i-- > 0;) {
      Steps module = module_steps(kind, plan.units[i]);
      if (weights && !module.empty()) {
        const Bytes taken = states_.gradients(plan.units[i].parameters, turn.first);
        if (taken > Bytes(0)) module.front().memory.push_back({Gradients, taken});
      }
      append(all, module);
      const Bucket& bucket = plan.buckets[plan.bucket_of[i]];
      if (!now || bucket.first != i) continue;
      Steps reduction = states_.reduction(bucket.parameters, turn.first || !states_.reduces_always());
      for (Step& step : reduction) {
        step.tag.layer = plan.units[i].layer;
        step.beside = job_.sharding.overlap_reduction;
      }
      append(job_.sharding.overlap_reduction ? all : after, reduction);
    }
    append(all, after);
    if (all.empty()) all.push_back(nothing_);
    if (weights && turn.last && states_.kind() == DataSharding::Fsdp)
      all.back().memory.push_back({GatheredParameters, -states_.gathered(parameters_of(plan.units))});
    return all;
  }

  /// Buckets are reduced between the modules of a stage's last backward: not where the gradients of one of
  /// them are complete later, and not by torchtitan's Fsdp, which reduces when the stage is through.
  [[nodiscard]] bool reduces_inside(const StagePlan& plan) const {
    const bool late = table_completes_late() && plan.stage.embedding;
    return job_.sharding.overlap_reduction && states_.kind() != DataSharding::Fsdp && !late;
  }

  [[nodiscard]] Steps module_steps(ActionKind kind, const Unit& unit) const {
    const ModuleSteps& module = unit.kind == Unit::Kind::Embedding ? embedding_
                                : unit.kind == Unit::Kind::Head    ? head_
                                                                   : layer_;
    return module.steps(kind, unit.layer);
  }

  /// What came in parts from another stage is made whole, where the stage needs it whole.
  [[nodiscard]] Steps gather_boundary(ActionKind kind, const StagePlan& plan) const {
    const bool forward = kind == ActionKind::Forward;
    const std::ptrdiff_t from = &plan - stages_.data() + (forward ? -1 : 1);
    const bool comes = from >= 0 && from < static_cast<std::ptrdiff_t>(stages_.size()) &&
                       kind != ActionKind::BackwardWeight &&
                       stages_[static_cast<std::size_t>(from)].rank != plan.rank;
    if (!comes || !groups_.tensor || job_.shape.sequence_parallel || !job_.pipeline.scatter_gather) return {};
    return {collective(*groups_.tensor, StepStream::Tensor, CollectiveKind::AllGather, whole_boundary(),
                       forward ? Phase::Forward : Phase::Backward, "all-gather-boundary")};
  }

  // --- before and after the blocks ---

  /// The optimizer left parameters in shards, which the next step gathers in its beginning.
  [[nodiscard]] bool gathers_first() const { return shards_optimizer() && job_.sharding.overlap_gather; }
  [[nodiscard]] bool shards_optimizer() const {
    return (states_.kind() == DataSharding::Zero1 || states_.kind() == DataSharding::Zero2) &&
           states_.reduces();
  }

  [[nodiscard]] Steps begin(int rank) const {
    return gathers_first() ? gather_buckets(rank, Phase::Forward) : Steps{};
  }

  /// In order of their use.
  [[nodiscard]] Steps gather_buckets(int rank, Phase phase) const {
    Steps steps;
    for (const StagePlan& plan : stages_) {
      if (plan.rank != rank) continue;
      for (std::size_t i = plan.buckets.size(); i-- > 0;) {
        if (plan.buckets[i].parameters == 0) continue;
        steps.push_back(states_.gathering(plan.buckets[i].parameters, phase));
        steps.back().tag.layer = plan.units[plan.buckets[i].first].layer;
        steps.back().gives = plan.first_bucket + static_cast<int>(i);
      }
    }
    return steps;
  }

  /// What has not been reduced in the blocks.
  [[nodiscard]] Steps reduction(const StagePlan& plan) const {
    if (!states_.reduces() || states_.reduces_always() || reduces_inside(plan)) return {};
    Steps all;
    for (const Bucket& bucket : plan.buckets) {
      Steps reduction = states_.reduction(bucket.parameters, true);
      for (Step& step : reduction) step.tag.layer = plan.units[bucket.first].layer;
      append(all, reduction);
    }
    return all;
  }

  [[nodiscard]] Steps update(int rank) {
    if (job_.shape.frozen) return {};
    double replicated = 0;
    for (const StagePlan& plan : stages_)
      if (plan.rank == rank)
        replicated += replicated_parameters(job_.model, plan.stage.count, plan.stage.head);
    Steps steps = states_.replicated_reduction(replicated);
    if (copy_of_table_ && (rank == stages_.front().rank || rank == stages_.back().rank))
      steps.push_back(states_.table_reduction(modules_.table, table_ends_));
    append(steps, states_.update(parameters(rank)));
    if (shards_optimizer() && !gathers_first()) append(steps, gather_buckets(rank, Phase::Optimizer));
    return steps;
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
    job.hardware_flop = job.hardware_flop * (job_.ranks() / job_.pipeline_parallel);
    job.precision = job_.shape.compute;
    return job;
  }

  const TrainingJob& job_;
  const Device& device_;
  const pipeline::Generator& generator_;
  const Modules modules_;
  Works works_;
  Groups groups_;
  States states_;
  const ModuleSteps embedding_, layer_, head_;
  std::vector<StagePlan> stages_;
  Step nothing_;                // of a stage without work in a direction
  bool copy_of_table_ = false;  // a tied table stands on two ranks,
  FamilyId table_ends_;         // ... these
  std::map<std::tuple<ActionKind, int, Turn>, Steps> steps_;
  Steps fused_;  // of the last block that was
  std::vector<Steps> updates_;
};

}  // namespace

Schedule pipeline_step(const TrainingJob& job, const Device& device) {
  if (const auto reason = pipeline_refusal(job)) throw std::invalid_argument(*reason);
  return PipelineStep(job, device).run();
}

}  // namespace syncline
