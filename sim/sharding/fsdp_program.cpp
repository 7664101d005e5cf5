// A plan laid out as the program of a rank.
#include <algorithm>

#include "sim/core/error.hpp"
#include "sim/sharding/fsdp.hpp"

namespace syncline {
namespace {

using enum MemoryCategory;

class Layout {
 public:
  Layout(const FsdpPlan& plan, const FsdpOptions& options, int ranks, int microbatches)
      : plan_(plan), options_(options), ranks_(ranks), microbatches_(microbatches), held_(plan.units.size()) {
    SYNCLINE_CHECK(ranks >= 1 && microbatches >= 1, "at least one rank and one microbatch");
    SYNCLINE_CHECK(
        options.forward_prefetch >= 0 && options.backward_prefetch >= 0 && options.limit_all_gathers >= 0,
        "prefetch and limit are not negative");
  }

  std::vector<Op> run() {
    const std::size_t count = plan_.stages.size() * static_cast<std::size_t>(microbatches_);
    gathers_.resize(count);
    std::size_t next_gather = 0;
    for (std::size_t position = 0; position < count; ++position) {
      while (next_gather < count && next_gather <= position + prefetch(next_gather))
        issue_gather(next_gather++);
      issue_compute(position);
      issue_reduce(position);
    }
    issue_update();
    return std::move(ops_);
  }

 private:
  // Positions count the stages of all microbatches, one after another.
  [[nodiscard]] const FsdpStage& stage(std::size_t position) const {
    return plan_.stages[position % plan_.stages.size()];
  }
  [[nodiscard]] int microbatch(std::size_t position) const {
    return static_cast<int>(position / plan_.stages.size());
  }
  [[nodiscard]] std::size_t prefetch(std::size_t position) const {
    const bool forward = stage(position).phase == Phase::Forward;
    const int asked = forward ? options_.forward_prefetch : options_.backward_prefetch;
    const int limit = options_.limit_all_gathers;
    return static_cast<std::size_t>(limit > 0 ? std::min(asked, limit - 1) : asked);
  }

  OpIndex issue(Op op) {
    ops_.push_back(std::move(op));
    return OpIndex(ops_.size() - 1);
  }

  [[nodiscard]] Op collective(CollectiveKind kind, std::size_t stream, Bytes bytes, Tag tag) const {
    Op op;
    op.body = Collective{kind, FamilyId(0), Algorithm::Auto, bytes};
    op.stream = StreamId(stream);
    op.tag = std::move(tag);
    return op;
  }

  [[nodiscard]] Tag tag(std::size_t position, std::string name) const {
    return {stage(position).phase, stage(position).layer, microbatch(position), -1, std::move(name)};
  }

  void issue_gather(std::size_t position) {
    if (ranks_ == 1 || !stage(position).gather) return;
    if (stage(position).release) hold_host(position);
    const FsdpUnit& unit = plan_.units[stage(position).unit];
    Op op =
        collective(CollectiveKind::AllGather, FsdpGatherStream, unit.gathered, tag(position, "all-gather"));
    const std::size_t ahead = prefetch(position) + 1;
    if (position >= ahead) op.after = {computes_[position - ahead]};
    op.memory = {{CommunicationBuffers, unit.gathered}};
    gathers_[position] = issue(std::move(op));
  }

  /// The rate limit: before the gather, the host waits for the stage that gives back the weights N gathers
  /// earlier.
  void hold_host(std::size_t position) {
    const auto limit = static_cast<std::size_t>(options_.limit_all_gathers);
    releasing_.push_back(position);
    if (limit == 0 || releasing_.size() <= limit) return;
    Op op;
    op.body = HostWait{computes_[releasing_[releasing_.size() - 1 - limit]]};
    op.tag = tag(position, "limit-all-gathers");
    issue(std::move(op));
  }

