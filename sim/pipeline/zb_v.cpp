// ZB-V for given times and memory: the published heuristic, and a search from there.
#include <algorithm>

#include "sim/pipeline/schedules.hpp"
#include "sim/pipeline/search/candidates.hpp"
#include "sim/pipeline/search/v_blocks.hpp"
#include "sim/pipeline/search/zb_heuristic.hpp"

namespace syncline::pipeline {
namespace {

constexpr int Blocks = 40;
constexpr long Effort = 600'000;  // actions planned after building blocks, roughly
constexpr long Budget = 200'000;  // actions timed for each candidate

std::optional<std::string> refuse(const Request& request) {
  return search::refuse_memory(request, 2);
}

/// No order has a longer makespan or span than the published heuristic's.
Order make(const Request& request) {
  const search::Task task =
      search::make_task(request, Placement::V, request.memory_limit.value_or(2 * request.ranks));
  search::Candidates candidates(task);
  const std::vector<search::Plan> published = search::plan_zb_v_all(task);
  if (!published.empty())
    candidates.set_baseline(*std::ranges::min_element(published, {}, &search::Plan::longest_idle));
  for (const search::Plan& plan : published) candidates.offer(plan);
  candidates.offer_guided(search::v_blocks(task, Blocks), Effort);
  if (candidates.empty()) candidates.offer(search::list_schedule(task, search::one_at_a_time(task)));
  return candidates.best(Budget);
}

}  // namespace

Generator zb_v() {
  return {
      .name = "zb-v",
      .title = "ZB-V",
      .summary =
          "two chunks a rank in a V, searched for the given times; holds what 1F1B holds unless limited",
      .accepts = "any p, any m; a memory limit of at least 2 (chunks)",
      .source = "Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), section 3.3",
      .placement = Placement::V,
      .default_chunks = 2,
      .least_chunks = 2,
      .most_chunks = 2,
      .searched = true,
      .refuse = refuse,
      .make = make};
}

}  // namespace syncline::pipeline
