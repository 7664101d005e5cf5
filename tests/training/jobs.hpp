// A small GPT, an accelerator of round figures, and what their schedules send and hold.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sim/device/cluster.hpp"
#include "sim/training/training.hpp"

namespace syncline::test {

/// A GPT of 8 layers, small enough to count by hand.
inline TrainingJob gpt(int tensor, int pipeline, int data, int microbatches) {
  TrainingJob job;
  job.model.name = "tiny-gpt";
  job.model.layers = 8;
  job.model.hidden = 1024;
  job.model.heads = job.model.kv_heads = 16;
  job.model.ffn = 4096;
  job.model.vocabulary = 32000;
  job.model.tied_embedding = true;
  job.model.norm = Norm::Layer;
  job.model.activation = Activation::Gelu;
  job.model.position = Position::Learned;
  job.model.max_sequence = 1024;
  job.model.bias = true;
  job.shape.sequence = 1024;
  job.shape.compute = Precision::Fp16;
  job.shape.recompute = Recompute::Full;
  job.shape.attention = AttentionKernels::Unfused;
  job.shape.tensor_parallel = tensor;
  job.pipeline_parallel = pipeline;
  job.data_parallel = data;
  job.gradient_accumulation = microbatches;
  job.sharding.kind = DataSharding::Ddp;
  return job;
}

/// An accelerator of round figures.
inline Device device() {
  Device one;
  one.name = "round";
  one.peak = {{Precision::Fp16, FlopPerSecond(100e12)},
              {Precision::Bf16, FlopPerSecond(100e12)},
              {Precision::Fp32, FlopPerSecond(10e12)}};
  one.memory = Bytes(80e9);
  one.hbm_bandwidth = BytesPerSecond(1e12);
  return one;
}

/// So many of these on one ideal switch.
inline Cluster star(int ranks, Seconds latency) {
  TopologySpec spec;
  spec.name = "star";
  spec.accelerators = ranks;
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::IdealSwitch, {BytesPerSecond(100e9), 1.0, latency}};
  return {build_topology(spec), device(), placement_in_order(static_cast<std::size_t>(ranks))};
}

inline Bytes resident(const Role& role, MemoryCategory category) {
  Bytes sum;
  for (const MemoryEffect& effect : role.resident)
    if (effect.category == category) sum += effect.bytes;
  return sum;
}

/// Collectives of a role in families whose name begins with `family`, and of that kind where one is given.
inline std::vector<const Op*> collectives(const Schedule& schedule, std::size_t role, std::string_view family,
                                          std::optional<CollectiveKind> kind = std::nullopt) {
  std::vector<const Op*> found;
  for (const Op& op : schedule.roles[role].program)
    if (const auto* one = std::get_if<Collective>(&op.body))
      if (schedule.families[one->family.value()].name().starts_with(family) && (!kind || *kind == one->kind))
        found.push_back(&op);
  return found;
}

inline Bytes bytes_of(const std::vector<const Op*>& ops) {
  Bytes sum;
  for (const Op* op : ops) sum += std::get<Collective>(op->body).bytes;
  return sum;
}

/// What a rank of role 0 sends for the collectives between data-parallel ranks, by ring: (n − 1)/n of the
/// buffer for each half of an all-reduce. The gradients' norm is left out.
inline double sent_between_replicas(const Schedule& schedule) {
  double sum = 0;
  for (const Op* op : collectives(schedule, 0, "dp")) {
    const auto& one = std::get<Collective>(op->body);
    if (op->tag.name == "all-reduce-norm") continue;
    const double n = static_cast<double>(schedule.families[one.family.value()].members(GroupId(0)).size());
    sum += (one.kind == CollectiveKind::AllReduce ? 2 : 1) * (n - 1) / n * one.bytes.si();
  }
  return sum;
}

using Held = std::array<double, MemoryCategoryCount>;

/// Held by a rank, ops taken in the order of the host: before each op (`visit` is called with it) and at the
/// end.
template <class Visit>
Held walk(const Role& role, const Visit& visit) {
  Held held{};
  for (const MemoryEffect& effect : role.resident)
    held[static_cast<std::size_t>(effect.category)] += effect.bytes.si();
  for (const Op& op : role.program) {
    visit(op, held);
    for (const MemoryEffect& effect : op.memory)
      held[static_cast<std::size_t>(effect.category)] += effect.bytes.si();
  }
  return held;
}

/// Parameters, gradients and the optimizer's state when the update begins.
inline double states_at_update(const Role& role) {
  double states = 0;
  walk(role, [&](const Op& op, const Held& held) {
    if (op.tag.name != "optimizer") return;
    states = 0;
    for (const auto category :
         {MemoryCategory::Parameters, MemoryCategory::Gradients, MemoryCategory::Optimizer})
      states += held[static_cast<std::size_t>(category)];
  });
  return states;
}

}  // namespace syncline::test
