// A plan laid out as the program of a rank.
#include <algorithm>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/schedule/host_wait.hpp"
#include "sim/sharding/fsdp.hpp"

namespace syncline {
namespace {

using enum MemoryCategory;

class Layout {
 public:
  Layout(const FsdpPlan& plan, const FsdpOptions& options, const FsdpLanes& lanes, int microbatches,
         const ExpertTraffic* traffic)
      : plan_(plan),
        options_(options),
        lanes_(lanes),
        microbatches_(microbatches),
        traffic_(traffic),
        held_(plan.units.size()) {
    SYNCLINE_CHECK(lanes.reduce.ranks >= 1 && microbatches >= 1, "at least one rank and one microbatch");
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

  /// A unit that a stage uses.
  struct Use {
    const FsdpUnit& unit;
    std::size_t number;
    Bytes gradients;  // that the stage makes
  };
  template <class Visit>
  void for_each_use(std::size_t position, const Visit& visit) const {
    const FsdpStage& now = stage(position);
    visit(Use{plan_.units[now.unit], now.unit, now.gradients});
    if (now.experts) visit(Use{plan_.units[*now.experts], *now.experts, now.expert_gradients});
  }

  [[nodiscard]] const FsdpLane& gather_lane(const FsdpUnit& unit) const {
    return unit.experts ? lanes_.expert_gather : lanes_.gather;
  }
  [[nodiscard]] const FsdpLane& reduce_lane(const FsdpUnit& unit) const {
    return unit.experts ? lanes_.expert_reduce : lanes_.reduce;
  }
  [[nodiscard]] int shards(const FsdpUnit& unit) const { return reduce_lane(unit).ranks; }
  [[nodiscard]] bool communicates(const FsdpUnit& unit) const { return shards(unit) > 1; }
  /// Gradients of the position's unit are reduced when it ends, or added to those of other microbatches.
  [[nodiscard]] bool reduces(std::size_t position) const {
    return stage(position).reduce &&
           (options_.reduce_every_microbatch || microbatch(position) == microbatches_ - 1);
  }

  OpIndex issue(Op op) {
    ops_.push_back(std::move(op));
    return OpIndex(ops_.size() - 1);
  }

  [[nodiscard]] static Op collective(CollectiveKind kind, const FsdpLane& lane, Bytes bytes, Tag tag) {
    Op op;
    op.body = Collective{kind, lane.family, Algorithm::Auto, bytes};
    op.stream = lane.stream;
    op.tag = std::move(tag);
    return op;
  }

  [[nodiscard]] Tag tag(std::size_t position, std::string name) const {
    return {stage(position).phase, stage(position).layer, microbatch(position), -1, std::move(name)};
  }

  void issue_gather(std::size_t position) {
    if (!stage(position).gather) return;
    bool any = false;
    for_each_use(position, [&](const Use& use) { any = any || communicates(use.unit); });
    if (!any) return;
    if (stage(position).release) hold_host(position);
    const std::size_t ahead = prefetch(position) + 1;
    for_each_use(position, [&](const Use& use) {
      if (!communicates(use.unit)) return;
      Op op = collective(CollectiveKind::AllGather, gather_lane(use.unit), use.unit.gathered,
                         tag(position, use.unit.experts ? "all-gather-experts" : "all-gather"));
      if (position >= ahead) op.after = {computes_[position - ahead]};
      op.memory = {{CommunicationBuffers, use.unit.gathered}};
      gathers_[position].push_back(issue(std::move(op)));
    });
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

  /// Steps one after another; a collective that is not awaited runs beside the next.
  void issue_compute(std::size_t position) {
    const FsdpStage& now = stage(position);
    std::vector<OpIndex> after = gathers_[position];
    if (reduces(position) && reduces_.size() >= 2) append(after, reduces_[reduces_.size() - 2]);
    std::vector<OpIndex> beside;
    const std::size_t first = ops_.size();
    for (const FsdpStep& step : now.steps) {
      Op op;
      bool awaited = true;
      op.stream = StreamId(FsdpComputeStream);
      op.tag = tag(position, step.name.empty() ? now.name : step.name);
      if (const auto* between = std::get_if<LayerCollective>(&step.body)) {
        op = collective(between->kind, lanes_.between(between->group), between->bytes,
                        tag(position, between->name));
        awaited = between->awaited;
        if (between->way != TokenWay::None) place(std::get<Collective>(op.body), between->way, now.layer);
      } else {
        op.body = Compute{std::get<WorkId>(step.body)};
        if (step.by_load && traffic_ != nullptr) {
          op.load = ExpertTraffic::AnyLoad;
          traffic_->place(now.layer, op.load);
        }
      }
      const auto* collective = std::get_if<LayerCollective>(&step.body);
      if (collective != nullptr && collective->host_waits) append_host_waits(ops_, after, op.tag);
      op.after = after;
      std::sort(op.after.begin(), op.after.end());
      const OpIndex index = issue(std::move(op));
      if (!awaited) {
        beside.push_back(index);
        continue;
      }
      after = std::exchange(beside, {});
      after.push_back(index);
    }
    computes_.push_back(OpIndex(ops_.size() - 1));
    add_effects(position, ops_[first].memory, ops_.back().memory);
  }

  static void append(std::vector<OpIndex>& to, const std::vector<OpIndex>& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

  void place(Collective& exchange, TokenWay way, int layer) const {
    SYNCLINE_CHECK(traffic_ != nullptr, "tokens that go to experts have a routing");
    exchange.exchange = ExpertTraffic::AnyExchange;
    exchange.back = way == TokenWay::Back;
    traffic_->place(layer, exchange);
  }

  /// @param begin, end  of the stage's first and last op, which may be one
  void add_effects(std::size_t position, std::vector<MemoryEffect>& begin, std::vector<MemoryEffect>& end) {
    const FsdpStage& now = stage(position);
    const auto add = [&](MemoryCategory category, Bytes bytes) {
      if (bytes != Bytes(0)) (bytes > Bytes(0) ? begin : end).push_back({category, bytes});
    };
    for (const MemoryEffect& effect : now.memory) add(effect.category, effect.bytes);
    for_each_use(position, [&](const Use& use) {
      const FsdpUnit& unit = use.unit;
      const bool gathered = now.gather && !gathers_[position].empty() && communicates(unit);
      if (now.gather) add(GatheredParameters, unit.gathered);
      if (gathered) add(CommunicationBuffers, -unit.gathered);
      if (now.release) add(GatheredParameters, -unit.gathered);
      add(Gradients, use.gradients);
      held_[use.number] += use.gradients;
      if (!now.reduce) return;
      if (!reduces(position) && microbatch(position) == 0) {  // they add up here
        add(Gradients, unit.reduced);
        if (!communicates(unit)) gradients_ += unit.reduced;
      }
      if (reduces(position) && communicates(unit))
        add(CommunicationBuffers, unit.reduced);  // the reduction's input
      if (reduces(position) && !communicates(unit))
        for (const MemoryEffect& effect : shard_effects(position, unit)) add(effect.category, effect.bytes);
      add(Gradients, -held_[use.number]);
      held_[use.number] = Bytes(0);
    });
  }

  void issue_reduce(std::size_t position) {
    if (!reduces(position)) return;
    std::vector<OpIndex> issued;
    for_each_use(position, [&](const Use& use) {
      const FsdpUnit& unit = use.unit;
      if (!communicates(unit)) return;
      Op op = collective(CollectiveKind::ReduceScatter, reduce_lane(unit), unit.reduced,
                         tag(position, unit.experts ? "reduce-scatter-experts" : "reduce-scatter"));
      op.after = {computes_[position]};
      op.memory = shard_effects(position, unit);
      op.memory.push_back({CommunicationBuffers, -unit.reduced});
      if (accumulated()) op.memory.push_back({Gradients, -unit.reduced});
      issued.push_back(issue(std::move(op)));
      if (lanes_.replicate.ranks == 1 || unit.experts) return;
      Op sum = collective(CollectiveKind::AllReduce, lanes_.replicate, unit.reduced / shards(unit),
                          tag(position, "all-reduce-shards"));
      sum.after = {issued.back()};
      replicated_ = issue(std::move(sum));
    });
    if (!issued.empty()) reduces_.push_back(std::move(issued));
  }

  /// Unsharded gradients of earlier microbatches wait for the last one's.
  [[nodiscard]] bool accumulated() const { return !options_.reduce_every_microbatch && microbatches_ > 1; }

  /// The first microbatch's reduced gradients stay until the update; later ones are added to them.
  [[nodiscard]] std::vector<MemoryEffect> shard_effects(std::size_t position, const FsdpUnit& unit) {
    const Bytes shard = unit.reduced / shards(unit);
    if (microbatch(position) > 0 && options_.reduce_every_microbatch)
      return {{CommunicationBuffers, shard}, {CommunicationBuffers, -shard}};
    if (accumulated() && !communicates(unit)) return {};
    gradients_ += shard;
    return {{Gradients, shard}};
  }

  void issue_update() {
    std::vector<OpIndex> ready;
    if (!reduces_.empty()) ready = reduces_.back();
    if (replicated_) ready = {*replicated_};
    const auto then = [&](Op op) {
      op.tag = {Phase::Optimizer, -1, microbatches_ - 1, -1, op.tag.name};
      op.after = std::exchange(ready, {});
      ready = {issue(std::move(op))};
    };
    const auto compute = [&](WorkId work, std::string name) {
      Op op;
      op.body = Compute{work};
      op.stream = StreamId(FsdpComputeStream);
      op.tag.name = std::move(name);
      return op;
    };
    if (plan_.replicated > Bytes(0))
      then(collective(CollectiveKind::AllReduce, lanes_.tensor, plan_.replicated,
                      {Phase::Optimizer, -1, -1, -1, "all-reduce-replicated"}));
    if (plan_.gradient_norm) {
      then(compute(*plan_.gradient_norm, "gradient-norm"));
      if (lanes_.norm.ranks > 1)
        then(collective(CollectiveKind::AllReduce, lanes_.norm, size_of(Precision::Fp32),
                        {Phase::Optimizer, -1, -1, -1, "all-reduce-norm"}));
    }
    if (!plan_.optimizer) return;
    then(compute(*plan_.optimizer, "optimizer"));
    if (gradients_ > Bytes(0)) ops_.back().memory = {{Gradients, -gradients_}};
  }

  const FsdpPlan& plan_;
  const FsdpOptions& options_;
  const FsdpLanes lanes_;
  const int microbatches_;
  std::vector<Op> ops_;
  const ExpertTraffic* traffic_;
  std::vector<std::vector<OpIndex>> gathers_;  // by position
  std::vector<OpIndex> computes_;              // by position: the last op of the stage
  std::vector<std::vector<OpIndex>> reduces_;  // of a stage each, in order
  std::optional<OpIndex> replicated_;          // the last sum over replicas
  std::vector<std::size_t> releasing_;         // positions whose gather is given back by the same stage
  std::vector<Bytes> held_;                    // unsharded gradients of a microbatch, by unit
  Bytes gradients_;                            // sharded gradients
};

}  // namespace

std::vector<std::string> fsdp_streams() {
  return {"compute", "dp-gather", "dp-reduce"};
}

const FsdpLane& FsdpLanes::between(LayerGroup group) const {
  switch (group) {
    case LayerGroup::Tensor: return tensor;
    case LayerGroup::Context: return context;
    case LayerGroup::Expert: return expert;
    case LayerGroup::ExpertTensor: break;
  }
  return expert_tensor;
}

std::vector<Op> fsdp_program(const FsdpPlan& plan, const FsdpOptions& options, const FsdpLanes& lanes,
                             int microbatches, const ExpertTraffic* traffic) {
  return Layout(plan, options, lanes, microbatches, traffic).run();
}

std::vector<Op> fsdp_program(const FsdpPlan& plan, const FsdpOptions& options, int ranks, int microbatches) {
  FsdpLanes lanes;
  lanes.gather = {FamilyId(0), StreamId(FsdpGatherStream), ranks};
  lanes.reduce = lanes.norm = {FamilyId(0), StreamId(FsdpReduceStream), ranks};
  return fsdp_program(plan, options, lanes, microbatches);
}

}  // namespace syncline
