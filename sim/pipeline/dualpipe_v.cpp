// DualPipeV: DualPipe cut in half. Both lanes of a rank belong to one V over half the ranks, so that the
// weights are held once. Qi et al., "DualPipe could be better without the Dual" (2025); deepseek-ai/DualPipe.
#include <fmt/format.h>

#include "sim/pipeline/dualpipe_steps.hpp"
#include "sim/pipeline/schedules.hpp"

namespace syncline::pipeline {
namespace {

std::optional<std::string> refuse(const Request& request) {
  const int least = 2 * request.ranks;
  if (request.microbatches >= least) return std::nullopt;
  return fmt::format("needs m ≥ 2p = {} microbatches, not {}; try --microbatches {}", least,
                     request.microbatches, least);
}

/// 2p virtual stages; every rank holds 2p + 1 chunks at most.
Order make(const Request& request) {
  const int p = request.ranks;
  return by_rank(2 * p, request, [&](int rank) {
    return dualpipe_steps(p, rank, request.microbatches, Lane(rank), Lane(2 * p - 1 - rank));
  });
}

}  // namespace

Generator dualpipe_v() {
  return {
      .name = "dualpipe-v",
      .title = "DualPipeV",
      .summary = "DualPipe over a V of two chunks a rank: forward and backward fused, the weights held once",
      .accepts = "any p; m ≥ 2p",
      .source = "Qi et al., Cut-in-half (2025); deepseek-ai/DualPipe; PyTorch ScheduleDualPipeV",
      .placement = Placement::V,
      .default_chunks = 2,
      .least_chunks = 2,
      .most_chunks = 2,
      .fuses = true,
      .refuse = refuse,
      .make = make};
}

}  // namespace syncline::pipeline
