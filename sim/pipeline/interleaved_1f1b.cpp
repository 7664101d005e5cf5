// Interleaved 1F1B: v chunks a rank, in a loop. Narayanan et al., SC 2021, section 2.2.2 and figure 4.
#include <fmt/format.h>

#include "sim/pipeline/microbatch_groups.hpp"
#include "sim/pipeline/rank_writer.hpp"
#include "sim/pipeline/schedules.hpp"

namespace syncline::pipeline {
namespace {

int group_size_of(const Request& request) {
  return request.group_size != 0 ? request.group_size
                                 : equal_groups(request.ranks, request.microbatches).value_or(0);
}

/// Megatron's condition: a group fills the pipeline, and what is left over does, too. PyTorch's own N always
/// goes.
bool works(int ranks, int microbatches, int group) {
  const int last = microbatches % group;
  return group == equal_groups(ranks, microbatches) ||
         (group >= ranks && group <= microbatches && (last == 0 || last >= ranks));
}

std::optional<std::string> refuse(const Request& request) {
  const int p = request.ranks, m = request.microbatches, group = request.group_size;
  if (group == 0 && equal_groups(p, m)) return std::nullopt;
  if (group > 0 && works(p, m, group)) return std::nullopt;

  int nearest = std::min(m, std::max(group, p));
  while (!works(p, m, nearest)) ++nearest;  // N = m always works
  if (group == 0) return fmt::format("{}, or --group-size {}", unequal_groups(p, m), nearest);
  if (m < p)
    return fmt::format("needs a group of all {} microbatches, as m < p; try --group-size {}", m, nearest);
  if (group < p || group > m)
    return fmt::format("needs a group of p = {} to m = {} microbatches, not {}; try --group-size {}", p, m,
                       group, nearest);
  return fmt::format(
      "needs a last group of at least p = {} microbatches, but groups of {} leave {} of {}; try "
      "--group-size {}",
      p, group, m % group, m, nearest);
}

/// Without hop time vmw + (p − 1)w, w of a chunk: the bubble is v times shorter than with 1F1B. Rank r holds
/// min(vm, (v − 1)N + 2(p − 1 − r) + 1) chunks.
Order make(const Request& request) {
  const int p = request.ranks, v = request.chunks;
  const MicrobatchGroups groups{p, v, request.microbatches, group_size_of(request)};
  return by_rank(p * v, request, [&](int rank) {
    const int before = 2 * (p - 1 - rank) + (v - 1) * groups.group_size + (request.paired ? 1 : 0);
    const int warm_up = std::min(groups.count(), before);
    const auto forward = [&](int k) { return groups.forward(rank, k); };
    const auto backward = [&](int k) { return groups.backward(rank, k, ActionKind::Backward); };
    RankOrder order;
    for (int k = 0; k < warm_up; ++k) order.emplace_back(forward(k));
    for (int k = warm_up; k < groups.count(); ++k) {
      if (request.paired) {
        order.emplace_back(forward(k), backward(k - warm_up));
        continue;
      }
      order.emplace_back(forward(k));
      order.emplace_back(backward(k - warm_up));
    }
    for (int k = groups.count() - warm_up; k < groups.count(); ++k) order.emplace_back(backward(k));
    return order;
  });
}

}  // namespace

Generator interleaved_1f1b() {
  return {
      .name = "interleaved-1f1b",
      .title = "interleaved 1F1B",
      .summary = "v chunks a rank divide the bubble by v; more hops and more activations",
      .accepts =
          "any p, v ≥ 1; without a group size m a multiple of max(1, ⌊m/p⌋); with group size N: p ≤ N ≤ m "
          "and m mod N = 0 or ≥ p",
      .source = "Narayanan et al., Megatron-LM (SC 2021), section 2.2.2; PyTorch ScheduleInterleaved1F1B",
      .default_chunks = 2,
      .most_chunks = 1024,
      .takes_group_size = true,
      .takes_paired = true,
      .refuse = refuse,
      .make = make};
}

}  // namespace syncline::pipeline
