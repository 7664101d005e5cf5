// ZB-V as drawn for equal times: two chunks a rank in a V. Qi et al., Zero Bubble Pipeline Parallelism, arXiv
// 2401.10241, section 6 and figure 7.
#include "sim/pipeline/rank_writer.hpp"
#include "sim/pipeline/schedules.hpp"

namespace syncline::pipeline {
namespace {

RankOrder write(int rank, int p, int m) {
  RankWriter writer;
  Lane down(rank), up(2 * p - 1 - rank);
  const auto backward = [&](Lane& lane) {
    writer.backward_input(lane);
    writer.weight();
  };
  // Warm-up: the first microbatches go down the V, come back up, and begin their way back.
  for (int k = 0; k < 2 * (p - rank) - 1; ++k) writer.forward(down);
  for (int k = 0; k < rank; ++k) {
    writer.forward(up);
    writer.forward(down);
  }
  for (int k = 0; k < p - rank; ++k) {
    writer.forward(up);
    backward(up);
  }
  // Steady: F, I and W of either chunk in turn.
  while (up.next_forward < down.next_forward || down.next_forward < m) {
    if (down.next_forward < m) writer.forward(down);
    backward(down);
    writer.forward(up);
    backward(up);
  }
  // Cool-down: I first, as others wait for it; the weight gradients fill the rest.
  for (int k = 0; k < rank; ++k) {
    writer.backward_input(down);
    writer.backward_input(up);
  }
  for (int k = 0; k < p - rank; ++k) {
    writer.backward_input(down);
    writer.weight(down);
  }
  for (int k = 0; k < rank; ++k) writer.weight(up);
  for (int k = 0; k < rank; ++k) writer.weight(down);
  return writer.finish();
}

/// At F = B = W no bubble within a rank's span, and 2p chunks held on each rank: 1F1B's memory. The V is
/// built for at least 2p − 1 microbatches; surplus ones are struck out, as PyTorch does.
Order make(const Request& request) {
  const int p = request.ranks, m = request.microbatches;
  return by_rank(2 * p, request, [&](int rank) {
    RankOrder order = write(rank, p, std::max(m, 2 * p - 1));
    std::erase_if(order, [m](const Block& block) { return block.first.microbatch >= m; });
    return order;
  });
}

}  // namespace

Generator zb_v_handcrafted() {
  return {.name = "zb-v-handcrafted",
          .title = "ZB-V (handcrafted)",
          .summary = "two chunks a rank in a V: no bubble within a rank at equal times, at 1F1B's memory",
          .accepts = "any p, any m (the bubble closes from m ≥ 2p − 1 on)",
          .source =
              "Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241), section 6; PyTorch "
              "ScheduleZBVZeroBubble",
          .placement = Placement::V,
          .default_chunks = 2,
          .least_chunks = 2,
          .most_chunks = 2,
          .make = make};
}

}  // namespace syncline::pipeline
