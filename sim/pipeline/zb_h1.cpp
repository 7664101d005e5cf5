// ZB-H1: 1F1B whose cool-down bubble is filled with weight gradients. Qi et al., Zero Bubble Pipeline
// Parallelism, ICLR 2024, section 2.1 and figure 2.
#include "sim/pipeline/rank_writer.hpp"
#include "sim/pipeline/schedules.hpp"
#include "sim/pipeline/zero_bubble.hpp"

namespace syncline::pipeline {

/// Rank r splits its first depth·r backwards and those from the last forward on; between them, W follows its
/// own I, which is one whole backward (unless the request keeps them apart, so that the gradient leaves
/// before W). Rank 0 has nobody to hurry for and never splits. These are the orders of both implementations
/// by the paper's authors; they differ in the order of the W held back.
Order handcrafted_zero_bubble(const Request& request, int depth) {
  const int p = request.ranks, m = request.microbatches;
  return by_rank(p, request, [&](int rank) {
    const int warm_up = std::min(m, depth * (p - 1 - rank));
    const int held_back = depth * rank;
    RankWriter writer;
    Lane lane(rank);
    for (int k = 0; k < warm_up; ++k) writer.forward(lane);
    for (int k = 0; k < m; ++k) {
      if (lane.next_forward < m) writer.forward(lane);
      const bool forwards_left = lane.next_forward < m;
      if (k < held_back) {
        writer.backward_input(lane);
      } else if (rank == 0 || forwards_left) {
        if (request.merge_backward) {
          writer.backward(lane);
        } else {
          writer.backward_input(lane);
          writer.weight(WeightOrder::NewestFirst);  // its own
        }
      } else {
        writer.backward_input(lane);
        writer.weight(request.weight_order);
      }
    }
    writer.all_weights(request.weight_order);
    return writer.finish();
  });
}

namespace {

/// Without hop time a rank's span has a bubble of (p − 1)·max(F + B − W, B) (the paper's (p − 1)(F + B − W) holds for
/// W ≤ F), and the step one of (p − 1)·max(F + B − W, B, F). Every rank holds p microbatches.
Order make(const Request& request) {
  return handcrafted_zero_bubble(request, 1);
}

}  // namespace

Generator zb_h1() {
  return {.name = "zb-h1",
          .title = "ZB-H1",
          .summary =
              "1F1B that fills its cool-down with weight gradients; a third of the bubble at 1F1B's memory",
          .accepts = "any p, any m",
          .source = "Qi et al., Zero Bubble Pipeline Parallelism (ICLR 2024), section 2.1; its quick start",
          .takes_weight_order = true,
          .make = make};
}

}  // namespace syncline::pipeline
