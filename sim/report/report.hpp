// Metrics of a run, defined once and used everywhere, and the forms they are shown in.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/timeline/timeline.hpp"

namespace syncline {

/// Per rank, from its spans: union of intervals, so nothing counts twice.
struct RankMetrics {
  Seconds compute;        // time with compute running
  Seconds communication;  // time with a communication kernel resident (waiting included)
  Seconds exposed;        // communication with no compute running
  Seconds overlapped;     // communication − exposed
  Seconds waiting;        // of communication: before its data moved, summed over kernels' union
  Seconds span;           // first start to last end on this rank
  Seconds idle;           // span with neither compute nor communication
};

struct Metrics {
  Seconds step_time;                    // first start to last end, all ranks
  std::vector<RankMetrics> ranks;
  RankMetrics mean;                     // over ranks
  RankId slowest;                       // the rank whose compute takes longest (lowest id on ties)
  double overlap_share = 0;             // overlapped ÷ communication; 0 when there is no communication
  double bubble_fraction = 0;           // mean idle of compute over span: 1 − compute / span
  bool has_communication = false;
  std::optional<double> tokens_per_s;   // whole job
  std::optional<double> tokens_per_s_per_accelerator;
  std::optional<double> mfu;            // model FLOP ÷ (time · ranks · peak)
  std::optional<double> hfu;            // hardware FLOP, recomputation included
};

/// @param peak  of one accelerator at the job's precision; 0: unknown, then no MFU
[[nodiscard]] Metrics compute_metrics(const Timeline& timeline, const Job& job, FlopPerSecond peak);

/// Chrome Trace Event JSON for Perfetto: pid = rank, tid = stream, microseconds; gzip when the name ends in `.gz`.
/// @throws EnvironmentError when the file cannot be written
void write_trace(const std::string& path, const Timeline& timeline);

struct GanttOptions {
  int columns = 100;       // of the whole picture
  bool colour = false;
  std::size_t most_ranks = 8;   // ranks drawn, from rank 0; the picture says when there are more
};
/// One row a rank and stream.
[[nodiscard]] std::string gantt(const Timeline& timeline, const GanttOptions& options);

}  // namespace syncline