  void issue_compute(std::size_t position) {
    const FsdpStage& now = stage(position);
    const FsdpUnit& unit = plan_.units[now.unit];
    Op op;
    op.body = Compute{now.work};
    op.stream = StreamId(FsdpComputeStream);
    op.tag = tag(position, now.name);
    if (gathers_[position]) op.after.push_back(*gathers_[position]);
    if (now.reduce && reduces_.size() >= 2) op.after.push_back(reduces_[reduces_.size() - 2]);
    std::sort(op.after.begin(), op.after.end());

    op.memory = now.memory;
    if (now.gather) op.memory.push_back({GatheredParameters, unit.gathered});
    if (gathers_[position]) op.memory.push_back({CommunicationBuffers, -unit.gathered});
    if (now.release) op.memory.push_back({GatheredParameters, -unit.gathered});
    if (now.gradients > Bytes(0)) op.memory.push_back({Gradients, now.gradients});
    held_[now.unit] += now.gradients;
    if (now.reduce) {
      if (ranks_ > 1)
        op.memory.push_back({CommunicationBuffers, unit.reduced});  // the reduction's input
      else
        append(op.memory, shard_effects(position));
      op.memory.push_back({Gradients, -held_[now.unit]});
      held_[now.unit] = Bytes(0);
    }
    computes_.push_back(issue(std::move(op)));
  }

  void issue_reduce(std::size_t position) {
    if (ranks_ == 1 || !stage(position).reduce) return;
    const FsdpUnit& unit = plan_.units[stage(position).unit];
    Op op = collective(CollectiveKind::ReduceScatter, FsdpReduceStream, unit.reduced,
                       tag(position, "reduce-scatter"));
    op.after = {computes_[position]};
    op.memory = shard_effects(position);
    op.memory.push_back({CommunicationBuffers, -unit.reduced});
    reduces_.push_back(issue(std::move(op)));
  }

  /// The first microbatch's reduced gradients stay until the update; later ones are added to them.
  [[nodiscard]] std::vector<MemoryEffect> shard_effects(std::size_t position) {
    const Bytes shard = plan_.units[stage(position).unit].reduced / ranks_;
    if (microbatch(position) > 0) return {{CommunicationBuffers, shard}, {CommunicationBuffers, -shard}};
    gradients_ += shard;
    return {{Gradients, shard}};
  }

  void issue_update() {
    const int last = microbatches_ - 1;
    std::vector<OpIndex> ready;
    if (!reduces_.empty()) ready.push_back(reduces_.back());
    if (plan_.gradient_norm) {
      Op norm;
      norm.body = Compute{*plan_.gradient_norm};
      norm.stream = StreamId(FsdpComputeStream);
      norm.tag = {Phase::Optimizer, -1, last, -1, "gradient-norm"};
      norm.after = ready;
      ready = {issue(std::move(norm))};
      if (ranks_ > 1) {
        Op sum = collective(CollectiveKind::AllReduce, FsdpReduceStream, size_of(Precision::Fp32),
                            {Phase::Optimizer, -1, last, -1, "all-reduce-norm"});
        sum.after = ready;
        ready = {issue(std::move(sum))};
      }
    }
    if (!plan_.optimizer) return;
    Op update;
    update.body = Compute{*plan_.optimizer};
    update.stream = StreamId(FsdpComputeStream);
    update.tag = {Phase::Optimizer, -1, last, -1, "optimizer"};
    update.after = ready;
    if (gradients_ > Bytes(0)) update.memory = {{Gradients, -gradients_}};
    issue(std::move(update));
  }

  static void append(std::vector<MemoryEffect>& to, const std::vector<MemoryEffect>& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

  const FsdpPlan& plan_;
  const FsdpOptions& options_;
  const int ranks_;
  const int microbatches_;
  std::vector<Op> ops_;
  std::vector<std::optional<OpIndex>> gathers_;  // by position
  std::vector<OpIndex> computes_;                // by position
  std::vector<OpIndex> reduces_;                 // in order
  std::vector<std::size_t> releasing_;           // positions whose gather is given back by the same stage
  std::vector<Bytes> held_;                      // unsharded gradients, by unit
  Bytes gradients_;                              // sharded gradients
};

}  // namespace

std::vector<std::string> fsdp_streams() {
  return {"compute", "dp-gather", "dp-reduce"};
}

std::vector<Op> fsdp_program(const FsdpPlan& plan, const FsdpOptions& options, int ranks, int microbatches) {
  return Layout(plan, options, ranks, microbatches).run();
}

}  // namespace syncline
