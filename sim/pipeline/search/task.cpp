#include "sim/pipeline/search/task.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace syncline::pipeline::search {
Task make_task(const Request& request, Placement placement, std::optional<double> limit) {
  Task task;
  task.ranks = request.ranks;
  task.stages = static_cast<int>(request.costs.stages.size());
  task.microbatches = request.microbatches;
  task.memory = request.memory;
  if (limit) task.limit = *limit * request.memory.forward;
  for (int q = 0; q < 2 * task.stages; ++q) {
    const bool backward = q >= task.stages;
    const int stage = backward ? 2 * task.stages - 1 - q : q;
    const StageTimes& times = request.costs.stages[stage];
    Task::Step step{stage, rank_of_stage(placement, task.ranks, stage), backward, times.forward.si()};
    if (backward) step.time = times.backward_input.si(), step.weight = times.backward_weight.si();
    if (q > 0 && task.path.back().rank != step.rank) step.hop = request.costs.hop.si();
    task.path.push_back(step);
  }
  return task;
}

double least_makespan(const Task& task) {
  struct Rank {
    double before = -1, work = 0, weights = 0, path_to_last = 0;
  };
  std::vector<Rank> ranks(task.ranks);
  double path = 0;  // from the start of a microbatch to the end of the step
  for (const Task::Step& step : task.path) {
    Rank& rank = ranks[step.rank];
    path += step.hop;
    if (rank.before < 0) rank.before = path;
    path += step.time;
    rank.work += step.time;
    rank.weights += step.weight;
    rank.path_to_last = path;
  }
  double least = 0;
  for (const Rank& rank : ranks) {
    const double work = rank.before + task.microbatches * rank.work;
    least = std::max({least, work + task.microbatches * rank.weights,
                      work + path - rank.path_to_last + task.path.back().weight});
  }
  return least;
}

std::optional<std::string> refuse_memory(const Request& request, int chunks) {
  const ActivationMemory& memory = request.memory;
  if (!(memory.forward > 0) || memory.backward_weight > 0)
    return fmt::format("needs memory that a forward takes and a weight gradient does not, not {:g} and {:g}",
                       memory.forward, memory.backward_weight);
  if (!request.memory_limit) return std::nullopt;
  const double rise = std::max({0.0, memory.backward_input, memory.backward_input + memory.backward_weight});
  const double least = chunks + rise / memory.forward;
  if (*request.memory_limit >= least * (1 - Rounding)) return std::nullopt;
  return fmt::format(
      "needs a memory limit of at least {:g}, what one microbatch holds on a rank, not {:g}; try "
      "--memory-limit {:g}",
      least, *request.memory_limit, least);
}

bool better(const Score& a, const Score& b) {
  for (const auto member : {&Score::makespan, &Score::span, &Score::peak}) {
    const double slack = Rounding * std::max(a.*member, b.*member);
    if (a.*member < b.*member - slack) return true;
    if (a.*member > b.*member + slack) return false;
  }
  return false;
}

}  // namespace syncline::pipeline::search
