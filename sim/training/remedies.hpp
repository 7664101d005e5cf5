// What a training run holds at most, and which change of it would hold less.
#pragma once

#include <string>
#include <vector>

#include "sim/training/training.hpp"

namespace syncline {

/// Most that a rank holds when every op ends before its host's next begins: what a run shows, but for
/// communication that runs ahead of compute or behind it.
/// @returns  of the rank that holds most; the device's reserve included, as it stands in the schedule
[[nodiscard]] Bytes peak_in_order(const Schedule& schedule);

/// One change of a job.
struct Remedy {
  std::string change;  // "attention: flash", as it stands in a scenario
  Bytes peak;          // with it
  bool fits = false;   // within the device's memory
};

/// Changes that lower the peak by a hundredth or more, the largest first: flash attention, recomputation,
/// half the microbatch, sharding, sequence parallelism; each for itself.
[[nodiscard]] std::vector<Remedy> remedies(const TrainingJob& job, const Device& device);

/// For people: what would fit, and what each change saves of `peak`; a line each.
[[nodiscard]] std::string remedies_text(const std::vector<Remedy>& remedies, Bytes peak, Bytes capacity);

}  // namespace syncline
