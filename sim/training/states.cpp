#include "sim/training/states.hpp"

#include <algorithm>
#include <utility>

namespace syncline {
namespace {

using enum MemoryCategory;
using pipeline::Step;
using pipeline::StepStream;

/// Bytes of a parameter, and of each Adam moment, in the optimizer's state (fp32).
constexpr double Master = 4;

}  // namespace

std::vector<Bucket> buckets_of(const std::vector<Unit>& units, double full) {
  std::vector<Bucket> buckets;
  bool open = false;
  for (std::size_t i = units.size(); i-- > 0;) {
    if (!open) buckets.push_back({i, i, 0});
    buckets.back().first = i;
    buckets.back().parameters += units[i].parameters;
    open = full == 0 || buckets.back().parameters < full;
  }
  return buckets;
}

States::States(const TrainingJob& job, const Groups& groups, Works& works)
    : job_(job),
      groups_(groups),
      works_(works),
      kind_(groups.shards > 1 ? job.sharding.kind : DataSharding::Ddp),
      always_(job.reduces_every_microbatch()) {}

bool States::reduces() const {
  return !job_.shape.frozen && (groups_.data || groups_.shard);
}

double States::bucket() const {
  constexpr double EachModule = 1;  // a parameter fills it
  return kind_ == DataSharding::Fsdp ? EachModule : job_.sharding.bucket / reduced();
}

bool States::shards_gradients() const {
  return kind_ == DataSharding::Zero2 || kind_ == DataSharding::Fsdp;
}

/// The optimizer keeps parameters of its own.
bool States::own_master() const {
  return size_of(job_.shape.compute).si() < Master;
}
Bytes States::element() const {
  return size_of(job_.shape.compute);
}
Bytes States::reduced() const {
  return size_of(job_.sharding.fsdp.reduce_precision);
}

// --- what is held ---

/// Gradients are kept in the precision of the reduction; the optimizer has two moments in fp32, and the
/// parameters too where they are computed with in less. The parameters of Fsdp are the optimizer's own.
std::vector<MemoryEffect> States::resident(double parameters) const {
  const bool trained = !job_.shape.frozen, fsdp = kind_ == DataSharding::Fsdp;
  const double shard = parameters / shards();
  const Bytes moments = trained ? Bytes(shard * 2 * Master) : Bytes(0);
  const Bytes masters = trained && !fsdp && own_master() ? Bytes(shard * Master) : Bytes(0);
  std::vector<MemoryEffect> effects{
      {Parameters,
       fsdp ? shard * std::max(element(), trained ? Bytes(Master) : Bytes(0)) : parameters * element()}};
  if (trained && !fsdp) effects.push_back({Gradients, (shards_gradients() ? shard : parameters) * reduced()});
  if (trained) effects.push_back({Optimizer, moments + masters});
  return effects;
}

Bytes States::gradients(double parameters, bool first) const {
  if (!reduces() || !shards_gradients()) return {};
  if (always_) return parameters * element();
  return first ? parameters * reduced() : Bytes(0);
}

Bytes States::gathered(double parameters) const {
  return parameters * element();
}

// --- what is sent ---

Steps States::reduction(double parameters, bool first) const {
  const Bytes whole = parameters * reduced();
  if (!reduces() || whole == Bytes(0)) return {};
  if (kind_ == DataSharding::Ddp)
    return {collective(*groups_.data, StepStream::Reduce, CollectiveKind::AllReduce, whole, Phase::Backward,
                       "all-reduce-gradients")};
  Steps steps{collective(*groups_.shard, StepStream::Reduce, CollectiveKind::ReduceScatter, whole,
                         Phase::Backward, "reduce-scatter")};
  const Bytes shard = whole / shards();
  if (shards_gradients()) {
    // Unsharded gradients accumulated before are the reduction's own input; else they are copied to one.
    std::vector<MemoryEffect>& memory = steps.back().memory;
    if (always_) memory.insert(memory.end(), {{CommunicationBuffers, whole}, {CommunicationBuffers, -whole}});
    memory.push_back({Gradients, -gradients(parameters, true)});
    if (kind_ == DataSharding::Fsdp && first)
      memory.push_back({Gradients, shard});
    else
      memory.insert(memory.end(), {{CommunicationBuffers, shard}, {CommunicationBuffers, -shard}});
  }
  if (groups_.replicate)
    steps.push_back(collective(*groups_.replicate, StepStream::Reduce, CollectiveKind::AllReduce, shard,
                               Phase::Backward, "all-reduce-shards"));
  return steps;
}

Step States::gathering(double parameters, Phase phase) const {
  return collective(*groups_.shard, StepStream::Gather, CollectiveKind::AllGather, gathered(parameters),
                    phase, "all-gather");
}

Steps States::replicated_reduction(double parameters) const {
  const bool apart = job_.shape.sequence_parallel && groups_.tensor && !job_.shape.frozen;
  if (!apart || parameters == 0) return {};
  const double held = shards_gradients() ? parameters / shards() : parameters;
  return {collective(*groups_.tensor, StepStream::Tensor, CollectiveKind::AllReduce, held * reduced(),
                     Phase::Optimizer, "all-reduce-replicated")};
}

Step States::table_reduction(double parameters, FamilyId ends) const {
  const double held = shards_gradients() ? parameters / shards() : parameters;
  return collective(ends, StepStream::Reduce, CollectiveKind::AllReduce, held * reduced(), Phase::Optimizer,
                    "all-reduce-embedding");
}

// --- the update ---

/// A fused Adam reads gradient, parameter and both moments once and writes all but the gradient, and a copy
/// of the parameter in the precision of compute where that is less (NVIDIA apex, FusedAdam).
Steps States::update(double parameters) {
  if (job_.shape.frozen) return {};
  const double shard = parameters / shards();
  const double copy = own_master() && kind_ != DataSharding::Fsdp ? element().si() : 0;
  const double update = reduced().si() + 6 * Master + copy;
  Steps steps{pass_over("gradient-norm", shard * reduced().si())};
  if (groups_.norm)
    steps.push_back(collective(*groups_.norm, StepStream::Reduce, CollectiveKind::AllReduce,
                               size_of(Precision::Fp32), Phase::Optimizer, "all-reduce-norm"));
  steps.push_back(pass_over("optimizer", shard * update));
  if (kind_ == DataSharding::Fsdp && reduces())
    steps.back().memory.push_back({Gradients, -(shard * reduced())});
  return steps;
}

Step States::pass_over(const std::string& name, double bytes) {
  Kernel kernel;
  kernel.kind = KernelClass::Optimizer;
  kernel.precision = Precision::Fp32;
  kernel.hbm = Bytes(bytes);
  Step step;
  step.body = Compute{works_.add(name, {kernel})};
  step.tag = {Phase::Optimizer, -1, -1, -1, name};
  return step;
}

}  // namespace syncline
