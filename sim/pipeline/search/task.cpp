#include "sim/pipeline/search/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace syncline::pipeline::search {
namespace {

/// Of which all times are whole multiples, so that sums of them are exact and equal ones equal whatever the
/// unit of the input; 1 where there is none.
double common_unit(const Costs& costs) {
  std::vector<double> times{costs.hop.si()};
  for (const StageTimes& stage : costs.stages)
    for (const Seconds time : {stage.forward, stage.backward_input, stage.backward_weight})
      times.push_back(time.si());
  std::erase(times, 0.0);
  if (times.empty()) return 1;
  constexpr int Finest = 1000;  // parts of the shortest time
  const double shortest = std::ranges::min(times);
  for (int parts = 1; parts <= Finest; ++parts) {
    const double unit = shortest / parts;
    const auto whole = [unit](double time) {
      return std::abs(time / unit - std::round(time / unit)) <= 1e-9 * time / unit;
    };
    if (std::ranges::all_of(times, whole)) return unit;
  }
  return 1;
}

}  // namespace

Task make_task(const Request& request, Placement placement, std::optional<double> limit) {
  Task task;
  task.ranks = request.ranks;
  task.stages = static_cast<int>(request.costs.stages.size());
  task.microbatches = request.microbatches;
  task.memory = request.memory;
  if (limit) task.limit = *limit * request.memory.forward;
  const double unit = common_unit(request.costs);
  const auto in_units = [unit](Seconds time) { return unit == 1 ? time.si() : std::round(time.si() / unit); };
  for (int q = 0; q < 2 * task.stages; ++q) {
    const bool backward = q >= task.stages;
    const int stage = backward ? 2 * task.stages - 1 - q : q;
    const StageTimes& times = request.costs.stages[stage];
    Task::Step step{stage, rank_of_stage(placement, task.ranks, stage), backward, in_units(times.forward)};
    if (backward) step.time = in_units(times.backward_input), step.weight = in_units(times.backward_weight);
    if (q > 0 && task.path.back().rank != step.rank) step.hop = in_units(request.costs.hop);
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
  const double sum = memory.forward + memory.backward_input + memory.backward_weight;
  if (!(std::abs(sum) <= Rounding * memory.forward))
    return fmt::format("needs memory that ends where it began: {:g}, {:g} and {:g} add up to {:g}, not 0",
                       memory.forward, memory.backward_input, memory.backward_weight, sum);
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
