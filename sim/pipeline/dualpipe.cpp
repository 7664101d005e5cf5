// DualPipe: microbatches enter at both ends, every rank holds a stage of either direction, and the forward of
// one runs in one block with the backward of the other. DeepSeek-V3 (arXiv 2412.19437), section 3.2.1.
#include <fmt/format.h>

#include "sim/pipeline/dualpipe_steps.hpp"
#include "sim/pipeline/schedules.hpp"

namespace syncline::pipeline {
namespace {

std::optional<std::string> refuse(const Request& request) {
  const int p = request.ranks, m = request.microbatches;
  if (p % 2 != 0) return fmt::format("needs an even number of stages, not {}; try --stages {}", p, p + 1);
  if (m < 2 * p)
    return fmt::format("needs m ≥ 2p = {} microbatches, not {}; try --microbatches {}", 2 * p, m, 2 * p);
  if (m % 2 != 0)
    return fmt::format("needs an even number of microbatches, not {}; try --microbatches {}", m, m + 1);
  return std::nullopt;
}

/// Rank r holds stage r for microbatches 0 … m/2 − 1 and stage p − 1 − r for the others: two copies of the
/// weights, p + 1 activations on every rank. The second half of the ranks mirrors the first.
Order make(const Request& request) {
  const int p = request.ranks, each = request.microbatches / 2;
  return by_rank(p, request, [&](int rank) {
    const Lane down(rank, 0), up(p - 1 - rank, each);
    return rank < p / 2 ? dualpipe_steps(p / 2, rank, each, down, up)
                        : dualpipe_steps(p / 2, p - 1 - rank, each, up, down);
  });
}

}  // namespace

Generator dualpipe() {
  return {
      .name = "dualpipe",
      .title = "DualPipe",
      .summary = "microbatches enter at both ends; forward and backward fused; the weights are held twice",
      .accepts = "p even, m even, m ≥ 2p",
      .source = "DeepSeek-V3 Technical Report (arXiv 2412.19437), section 3.2.1; deepseek-ai/DualPipe",
      .placement = Placement::Both,
      .default_chunks = 2,
      .least_chunks = 2,
      .most_chunks = 2,
      .fuses = true,
      .refuse = refuse,
      .make = make};
}

}  // namespace syncline::pipeline
