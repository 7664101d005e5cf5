// One microbatch at a time: forward through all stages and back before the next begins. All ranks but one
// stand still.
#include "sim/pipeline/rank_writer.hpp"
#include "sim/pipeline/schedules.hpp"

namespace syncline::pipeline {
namespace {

Order make(const Request& request) {
  return by_rank(request.ranks, request, [&](int rank) {
    RankWriter writer;
    Lane lane(rank);
    for (int k = 0; k < request.microbatches; ++k) {
      writer.forward(lane);
      writer.backward(lane);  // rank 0 waits here for the whole way down and up
    }
    return writer.finish();
  });
}

}  // namespace

Generator naive() {
  return {.name = "naive",
          .title = "naive model parallelism",
          .summary = "one microbatch at a time through all stages: m·p·w",
          .accepts = "any p, any m",
          .source = "Huang et al., GPipe (NeurIPS 2019), figure 2b",
          .make = make};
}

}  // namespace syncline::pipeline
