// Looped breadth-first: every chunk takes all microbatches before the next. Lamy-Poirier, MLSys 2023, figure
// 4d.
#include "sim/pipeline/rank_writer.hpp"
#include "sim/pipeline/schedules.hpp"

namespace syncline::pipeline {
namespace {

/// (vm + p − 1)w + 2c(p − 1) from m ≥ 2p on; every rank holds all vm chunks. Backwards go from the last chunk
/// to the first and from the last microbatch to the first, as in PyTorch's ScheduleLoopedBFS.
Order make(const Request& request) {
  const int p = request.ranks, v = request.chunks, m = request.microbatches;
  return by_rank(p * v, request, [&](int rank) {
    RankOrder order;
    for (int chunk = 0; chunk < v; ++chunk)
      for (int k = 0; k < m; ++k) order.emplace_back(F(chunk * p + rank, k));
    for (int chunk = v - 1; chunk >= 0; --chunk)
      for (int k = m - 1; k >= 0; --k) order.emplace_back(B(chunk * p + rank, k));
    return order;
  });
}

}  // namespace

Generator looped_bfs() {
  return {
      .name = "looped-bfs",
      .title = "looped breadth-first",
      .summary = "GPipe over v chunks a rank: short bubble, few exposed hops, all activations held",
      .accepts = "any p, any m, v ≥ 1",
      .source = "Lamy-Poirier, Breadth-First Pipeline Parallelism (MLSys 2023); PyTorch ScheduleLoopedBFS",
      .default_chunks = 2,
      .most_chunks = 1024,
      .make = make};
}

}  // namespace syncline::pipeline
