#include "sim/training/remedies.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/core/units.hpp"

namespace syncline {
namespace {

constexpr double LeastSaving = 0.01;  // of the peak

/// A change, where it is one.
struct Change {
  std::string (*text)(const TrainingJob&);
  bool (*make)(TrainingJob&);
};

bool set_recompute(TrainingJob& job, Recompute recompute) {
  const bool listed = job.shape.recompute == Recompute::Modules;
  const bool changes = listed ? recompute == Recompute::Full : job.shape.recompute < recompute;
  job.shape.recompute = recompute;
  const bool kept = job.shape.kept_activation_input || job.shape.kept_attention_output;
  return changes && !(kept && recompute == Recompute::Full);  // which are then of nothing that is kept
}

bool set_sharding(TrainingJob& job, DataSharding kind) {
  const bool changes = job.sharding.kind < kind && job.shape.context_parallel * job.data_parallel > 1;
  job.sharding.kind = kind;
  job.sharding.reduce_every_microbatch.reset();
  return changes;
}

constexpr Change Changes[]{
    {[](const TrainingJob&) -> std::string { return "attention: flash"; },
     [](TrainingJob& job) {
       const bool unfused = job.shape.attention == AttentionKernels::Unfused;
       job.shape.attention = AttentionKernels::Flash;
       return unfused;
     }},
    {[](const TrainingJob&) -> std::string { return "recompute: selective"; },
     [](TrainingJob& job) { return set_recompute(job, Recompute::Selective); }},
    {[](const TrainingJob&) -> std::string { return "recompute: full"; },
     [](TrainingJob& job) { return set_recompute(job, Recompute::Full); }},
    {[](const TrainingJob& job) { return fmt::format("batch.microbatch: {}", job.shape.microbatch); },
     [](TrainingJob& job) {
       if (job.shape.microbatch % 2 != 0) return false;
       job.shape.microbatch /= 2;
       job.gradient_accumulation *= 2;
       return true;
     }},
    {[](const TrainingJob&) -> std::string { return "parallel.sequence-parallel: true"; },
     [](TrainingJob& job) {
       const bool changes = !job.shape.sequence_parallel && job.shape.tensor_parallel > 1 &&
                            job.shape.sequence % job.shape.tensor_parallel == 0;
       job.shape.sequence_parallel = true;
       return changes;
     }},
    {[](const TrainingJob&) -> std::string { return "sharding.kind: zero-1"; },
     [](TrainingJob& job) { return set_sharding(job, DataSharding::Zero1); }},
    {[](const TrainingJob&) -> std::string { return "sharding.kind: fsdp"; },
     [](TrainingJob& job) { return set_sharding(job, DataSharding::Fsdp); }},
};

/// Effects of an op that are taken at its start, or given back at its end.
Bytes sum(const std::vector<MemoryEffect>& effects, bool taken) {
  Bytes all;
  for (const MemoryEffect& effect : effects)
    if ((effect.bytes > Bytes(0)) == taken) all += effect.bytes;
  return all;
}

Bytes peak_in_order(const Role& role) {
  Bytes held = sum(role.resident, true), peak = held;
  for (const Op& op : role.program) {
    held += sum(op.memory, true);
    peak = std::max(peak, held);
    held += sum(op.memory, false);
  }
  return peak;
}

}  // namespace

Bytes peak_in_order(const Schedule& schedule) {
  Bytes peak;
  for (const Role& role : schedule.roles) peak = std::max(peak, peak_in_order(role));
  return peak;
}

std::vector<Remedy> remedies(const TrainingJob& job, const Device& device) {
  const Bytes before = peak_in_order(training_schedule(job, device));
  std::vector<Remedy> found;
  for (const Change& change : Changes) {
    TrainingJob changed = job;
    if (!change.make(changed) || (changed.pipelined() && pipeline_refusal(changed))) continue;
    const Bytes peak = peak_in_order(training_schedule(changed, device));
    if (peak <= before * (1 - LeastSaving))
      found.push_back({change.text(changed), peak, peak <= device.memory});
  }
  std::ranges::stable_sort(found, {}, &Remedy::peak);
  return found;
}

std::string remedies_text(const std::vector<Remedy>& remedies, Bytes peak, Bytes capacity) {
  if (remedies.empty())
    return "No single change would hold less; use more accelerators, or a smaller model.\n";
  const bool any = std::ranges::any_of(remedies, &Remedy::fits);
  std::string text = any ? fmt::format("What would fit in {}:\n", to_text(capacity))
                         : fmt::format("Nothing alone fits in {}; most is saved by:\n", to_text(capacity));
  for (const Remedy& remedy : remedies)
    text += fmt::format("  {:<34} {:>9}, {} less{}\n", remedy.change, to_text(remedy.peak),
                        to_text(peak - remedy.peak), remedy.fits ? "" : "; does not fit");
  return text;
}

}  // namespace syncline
