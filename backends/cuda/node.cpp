#include "backends/cuda/node.hpp"

#include <cstdlib>
#include <set>
#include <string>

#include "backends/cuda/communicators.hpp"
#include "backends/cuda/kernel_plan.hpp"

namespace syncline::cuda {
namespace {

constexpr int SharedGpu = 0;      // virtual ranks are on the first
constexpr int DefaultQueues = 8;  // a cautious guess where CUDA_DEVICE_MAX_CONNECTIONS is not set

int queues() {
  const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int number = text == nullptr ? 0 : std::atoi(text);
  return number > 0 ? number : DefaultQueues;
}

/// Those of the schedule, one that each partition has anyway, and the clock's.
int streams_of(std::span<const RankProgram> programs) {
  int streams = static_cast<int>(programs.size()) + 1;
  for (const RankProgram& program : programs) {
    std::set<StreamId> used;
    for (const Step& step : program.steps)
      if (!on_host(step.task))
        used.insert(step.stream);
    streams += static_cast<int>(used.size());
  }
  return streams;
}

}  // namespace

Node::Node(const ExecutionPlan& plan_, Talk talk) : plan(plan_), programs(rank_programs(plan_)) {
  require_same_order(programs);
  if (plan.compute == ComputeBy::Kernels) require_supported(plan.schedule.works);
  if (talk == Talk::Nccl) return;
  require_queues(streams_of(programs), queues());
  shared.emplace(SharedGpu, programs);
}

}  // namespace syncline::cuda
