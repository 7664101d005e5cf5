#include "sim/training/states.hpp"

#include <algorithm>
#include <utility>

#include "sim/model/weight_casts.hpp"

namespace syncline {
namespace {

using enum MemoryCategory;
using pipeline::Step;
using pipeline::StepStream;

/// Bytes of a parameter in the optimizer's state (fp32).
constexpr double Master = 4;

}  // namespace

std::vector<Bucket> buckets_of(const std::vector<Unit>& units, Share share, double full) {
  std::vector<Bucket> buckets;
  bool open = false;
  for (std::size_t i = units.size(); i-- > 0;) {
    if (!open) buckets.push_back({i, i, 0});
    buckets.back().first = i;
    buckets.back().parameters += units[i].parameters.of(share);
    open = full == 0 || buckets.back().parameters < full;
  }
  return buckets;
}

States::States(const TrainingJob& job, const Groups& groups, Works& works)
    : job_(job),
      groups_(groups),
      works_(works),
      spread_{spread_of(job.sharding.kind, groups, Share::Dense),
              spread_of(job.sharding.kind, groups, Share::Experts)},
      always_(job.reduces_every_microbatch()) {}

States::Spread States::spread_of(DataSharding kind, const Groups& groups, Share share) {
  const bool dense = share == Share::Dense;
  const int shards = kind == DataSharding::Ddp ? 1 : dense ? groups.shards : groups.expert_copies;
  Spread spread{shards > 1 ? kind : DataSharding::Ddp,
                static_cast<double>(shards),
                dense ? groups.data : groups.expert_data,
                {},
                {},
                dense ? "" : "-experts"};
  if (spread.kind == DataSharding::Ddp) spread.shards = 1;
  spread.shard = dense ? groups.shard : spread.shards > 1 ? groups.expert_data : std::nullopt;
  if (dense) spread.replicate = groups.replicate;
  return spread;
}

bool States::reduces(Share share) const {
  return !job_.shape.frozen && (of(share).data || of(share).shard);
}

double States::bucket(Share share) const {
  constexpr double EachModule = 1;  // a parameter fills it
  return kind(share) == DataSharding::Fsdp ? EachModule : job_.sharding.bucket / reduced();
}

bool States::shards_gradients(Share share) const {
  return kind(share) == DataSharding::Zero2 || kind(share) == DataSharding::Fsdp;
}

double States::own(ParameterCount parameters) const {
  double sum = 0;
  for (const Share share : Shares) sum += parameters.of(share) / of(share).shards;
  return sum;
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
Bytes States::moment() const {
  return size_of(job_.sharding.fsdp.moments);
}

// --- what is held ---

/// Gradients are kept in the precision of the reduction; the optimizer has two moments in theirs, and the
/// parameters in fp32 where they are computed with in less. The parameters of Fsdp are the optimizer's own.
std::vector<MemoryEffect> States::resident(ParameterCount parameters) const {
  const bool trained = !job_.shape.frozen;
  Bytes held, gradients, optimizer;
  for (const Share share : Shares) {
    const bool fsdp = kind(share) == DataSharding::Fsdp;
    const double all = parameters.of(share), shard = all / of(share).shards;
    held += fsdp ? shard * std::max(element(), trained ? Bytes(Master) : Bytes(0)) : all * element();
    if (!trained) continue;
    if (!fsdp) gradients += (shards_gradients(share) ? shard : all) * reduced();
    optimizer += 2 * shard * moment();
    if (!fsdp && own_master()) optimizer += Bytes(shard * Master);
  }
  std::vector<MemoryEffect> effects{{MemoryCategory::Parameters, held}};
  if (gradients > Bytes(0)) effects.push_back({Gradients, gradients});
  if (trained) effects.push_back({Optimizer, optimizer});
  return effects;
}

Bytes States::gradients(Share share, double parameters, bool first) const {
  if (!reduces(share) || !shards_gradients(share)) return {};
  if (always_) return parameters * element();
  return first ? parameters * reduced() : Bytes(0);
}

Bytes States::gathered(double parameters) const {
  return parameters * element();
}

// --- what is sent ---

Steps States::reduction(Share share, double parameters, bool first) const {
  const Bytes whole = parameters * reduced();
  if (!reduces(share) || whole == Bytes(0)) return {};
  const Spread& spread = of(share);
  if (spread.kind == DataSharding::Ddp)
    return {collective(*spread.data, StepStream::Reduce, CollectiveKind::AllReduce, whole, Phase::Backward,
                       "all-reduce-gradients" + spread.suffix)};
  Steps steps{collective(*spread.shard, StepStream::Reduce, CollectiveKind::ReduceScatter, whole,
                         Phase::Backward, "reduce-scatter" + spread.suffix)};
  const Bytes shard = whole / spread.shards;
  if (shards_gradients(share)) {
    // Unsharded gradients accumulated before are the reduction's own input; else they are copied to one.
    std::vector<MemoryEffect>& memory = steps.back().memory;
    if (always_) memory.insert(memory.end(), {{CommunicationBuffers, whole}, {CommunicationBuffers, -whole}});
    memory.push_back({Gradients, -gradients(share, parameters, true)});
    if (spread.kind == DataSharding::Fsdp && first)
      memory.push_back({Gradients, shard});
    else
      memory.insert(memory.end(), {{CommunicationBuffers, shard}, {CommunicationBuffers, -shard}});
  }
  if (spread.replicate)
    steps.push_back(collective(*spread.replicate, StepStream::Reduce, CollectiveKind::AllReduce, shard,
                               Phase::Backward, "all-reduce-shards"));
  return steps;
}

Step States::gathering(Share share, double parameters, Phase phase) const {
  return collective(*of(share).shard, StepStream::Gather, CollectiveKind::AllGather, gathered(parameters),
                    phase, "all-gather" + of(share).suffix);
}

Steps States::replicated_reduction(double parameters) const {
  const bool apart = job_.shape.sequence_parallel && groups_.tensor && !job_.shape.frozen;
  if (!apart || parameters == 0) return {};
  const double held = shards_gradients(Share::Dense) ? parameters / of(Share::Dense).shards : parameters;
  return {collective(*groups_.tensor, StepStream::Tensor, CollectiveKind::AllReduce, held * reduced(),
                     Phase::Optimizer, "all-reduce-replicated")};
}

Step States::table_reduction(double parameters, FamilyId ends) const {
  const double held = shards_gradients(Share::Dense) ? parameters / of(Share::Dense).shards : parameters;
  return collective(ends, StepStream::Reduce, CollectiveKind::AllReduce, held * reduced(), Phase::Optimizer,
                    "all-reduce-embedding");
}

// --- the update ---

/// A fused Adam reads gradient, parameter and both moments once and writes all but the gradient, and a copy
/// of the parameter in the precision of compute where that is less (NVIDIA apex, FusedAdam). Megatron-LM copies
/// afterwards (core_r0.14.0, distrib_optimizer.py: _copy_main_params_to_model_params).
Steps States::update(ParameterCount parameters, double of_layers) {
  if (job_.shape.frozen) return {};
  const double shard = own(parameters);
  const bool copies_after = implementation_of(job_.model, job_.shape) == Implementation::Megatron;
  double copied = 0;
  Bytes gradients;  // of Fsdp, in shards
  for (const Share share : Shares) {
    const double its = parameters.of(share) / of(share).shards;
    const bool fsdp = kind(share) == DataSharding::Fsdp;
    if (own_master() && !fsdp) copied += its * (element().si() + (copies_after ? Master : 0));
    if (fsdp && reduces(share)) gradients += its * reduced();
  }
  Steps steps;
  if (job_.sharding.gradient_passes) {  // in fact one before the step, and the others before the reduction
    const int passes = job_.data_parallel * job_.shape.context_parallel > 1 ? 4 : 2;  // 2 of them scale
    const double all = parameters.dense + parameters.experts;
    steps.push_back(pass_over("gradient-passes", passes * all * reduced().si()));
  }
  steps.push_back(pass_over("gradient-norm", shard * reduced().si()));
  if (groups_.norm)
    steps.push_back(collective(*groups_.norm, StepStream::Reduce, CollectiveKind::AllReduce,
                               size_of(Precision::Fp32), Phase::Optimizer, "all-reduce-norm"));
  if (job_.sharding.gradient_passes) steps.push_back(pass_over("gradient-clipping", 2 * shard * Master));
  steps.push_back(pass_over("optimizer", shard * (reduced().si() + 2 * Master + 4 * moment().si()) + copied));
  if (gradients > Bytes(0)) steps.back().memory.push_back({Gradients, -gradients});
  // In fact before the first microbatch's products, unless the optimizer itself writes them.
  if (const double bytes = weight_cast_bytes(job_.model, job_.shape); bytes > 0)
    steps.push_back(pass_over("weight-casts", bytes * of_layers));
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
