// ZB-H1 over v chunks a rank: PyTorch's ScheduleInterleavedZeroBubble.
#include "sim/pipeline/microbatch_groups.hpp"
#include "sim/pipeline/rank_writer.hpp"
#include "sim/pipeline/schedules.hpp"

namespace syncline::pipeline {
namespace {

std::optional<std::string> refuse(const Request& request) {
  if (equal_groups(request.ranks, request.microbatches)) return std::nullopt;
  return unequal_groups(request.ranks, request.microbatches);
}

/// Half as many warm-up forwards a hop as interleaved 1F1B, as the gradient leaves after I already; rank r
/// holds back r weight gradients for the cool-down. Bubble (p − 1)(F + B − W) of a chunk for W ≤ F; every
/// rank holds vp chunks. With v = 1 it is ZB-H1 with I and W apart.
Order make(const Request& request) {
  const int p = request.ranks, v = request.chunks;
  const MicrobatchGroups groups{p, v, request.microbatches, equal_groups(p, request.microbatches).value()};
  return by_rank(p * v, request, [&](int rank) {
    const int warm_up = std::min(groups.count(), p - 1 - rank + (v - 1) * groups.group_size);
    RankOrder order;
    for (int k = 0; k < warm_up; ++k) order.emplace_back(groups.forward(rank, k));
    int weights = 0;
    const auto weight = [&] {
      order.emplace_back(groups.backward(rank, weights++, ActionKind::BackwardWeight));
    };
    for (int k = 0; k < groups.count(); ++k) {
      if (warm_up + k < groups.count()) order.emplace_back(groups.forward(rank, warm_up + k));
      order.emplace_back(groups.backward(rank, k, ActionKind::BackwardInput));
      if (k >= rank) weight();
    }
    while (weights < groups.count()) weight();
    return order;
  });
}

}  // namespace

Generator interleaved_zb() {
  return {.name = "interleaved-zb",
          .title = "interleaved zero bubble",
          .summary = "ZB-H1 over v chunks a rank; every rank holds p microbatches",
          .accepts = "any p, v ≥ 1; m a multiple of max(1, ⌊m/p⌋)",
          .source = "PyTorch ScheduleInterleavedZeroBubble, after Qi et al., Zero Bubble (ICLR 2024)",
          .default_chunks = 2,
          .most_chunks = 1024,
          .refuse = refuse,
          .make = make};
}

}  // namespace syncline::pipeline
