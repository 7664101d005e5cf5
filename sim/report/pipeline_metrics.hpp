// Where the time of a pipeline goes: the bubble, split by phase and by what is waited for.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/timeline/timeline.hpp"

namespace syncline {

/// Warm-up: before a rank's first backward starts. Cool-down: after that, when its last forward has ended.
enum class PipelinePhase : std::uint8_t { WarmUp, Steady, CoolDown };
constexpr std::size_t PipelinePhaseCount = 3;

/// Time in which a rank does nothing of the pipeline, by what the next block waited for.
struct Idle {
  Seconds neighbour;  // another rank's compute: what the block needs is not made yet, or is not taken off
                      // this rank's hands (blocking sends)
  Seconds transfer;   // data on its way
  Seconds other;      // collectives of its own (tensor parallelism), the host
  [[nodiscard]] Seconds total() const { return neighbour + transfer + other; }
};

struct PipelineRank {
  Seconds first_start, last_end;  // of forward and backward compute
  Seconds busy;           // compute, and collectives that it waits for within a block (tensor parallelism)
  Seconds internal_idle;  // last end − first start − busy
  std::array<Idle, PipelinePhaseCount> idle;  // over the whole makespan, ends included
  int peak_activations = 0;  // most microbatches held at once, of all chunks together: from the start of
                             // their forward to the end of their whole backward or W
};

/// Of forward and backward compute alone: gradient reductions and the optimizer after it are not looked at.
struct PipelineMetrics {
  std::size_t stages = 0;  // ranks along the pipeline
  int chunks = 1;          // virtual stages of the rank that has most
  Seconds makespan;        // first start to last end, all ranks
  Seconds
      max_rank_span;  // largest last end − first start of a rank: the time that the zero-bubble papers use
  Seconds mean_busy;  // of a rank: m · v · w where stages are equal; the ideal time
  double bubble_of_total = 0;                 // 1 − mean busy / makespan
  double bubble_of_ideal = 0;                 // (makespan − mean busy) / mean busy
  double bubble_of_span = 0;                  // 1 − mean busy / max_rank_span: the zero-bubble papers' rate
  std::array<Idle, PipelinePhaseCount> idle;  // mean over ranks; they add up to makespan − mean busy
  std::vector<PipelineRank> ranks;            // by rank
  [[nodiscard]] Seconds bubble() const { return makespan - mean_busy; }
};

/// Nothing when no mesh has an axis "pp", or some rank computes nothing forward and backward.
/// @param timeline  of a run of `schedule`: spans by rank, then in program order
[[nodiscard]] std::optional<PipelineMetrics> pipeline_metrics(const Schedule& schedule,
                                                              const Timeline& timeline);

}  // namespace syncline
