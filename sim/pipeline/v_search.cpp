// The best V for given times and memory: building blocks between V-Min and ZB-V, and the published V
// schedules.
#include "sim/pipeline/schedules.hpp"
#include "sim/pipeline/search/building_blocks.hpp"
#include "sim/pipeline/search/candidates.hpp"
#include "sim/pipeline/search/v_blocks.hpp"

namespace syncline::pipeline {
namespace {

constexpr int Guides = 48;
constexpr long GuideEffort = 1'200'000;  // actions planned after guides, roughly
constexpr std::size_t MostBlocks = 3;    // whose orders are kept
constexpr long BlockEffort = 2'500'000;  // slots laid out for building blocks, roughly
constexpr long Budget = 400'000;         // actions timed for each candidate

std::optional<std::string> refuse(const Request& request) {
  return search::refuse_memory(request, 2);
}

Order make(const Request& request) {
  const search::Task task =
      search::make_task(request, Placement::V, request.memory_limit.value_or(2 * request.ranks));
  search::Candidates candidates(task);
  for (const Generator& known : {zb_v(), zb_v_handcrafted(), v_half(), v_min(), one_forward_one_backward_v()})
    if (known.refuse == nullptr || !known.refuse(request)) candidates.offer(known.make(request));
  if (!candidates.shortest())
    for (const Order& order : search::block_orders(task, MostBlocks, BlockEffort)) candidates.offer(order);
  candidates.offer_guided(search::v_blocks(task, Guides), GuideEffort);
  if (candidates.empty()) candidates.offer(search::list_schedule(task, search::one_at_a_time(task)));
  return candidates.best(Budget);
}

}  // namespace

Generator v_search() {
  return {.name = "v-search",
          .title = "V (searched)",
          .summary = "the best V found for the given times within the memory limit, from V-Min's to ZB-V's",
          .accepts = "any p, any m; a memory limit of at least 2 (chunks)",
          .source =
              "Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), section 3, "
              "appendix A",
          .placement = Placement::V,
          .default_chunks = 2,
          .least_chunks = 2,
          .most_chunks = 2,
          .searched = true,
          .refuse = refuse,
          .make = make};
}

}  // namespace syncline::pipeline
