// Schedules that measure a machine when they are executed on it, and what their timelines tell.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/calibrate/fabric_fit.hpp"
#include "sim/core/csv.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/timeline/timeline.hpp"

namespace syncline::calibrate {

// --- collectives -----------------------------------------------------------------------------------------------------

struct CollectiveProbe {
  NcclOp op = NcclOp::AllReduce;
  int ranks = 0;  // neighbours in groups of so many, all groups at once: what they share is busy, as in runs
  Bytes size;     // S, as nccl-tests counts it
};

/// Of the whole world and of pairs, each kind that a run can need, at these sizes; without those where a member has less than
/// a number of four bytes.
[[nodiscard]] std::vector<CollectiveProbe> collective_probes(int world, std::span<const Bytes> sizes);

/// Each probe `repeats` times, the first of which is to warm up. Members come one after another, as in runs, and each is the last in turn: what comes early
/// waits, and is woken up.
/// @param stagger  between members; 0: all at once
[[nodiscard]] Schedule collective_schedule(int world, std::span<const CollectiveProbe> probes, int repeats,
                                           Seconds stagger);

/// One row a probe: the median over its repeats but the first, and over groups, of the time from the last member's coming to the last one's end.
/// @param per_node  ranks of a node, which are neighbours: a pair's node is one where the world's are several
/// @param timeline  of collective_schedule() of the same probes
[[nodiscard]] std::vector<FabricRow> measured_rows(std::span<const CollectiveProbe> probes, int per_node,
                                                   const Timeline& timeline);

/// As a table that `calibrate fabric --csv` reads: op, gpu, ranks, nodes, size_bytes, time_us.
[[nodiscard]] std::string rows_csv(std::span<const FabricRow> rows, const std::string& machine);

// --- kernels ---------------------------------------------------------------------------------------------------------

/// What issuing and beginning an op takes: ops without work behind a long one, between two marks of the host.
[[nodiscard]] Schedule launch_schedule(int world);
struct LaunchCost {
  Seconds launch;  // of the host, for one op
  Seconds gap;     // in the stream, from one op's start to the next one's
};
[[nodiscard]] LaunchCost launch_cost(const Timeline& timeline);

/// Products of one precision in shapes from small to `largest` rows and columns, and one pass over `pass` bytes of memory;
/// on rank 0, each `repeats` times.
[[nodiscard]] Schedule kernel_schedule(int world, Precision precision, int largest, Bytes pass, int repeats);
struct MeasuredKernels {
  std::string gemm_csv;  // chip, kind, m, n, k, dtype, achieved_tflops: as `calibrate device --gemm` reads it
  FlopPerSecond best;    // of any product
  BytesPerSecond memory;  // of the pass: bytes read and written over time
};
/// Medians.
/// @param schedule  kernel_schedule()
[[nodiscard]] MeasuredKernels measured_kernels(const Schedule& schedule, const Timeline& timeline, const std::string& chip);

/// One product over and over on every rank, first alone, then beside all-reduces of `bytes`.
[[nodiscard]] Schedule interference_schedule(int world, Precision precision, int size, Bytes bytes);
/// Rate of compute with a communication kernel resident, as a share of the rate alone; at most 1. Nothing when no product
/// ran beside all-reduces from its start to its end.
[[nodiscard]] std::optional<double> rate_beside_communication(const Timeline& timeline);

}  // namespace syncline::calibrate
