#include "backends/cuda/sizes.hpp"

#include <algorithm>
#include <cmath>

namespace syncline::cuda {

std::size_t padded(Bytes bytes) {
  const auto whole = static_cast<std::size_t>(std::ceil(bytes.si()));
  return (whole + Word - 1) / Word * Word;
}

std::size_t part_of(Bytes whole, std::size_t members) {
  return std::max(Word, padded(whole / static_cast<double>(members)));
}

std::vector<std::size_t> offsets_of(std::span<const Bytes> parts) {
  std::vector<std::size_t> offsets{0};
  for (const Bytes part : parts) offsets.push_back(offsets.back() + padded(part));
  return offsets;
}

BufferBytes buffer_bytes(const CollectiveTask& task, std::size_t members) {
  const bool first = task.position == 0;
  const std::size_t part = part_of(task.bytes, members), parts = members * part;
  const std::size_t whole = part_of(task.bytes, 1);
  switch (task.kind) {
    case CollectiveKind::AllReduce: return {parts, parts};
    case CollectiveKind::AllGather: return {part, parts};
    case CollectiveKind::ReduceScatter: return {parts, part};
    case CollectiveKind::Broadcast: return {first ? whole : 0, whole};
    case CollectiveKind::Reduce: return {whole, first ? whole : 0};
    case CollectiveKind::Scatter: return {first ? parts : 0, part};
    case CollectiveKind::Gather: return {part, first ? parts : 0};
    case CollectiveKind::Shift: return {whole, whole};
    case CollectiveKind::AllToAll: return {offsets_of(task.to).back(), offsets_of(task.from).back()};
  }
  return {};
}

}  // namespace syncline::cuda
