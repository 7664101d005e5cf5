// The zero-bubble paper's schedule for given times and memory: its heuristic, and a search from there.
#include <algorithm>
#include <cmath>

#include "sim/pipeline/schedules.hpp"
#include "sim/pipeline/search/candidates.hpp"
#include "sim/pipeline/search/zb_heuristic.hpp"

namespace syncline::pipeline {
namespace {

using search::Candidates;
using search::Guide;
using search::Task;

constexpr long Effort = 600'000;  // actions planned after guides, roughly
constexpr long Budget = 200'000;  // actions timed for each candidate

/// Forward or backward first, with so many microbatches in flight as a rank is before the end of the
/// pipeline, times a factor: 1 is what ZB-H1 has, 2 is what ZB-H2 has (one less), more is for slow hops.
std::vector<Guide> guides(const Task& task) {
  std::vector<Guide> all;
  for (const double factor : {1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0})
    for (const int less : {0, 1})
      for (const bool backward_first : {true, false})
        for (const bool fill : {true, false}) {
          Guide guide;
          guide.fill_small_idle = fill;
          guide.due.assign(task.path.size(), 0);
          for (int stage = 0; stage < task.stages; ++stage) {
            guide.due[task.backward(stage)] = backward_first ? -1 : 1;
            const int in_flight = static_cast<int>(std::ceil(factor * (task.stages - stage))) - less;
            guide.most_in_flight.push_back(std::max(1, in_flight));
          }
          all.push_back(std::move(guide));
        }
  return all;
}

std::optional<std::string> refuse(const Request& request) {
  return search::refuse_memory(request, 1);
}

/// No order has a longer makespan or span than the published heuristic's.
Order make(const Request& request) {
  const Task task = search::make_task(request, Placement::Loop, request.memory_limit);
  Candidates candidates(task);
  const std::vector<search::Plan> published = search::plan_zb_all(task);
  if (!published.empty())
    candidates.set_baseline(
        *std::ranges::min_element(published, {}, [](const search::Plan& plan) { return plan.score().span; }));
  for (const search::Plan& plan : published) candidates.offer(plan);
  candidates.offer_guided(guides(task), Effort);
  if (candidates.empty()) candidates.offer(search::list_schedule(task, search::one_at_a_time(task)));
  return candidates.best(Budget);
}

}  // namespace

Generator zb_auto() {
  return {
      .name = "zb-auto",
      .title = "ZB (searched)",
      .summary = "the shortest found for the given times and memory; ZB-1p and ZB-2p with limits of p and 2p",
      .accepts = "any p, any m; a memory limit of at least 1",
      .source = "Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 3.1",
      .placement = Placement::Loop,
      .searched = true,
      .refuse = refuse,
      .make = make};
}

}  // namespace syncline::pipeline
