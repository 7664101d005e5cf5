// GPipe: all forwards, then all backwards. Huang et al., NeurIPS 2019, figure 2c.
#include "sim/pipeline/rank_writer.hpp"
#include "sim/pipeline/schedules.hpp"

namespace syncline::pipeline {
namespace {

/// (m + p − 1)w + 2c(p − 1); every rank holds all m microbatches. Backwards run in the order of the forwards,
/// as in PyTorch; the paper draws them the other way round, which takes the same time.
Order make(const Request& request) {
  return by_rank(request.ranks, request, [&](int rank) {
    RankWriter writer;
    Lane lane(rank);
    for (int k = 0; k < request.microbatches; ++k) writer.forward(lane);
    for (int k = 0; k < request.microbatches; ++k) writer.backward(lane);
    return writer.finish();
  });
}

}  // namespace

Generator gpipe() {
  return {.name = "gpipe",
          .title = "GPipe",
          .summary = "all forwards, then all backwards; holds every microbatch",
          .accepts = "any p, any m",
          .source = "Huang et al., GPipe (NeurIPS 2019), figure 2c; PyTorch ScheduleGPipe",
          .make = make};
}

}  // namespace syncline::pipeline
