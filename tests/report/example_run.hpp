// A run by hand: one step of four ranks on two nodes, small enough to check every figure on paper.
#pragma once

#include "sim/device/cluster.hpp"
#include "sim/report/summary.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/timeline/result.hpp"

namespace syncline::test {

struct ExampleRun {
  Cluster cluster;
  Schedule schedule;
  RunResult result;
  RunContext context;

  [[nodiscard]] RunSummary summary() const { return summarise(result, schedule, cluster, context); }
};

/// Two nodes of two accelerators: 100 GB/s to a switch in the node, 50 GB/s by a NIC each to one leaf switch.
/// Every rank gathers 1 GB (rank 0 waits 10 ms for the others), computes forward and backward, scatters 1 GB beside the
/// end of backward, and updates: 700 ms.
[[nodiscard]] ExampleRun example_run();

/// The same step with groups of two that stay inside their node.
[[nodiscard]] ExampleRun run_inside_nodes();

/// Compute alone.
[[nodiscard]] ExampleRun run_without_communication();

}  // namespace syncline::test
