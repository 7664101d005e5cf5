#include "sim/training/pipeline_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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
  /// Of a share of the parameters.
  struct Buckets {
    std::vector<Bucket> all;      // in order of backward
    std::vector<std::size_t> of;  // by unit
    int first = 0;                // number of the first; they are numbered through all stages
  };
  std::array<Buckets, 2> buckets{};
  [[nodiscard]] const Buckets& of(Share share) const { return buckets[static_cast<std::size_t>(share)]; }

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

/// Works on tokens before they go to experts, or when they are back: the next may belong to another microbatch.
bool leaves_for_experts(const Step& step) {
  return step.stream == StepStream::Expert;
}

class PipelineStep {
 public:
  PipelineStep(const TrainingJob& job, const Device& device)
      : job_(job),
        device_(device),
        generator_(*pipeline::find_generator(job.pipeline.schedule)),
        mirrored_(job.mirrored()),
        modules_(job),
        groups_(groups_of(job.degrees())),
        states_(job, groups_, works_),
        traffic_(job.model, job.shape, job.routing, groups_, device),
        embedding_("embedding", modules_.embedding, groups_, works_, nullptr),
        dense_layer_("layer", modules_.dense_layer, groups_, works_, nullptr),
        expert_layer_("layer", modules_.expert_layer, groups_, works_, &traffic_),
        prediction_("prediction", modules_.prediction, groups_, works_, &traffic_),
        head_("head", modules_.head, groups_, works_, nullptr) {
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
    if (groups_.expert_mesh) lowering.more_meshes = {*groups_.expert_mesh};
    lowering.exchanges = traffic_.exchanges();
    lowering.loads = traffic_.loads();
    lowering.libraries = traffic_.libraries();
    lowering.apart = interleaves();
    lowering.families = groups_.families;
    lowering.transfers = job_.pipeline.transfers;
    lowering.boundary = sharded_boundary() ? whole_boundary() / job_.shape.tensor_parallel : whole_boundary();
    lowering.overlap_reduction = overlaps_reduction();
    lowering.begin = [this](int rank) { return begin(rank); };
    lowering.steps = [this](int rank, const Block& block) { return steps(rank, block); };
    lowering.reduction = [this](int rank, int stage) { return reduction(plan(rank, stage)); };
    if (table_completes_late()) lowering.complete_with = {{0, stages() - 1}};
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
    for (const bool mirrored : {false, true}) {
      if (mirrored && !mirrored_) break;
      for (int stage = 0; stage < static_cast<int>(cut.size()); ++stage) {
        StagePlan& plan = stages_.emplace_back();
        plan.stage = cut[static_cast<std::size_t>(stage)];
        plan.rank = rank_of_stage(generator_.placement, job_.pipeline_parallel, stage);
        if (mirrored) plan.rank = job_.pipeline_parallel - 1 - plan.rank;
      }
    }
    copy_of_table_ = job_.model.tied_embedding && stages_.front().rank != stages_.back().rank;
    int buckets = 0;
    for (StagePlan& plan : stages_) {
      plan.units = units_of(plan.stage, job_.model, modules_, copy_of_table_);
      for (const Share share : Shares) {
        StagePlan::Buckets& its = plan.buckets[static_cast<std::size_t>(share)];
        its.all = buckets_of(plan.units, share, states_.bucket(share));
        its.of.resize(plan.units.size());
        for (std::size_t bucket = 0; bucket < its.all.size(); ++bucket)
          for (std::size_t unit = its.all[bucket].first; unit <= its.all[bucket].last; ++unit)
            its.of[unit] = bucket;
        its.first = buckets;
        buckets += static_cast<int>(its.all.size());
      }
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
    request.paired = interleaves() && generator_.takes_paired;
    for (int stage = 0; stage < stages(); ++stage)
      request.costs.stages.push_back(
          times_of(stages_[static_cast<std::size_t>(stage)].stage, job_.model, modules_, device_));
    return request;
  }

  void find_turns(const pipeline::Order& order) {
    const auto note = [this](int rank, const Action& action) {
      StagePlan& plan = stages_[index_of(rank, action.stage)];
      if (action.kind == ActionKind::Forward && plan.first_forward < 0)
        plan.first_forward = action.microbatch;
      if (!makes_weight_gradients(action.kind)) return;
      if (plan.first_weights < 0) plan.first_weights = action.microbatch;
      plan.last_weights = action.microbatch;
    };
    for (int rank = 0; rank < static_cast<int>(order.ranks.size()); ++rank)
      for (const Block& block : order.ranks[static_cast<std::size_t>(rank)]) {
        note(rank, block.first);
        if (block.fused) note(rank, block.second);
      }
  }

  /// Virtual stages of the model.
  [[nodiscard]] int stages() const { return static_cast<int>(stages_.size()) / (mirrored_ ? 2 : 1); }
  [[nodiscard]] std::size_t index_of(int rank, int stage) const {
    const auto first = static_cast<std::size_t>(stage);
    return !mirrored_ || stages_[first].rank == rank ? first : first + static_cast<std::size_t>(stages());
  }
  [[nodiscard]] const StagePlan& plan(int rank, int stage) const { return stages_[index_of(rank, stage)]; }

  /// A tied table on one rank is used by two of its stages.
  [[nodiscard]] bool table_completes_late() const {
    return job_.model.tied_embedding && !copy_of_table_ && stages() > 1;
  }

  [[nodiscard]] ParameterCount parameters(int rank) const {
    ParameterCount sum;
    for (const StagePlan& plan : stages_)
      if (plan.rank == rank) sum += parameters_of(plan.units);
    return sum;
  }

  [[nodiscard]] std::vector<MemoryEffect> resident(int rank) const {
    std::vector<MemoryEffect> effects = states_.resident(parameters(rank));
    Bytes workspace;  // of each kind of layer, that one is used after another
    for (const StagePlan& plan : stages_)
      if (plan.rank == rank)
        for (const Unit& unit : plan.units) workspace = std::max(workspace, modules_.of(unit.kind).workspace);
    if (workspace > Bytes(0)) effects.push_back({Gradients, workspace});
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

  /// Of a fused block the forward's before the backward's, and what they communicate is not hidden by each other;
  /// or both in turn.
  [[nodiscard]] std::span<const Step> steps(int rank, const Block& block) {
    if (!block.fused) return steps_of(rank, block.first);
    Steps second = steps_of(rank, block.second);
    for (Step& step : second) step.of_second = true;
    const Steps& first = steps_of(rank, block.first);
    if (interleaves()) {
      fused_ = in_turn(first, second);
    } else {
      fused_ = first;
      append(fused_, second);
    }
    return fused_;
  }

  [[nodiscard]] bool interleaves() const { return job_.shape.experts.overlap == ExpertOverlap::Batch; }

  /// Each goes on until its tokens leave for experts, or for home, then the other; the backward first, which begins with
  /// tokens on their way (DeepSeek-V3, arXiv 2412.19437, figure 4).
  static Steps in_turn(const Steps& forward, const Steps& backward) {
    Steps all;
    std::array<std::span<const Step>, 2> left{backward, forward};
    for (std::size_t now = 0; !left[0].empty() || !left[1].empty(); now = 1 - now) {
      const auto last = std::ranges::find_if(left[now], leaves_for_experts);
      const auto count = std::min(left[now].size(), static_cast<std::size_t>(last - left[now].begin()) + 1);
      for (const Step& step : left[now].first(count)) all.push_back(step);
      left[now] = left[now].subspan(count);
    }
    return all;
  }

  const Steps& steps_of(int rank, const Action& action) {
    const std::size_t index = index_of(rank, action.stage);
    const StagePlan& plan = stages_[index];
    Turn turn;
    if (action.kind == ActionKind::Forward) {
      turn.first = action.microbatch == plan.first_forward;
    } else if (makes_weight_gradients(action.kind)) {
      turn = {action.microbatch == plan.first_weights, action.microbatch == plan.last_weights};
    }
    const auto [found, first_time] = steps_.try_emplace({action.kind, index, turn});
    if (first_time)
      found->second =
          action.kind == ActionKind::Forward ? forward(plan, turn) : backward(action.kind, plan, turn);
    return found->second;
  }

  [[nodiscard]] Steps forward(const StagePlan& plan, Turn turn) const {
    Steps all = gather_boundary(ActionKind::Forward, plan);
    const auto gathers = [&](Share share) { return turn.first && states_.kind(share) == DataSharding::Fsdp; };
    const auto ahead = static_cast<std::size_t>(job_.sharding.fsdp.forward_prefetch);
    std::array<std::size_t, 2> gathered{};
    for (std::size_t i = 0; i < plan.units.size(); ++i) {
      Steps module = module_steps(ActionKind::Forward, plan.units[i]);
      for (const Share share : Shares) {
        std::size_t& next = gathered[static_cast<std::size_t>(share)];
        for (; gathers(share) && next < plan.units.size() && next <= i + ahead; ++next)
          if (plan.units[next].parameters.of(share) > 0) all.push_back(gather_unit(plan, share, next));
        if (plan.units[i].parameters.of(share) == 0 || module.empty()) continue;
        Step& user = share == Share::Dense ? module.front() : first_with_experts(module);
        if (gathers(share) || (turn.first && gathers_first(share)))
          user.needs = bucket_number(plan, share, i);
        if (gathers(share)) take_weights(user, plan.units[i].parameters.of(share));
      }
      append(all, module);
    }
    if (all.empty()) all.push_back(nothing_);
    return all;
  }

  /// What needs the weights of experts; where it is not the first step, which may need those of others.
  static Step& first_with_experts(Steps& module) {
    const auto found =
        std::ranges::find_if(module, [](const Step& step) { return step.tag.name == "experts"; });
    return found == module.end() ? module.back() : *found;
  }

  /// The gathered buffer is copied out into the weights, which stay to the stage's last backward.
  void take_weights(Step& user, double parameters) const {
    const Bytes bytes = states_.gathered(parameters);
    user.memory.push_back({GatheredParameters, bytes});
    user.memory.push_back({CommunicationBuffers, -bytes});
  }

  [[nodiscard]] Step gather_unit(const StagePlan& plan, Share share, std::size_t unit) const {
    const double parameters = plan.units[unit].parameters.of(share);
    Step step = states_.gathering(share, parameters, Phase::Forward);
    step.tag.layer = plan.units[unit].layer;
    step.beside = true;
    step.gives = bucket_number(plan, share, unit);
    step.memory = {{CommunicationBuffers, states_.gathered(parameters)}};
    return step;
  }

  [[nodiscard]] static int bucket_number(const StagePlan& plan, Share share, std::size_t unit) {
    const StagePlan::Buckets& buckets = plan.of(share);
    return buckets.first + static_cast<int>(buckets.of[unit]);
  }

  [[nodiscard]] Steps backward(ActionKind kind, const StagePlan& plan, Turn turn) const {
    Steps all = gather_boundary(kind, plan);
    const bool weights = makes_weight_gradients(kind);
    const bool now = weights && (states_.reduces_always() || (turn.last && reduces_inside(plan)));
    Steps after;  // reductions that nothing runs beside
    for (std::size_t i = plan.units.size(); i-- > 0;) {
      Steps module = module_steps(kind, plan.units[i]);
      if (weights && !module.empty()) {
        Bytes taken;
        for (const Share share : Shares)
          taken += states_.gradients(share, plan.units[i].parameters.of(share), turn.first);
        if (taken > Bytes(0)) module.front().memory.push_back({Gradients, taken});
      }
      append(all, module);
      for (const Share share : Shares) {
        const Bucket& bucket = plan.of(share).all[plan.of(share).of[i]];
        if (!now || !states_.reduces(share) || bucket.first != i) continue;
        Steps reduction =
            states_.reduction(share, bucket.parameters, turn.first || !states_.reduces_always());
        for (Step& step : reduction) {
          step.tag.layer = plan.units[i].layer;
          step.beside = job_.sharding.overlap_reduction;
        }
        append(job_.sharding.overlap_reduction ? all : after, reduction);
      }
    }
    append(all, after);
    if (all.empty()) all.push_back(nothing_);
    if (weights && turn.last) give_back_weights(all.back(), parameters_of(plan.units));
    return all;
  }

  void give_back_weights(Step& last, const ParameterCount& parameters) const {
    Bytes gathered;
    for (const Share share : Shares)
      if (states_.kind(share) == DataSharding::Fsdp) gathered += states_.gathered(parameters.of(share));
    if (gathered > Bytes(0)) last.memory.push_back({GatheredParameters, -gathered});
  }

  /// Not where a stage stands on two ranks: its last backward comes at other times on either.
  [[nodiscard]] bool overlaps_reduction() const { return job_.sharding.overlap_reduction && !mirrored_; }

  /// Buckets are reduced between the modules of a stage's last backward: not where the gradients of one of
  /// them are complete later, and not by torchtitan's Fsdp, which reduces when the stage is through.
  [[nodiscard]] bool reduces_inside(const StagePlan& plan) const {
    const bool late = table_completes_late() && plan.stage.embedding;
    return overlaps_reduction() && job_.sharding.kind != DataSharding::Fsdp && !late;
  }

  [[nodiscard]] Steps module_steps(ActionKind kind, const Unit& unit) const {
    return steps_of(unit).steps(kind, unit.layer);
  }
  [[nodiscard]] const ModuleSteps& steps_of(const Unit& unit) const {
    switch (unit.kind) {
      case Unit::Kind::Embedding: return embedding_;
      case Unit::Kind::DenseLayer: return dense_layer_;
      case Unit::Kind::ExpertLayer: return expert_layer_;
      case Unit::Kind::Prediction: return prediction_;
      case Unit::Kind::Head: break;
    }
    return head_;
  }
  /// The plan whose output it takes, forwards or backwards; null at either end.
  [[nodiscard]] const StagePlan* before(const StagePlan& plan, bool forward) const {
    if (forward ? plan.stage.embedding : plan.stage.head) return nullptr;
    return &plan + (forward ? -1 : 1);
  }

  /// What came in parts from another stage is made whole, where the stage needs it whole.
  [[nodiscard]] Steps gather_boundary(ActionKind kind, const StagePlan& plan) const {
    const bool forward = kind == ActionKind::Forward;
    const StagePlan* from = kind == ActionKind::BackwardWeight ? nullptr : before(plan, forward);
    const bool comes = from != nullptr && from->rank != plan.rank;
    if (!comes || !groups_.tensor || job_.shape.sequence_parallel || !job_.pipeline.scatter_gather) return {};
    return {collective(*groups_.tensor, StepStream::Tensor, CollectiveKind::AllGather, whole_boundary(),
                       forward ? Phase::Forward : Phase::Backward, "all-gather-boundary")};
  }

  // --- before and after the blocks ---

  /// The optimizer left parameters in shards, which the next step gathers in its beginning.
  [[nodiscard]] bool gathers_first(Share share) const {
    return shards_optimizer(share) && job_.sharding.overlap_gather;
  }
  [[nodiscard]] bool shards_optimizer(Share share) const {
    const DataSharding kind = states_.kind(share);
    return (kind == DataSharding::Zero1 || kind == DataSharding::Zero2) && states_.reduces(share);
  }

  [[nodiscard]] Steps begin(int rank) const {
    Steps steps;
    for (const Share share : Shares)
      if (gathers_first(share)) append(steps, gather_buckets(rank, share, Phase::Forward));
    return steps;
  }

  /// In order of their use.
  [[nodiscard]] Steps gather_buckets(int rank, Share share, Phase phase) const {
    Steps steps;
    for (int stage = 0; stage < stages(); ++stage) {
      const StagePlan& plan = this->plan(rank, stage);
      if (plan.rank != rank) continue;
      const StagePlan::Buckets& buckets = plan.of(share);
      for (std::size_t i = buckets.all.size(); i-- > 0;) {
        if (buckets.all[i].parameters == 0) continue;
        steps.push_back(states_.gathering(share, buckets.all[i].parameters, phase));
        steps.back().tag.layer = plan.units[buckets.all[i].first].layer;
        steps.back().gives = buckets.first + static_cast<int>(i);
      }
    }
    return steps;
  }

  /// What has not been reduced in the blocks.
  [[nodiscard]] Steps reduction(const StagePlan& plan) const {
    Steps all;
    if (states_.reduces_always() || reduces_inside(plan)) return all;
    for (const Share share : Shares) {
      if (!states_.reduces(share)) continue;
      for (const Bucket& bucket : plan.of(share).all) {
        Steps reduction = states_.reduction(share, bucket.parameters, true);
        for (Step& step : reduction) step.tag.layer = plan.units[bucket.first].layer;
        append(all, reduction);
      }
    }
    return all;
  }

  [[nodiscard]] Steps update(int rank) {
    if (job_.shape.frozen) return {};
    double replicated = 0;
    for (const StagePlan& plan : stages_)
      if (plan.rank == rank) replicated += replicated_on(plan);
    Steps steps = states_.replicated_reduction(replicated);
    if (copy_of_table_ && (rank == stages_.front().rank || rank == stages_.back().rank))
      steps.push_back(states_.table_reduction(modules_.table, table_ends_));
    const ParameterCount parameters = this->parameters(rank);
    append(steps, states_.update(parameters, parameters_of_layers(rank)));
    const int times = job_.sharding.gather_by_optimizer && parameters.experts > 0 ? 2 : 1;
    for (int i = 0; i < times; ++i)
      for (const Share share : Shares)
        if (shards_optimizer(share) && !gathers_first(share))
          append(steps, gather_buckets(rank, share, Phase::Optimizer));
    return steps;
  }

  [[nodiscard]] double parameters_of_layers(int rank) const {
    double sum = 0;
    for (const StagePlan& plan : stages_)
      if (plan.rank == rank)
        for (const Unit& unit : plan.units)
          if (unit.layer >= 0) sum += unit.parameters.dense + unit.parameters.experts;
    return sum;
  }

  [[nodiscard]] double replicated_on(const StagePlan& plan) const {
    double sum = 0;
    int layers = 0;
    for (const Unit& unit : plan.units) {
      if (unit.layer < 0) continue;
      ++layers;
      sum += replicated_matrices(job_.model, layer_kind(job_.model, unit.layer));
    }
    return sum + replicated_parameters(job_.model, layers, plan.stage.head);
  }

  // --- what a step is worth ---

  [[nodiscard]] Job worth(const Schedule& schedule) const {
    Job job;
    job.tokens = static_cast<double>(job_.shape.tokens()) * job_.gradient_accumulation * job_.data_parallel;
    job.model_flop = model_flop(job_.model, job_.shape.sequence, job.tokens);
    for (const Role& role : schedule.roles)
      job.hardware_flop += traffic_.flop_of(role.program, schedule.works);
    job.hardware_flop = job.hardware_flop * (job_.ranks() / job_.pipeline_parallel);
    job.precision = job_.shape.compute;
    return job;
  }

  const TrainingJob& job_;
  const Device& device_;
  const pipeline::Generator& generator_;
  const bool mirrored_;
  const Modules modules_;
  Works works_;
  Groups groups_;
  States states_;
  const ExpertTraffic traffic_;
  const ModuleSteps embedding_, dense_layer_, expert_layer_, prediction_, head_;
  std::vector<StagePlan> stages_;
  Step nothing_;                // of a stage without work in a direction
  bool copy_of_table_ = false;  // a tied table stands on two ranks,
  FamilyId table_ends_;         // ... these
  std::map<std::tuple<ActionKind, std::size_t, Turn>, Steps> steps_;
  Steps fused_;  // of the last block that was
  std::vector<Steps> updates_;
};

}  // namespace

Schedule pipeline_step(const TrainingJob& job, const Device& device) {
  if (const auto reason = pipeline_refusal(job)) throw std::invalid_argument(*reason);
  return PipelineStep(job, device).run();
}

}  // namespace syncline
