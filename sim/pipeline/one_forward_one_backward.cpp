// 1F1B (PipeDream-Flush, DAPPLE). Narayanan et al., ICML 2021, figure 2; SC 2021, section 2.2.1.
#include "sim/pipeline/rank_writer.hpp"
#include "sim/pipeline/schedules.hpp"

namespace syncline::pipeline {
namespace {

/// (m + p − 1)w without hop time, as GPipe, but rank r holds only min(m, p − r) microbatches; paired
/// min(m, 2(p − r)).
Order make(const Request& request) {
  return by_rank(request.ranks, request, [&](int rank) {
    const int behind = request.ranks - 1 - rank;
    const int warm_up = std::min(request.microbatches, request.paired ? 2 * behind + 1 : behind);
    const int steady = request.microbatches - warm_up;
    RankWriter writer;
    Lane lane(rank);
    for (int k = 0; k < warm_up; ++k) writer.forward(lane);
    for (int k = 0; k < steady; ++k) writer.both(lane, request.paired);
    for (int k = 0; k < warm_up; ++k) writer.backward(lane);
    return writer.finish();
  });
}

}  // namespace

Generator one_forward_one_backward() {
  return {
      .name = "1f1b",
      .title = "1F1B",
      .summary = "a backward after each forward once the pipeline is full; rank r holds p − r microbatches",
      .accepts = "any p, any m (with m < p some ranks only warm up and cool down)",
      .source = "Narayanan et al. (ICML 2021), PipeDream-Flush; Fan et al., DAPPLE (PPoPP 2021)",
      .takes_paired = true,
      .make = make};
}

}  // namespace syncline::pipeline
