// Metrics of a timeline, defined once and used everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/timeline/timeline.hpp"

namespace syncline {

/// Times of one rank. Each is the length of a union of intervals, so that nothing counts twice:
/// span = compute + exposed + idle, and communication = exposed + overlapped.
struct RankMetrics {
  Seconds compute;        // compute running
  Seconds communication;  // a communication kernel resident, waiting included
  Seconds exposed;        // communication with no compute running
  Seconds overlapped;     // communication − exposed
  Seconds waiting;        // communication while no kernel moves data: all that are resident wait for others
  Seconds span;           // first start to last end on this rank, host included
  Seconds idle;           // span with neither compute nor communication
};

/// Equal communication ops, all their runs on all ranks together. Collectives of a rank alone are left out: they move
/// nothing.
struct Traffic {
  std::string op;              // "all-gather", "send"
  std::string group;           // family of a collective, "to pp 1" of a send
  Bytes bytes;                 // of one op: size S of a collective
  std::string algorithm;       // of a collective
  std::size_t group_size = 0;  // of a collective; 0: not known
  std::uint64_t kernels = 0;   // one a rank and run
  Seconds mean_transfer{};     // of a kernel, from its data moving to its end
  Seconds mean_waiting{};      // of a kernel, before that
  double exposed_share = 0;    // of the kernels' time, without compute on their rank; 0 … 1
  [[nodiscard]] std::optional<BytesPerSecond> algbw()
      const;  // S / mean_transfer; nothing when that took no time
};

struct Metrics {
  Seconds step_time;  // first start to last end, all ranks
  std::vector<RankMetrics> ranks;
  RankMetrics mean;            // over ranks
  RankId slowest;              // the rank whose compute takes longest (lowest id on ties)
  RankId most_exposed;         // the rank with most exposed communication (lowest id on ties)
  double overlap_share = 0;    // overlapped ÷ communication, all ranks; 0 when there is no communication
  double bubble_fraction = 0;  // mean over ranks of 1 − compute / span; 0 when the span is 0
  bool has_communication = false;
  std::vector<Traffic> traffic;        // in the order of first use in Timeline::spans
  std::optional<double> tokens_per_s;  // whole job
  std::optional<double> tokens_per_s_per_accelerator;
  std::optional<double> mfu;  // model FLOP ÷ (time · ranks · peak)
  std::optional<double> hfu;  // hardware FLOP, recomputation included
};

/// busbw ÷ algbw among n ranks, as nccl-tests defines it (NVIDIA/nccl-tests, doc/PERFORMANCE.md): 2(n−1)/n for
/// all-reduce, (n−1)/n for all-gather, reduce-scatter and all-to-all, 1 for broadcast.
[[nodiscard]] double bus_factor(CollectiveKind kind, std::size_t ranks);

/// Members of the group in which `rank` runs the collective at position `op` of Timeline::ops; 0: not known.
using GroupSizeOf = std::function<std::size_t(std::uint32_t op, RankId rank)>;

/// @param timeline  spans grouped by rank, as every backend writes them
/// @param peak      of one accelerator at the job's precision; 0: unknown, then no MFU
/// @param group_size  tells collectives of groups of different sizes apart; without it they count as equal
/// @param player_of   RunResult::player_of: whose times are those of ranks without spans
/// @throws std::logic_error when spans of a rank are scattered or an op is not in the table
[[nodiscard]] Metrics compute_metrics(const Timeline& timeline, const Job& job, FlopPerSecond peak,
                                      const GroupSizeOf& group_size = {},
                                      std::span<const RankId> player_of = {});

/// Of each span of `timeline` that communicates, the time without compute on its rank, as RankMetrics::exposed counts it
/// and Traffic::exposed_share sums it; 0 of others.
/// @param timeline  spans grouped by rank
[[nodiscard]] std::vector<Seconds> exposed_times(const Timeline& timeline);

/// The part of Metrics that needs no spans: what `job` is worth when a step takes `step_time` on `ranks` ranks.
struct Throughput {
  std::optional<double> tokens_per_s, tokens_per_s_per_accelerator, mfu, hfu;
  std::optional<FlopPerSecond> model_flop_rate;  // of one accelerator
};
[[nodiscard]] Throughput throughput(const Job& job, Seconds step_time, std::size_t ranks, FlopPerSecond peak);

}  // namespace syncline
