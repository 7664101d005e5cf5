#include "backends/cuda/rounds.hpp"

namespace syncline::cuda {
namespace {

/// One part of `bytes` from each member, side by side.
Round gather(Side side, std::uint32_t members, std::size_t part, std::size_t stride_in_source) {
  Round round;
  for (std::uint32_t member = 0; member < members; ++member)
    round.copies.push_back({member, side, member * stride_in_source, member * part, part});
  return round;
}

Round exchange(std::span<const CollectiveTask* const> tasks, std::uint32_t position) {
  Round round;
  const std::vector<std::size_t> targets = offsets_of(tasks[position]->from);
  for (std::uint32_t member = 0; member < tasks.size(); ++member) {
    const std::size_t bytes = targets[member + 1] - targets[member];
    const std::size_t source = offsets_of(tasks[member]->to)[position];
    if (bytes > 0) round.copies.push_back({member, Side::Send, source, targets[member], bytes});
  }
  return round;
}

}  // namespace

std::vector<Round> rounds_of(std::span<const CollectiveTask* const> tasks, std::uint32_t position) {
  const CollectiveTask& task = *tasks[position];
  const auto members = static_cast<std::uint32_t>(tasks.size());
  const std::size_t part = part_of(task.bytes, members), whole = part_of(task.bytes, 1);
  const std::size_t mine = position * part;
  const bool first = position == 0;
  const std::uint32_t before = (position + members - 1) % members;
  switch (task.kind) {
    case CollectiveKind::AllReduce:
      return {{{}, {{mine, mine, part}}}, gather(Side::Receive, members, part, part)};
    case CollectiveKind::AllGather: return {gather(Side::Send, members, part, 0)};
    case CollectiveKind::ReduceScatter: return {{{}, {{mine, 0, part}}}};
    case CollectiveKind::Broadcast: return {{{{0, Side::Send, 0, 0, whole}}, {}}};
    case CollectiveKind::Reduce: return {first ? Round{{}, {{0, 0, whole}}} : Round{}};
    case CollectiveKind::Scatter: return {{{{0, Side::Send, mine, 0, part}}, {}}};
    case CollectiveKind::Gather: return {first ? gather(Side::Send, members, part, 0) : Round{}};
    case CollectiveKind::Shift: return {{{{before, Side::Send, 0, 0, whole}}, {}}};
    case CollectiveKind::AllToAll: return {exchange(tasks, position)};
  }
  return {};
}

}  // namespace syncline::cuda
