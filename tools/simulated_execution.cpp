#include "tools/simulated_execution.hpp"

#include <algorithm>

#include "backends/simgrid/simgrid_backend.hpp"

namespace syncline {

RunResult simulate_executed(const Question& question, ComputeBy compute) {
  RunOptions options;
  if (question.scenario && question.scenario->detail == "full") options.detail = Detail::Full;
  Cluster cluster = question.cluster;
  if (compute == ComputeBy::PlannedTime) cluster.device.compute_rate_while_communicating = 1;
  return make_simgrid_backend()->run(question.schedule, cluster, options);
}

ComputeBy compute_of(const Timeline& measured) {
  const std::pair<std::string, std::string> kernels(ComputeKey, name_of(ComputeBy::Kernels));
  return std::ranges::find(measured.about, kernels) == measured.about.end() ? ComputeBy::PlannedTime
                                                                            : ComputeBy::Kernels;
}

}  // namespace syncline
