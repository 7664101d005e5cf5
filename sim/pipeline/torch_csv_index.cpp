#include "sim/pipeline/torch_csv_index.hpp"

namespace syncline::pipeline {
namespace {

// Stages and microbatches have less than eight digits.
std::uint64_t key(CsvKind kind, int stage, int microbatch) {
  return (static_cast<std::uint64_t>(kind) << 48) | (static_cast<std::uint64_t>(stage) << 24) |
         static_cast<std::uint64_t>(microbatch);
}

}  // namespace

CsvCell other_end(const CsvCell& transfer) {
  CsvCell other = transfer;
  switch (transfer.kind) {
    case CsvKind::SendForward:
      other.kind = CsvKind::ReceiveForward;
      ++other.stage;
      break;
    case CsvKind::ReceiveForward:
      other.kind = CsvKind::SendForward;
      --other.stage;
      break;
    case CsvKind::SendBackward:
      other.kind = CsvKind::ReceiveBackward;
      --other.stage;
      break;
    case CsvKind::ReceiveBackward:
      other.kind = CsvKind::SendBackward;
      ++other.stage;
      break;
    default: SYNCLINE_CHECK(false, "only a transfer has another end");
  }
  return other;
}

CellIndex::CellIndex(const std::vector<CsvRow>& rows) {
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    for (std::size_t i = 0; i < rows[rank].size(); ++i)
      for_each_part(rows[rank][i], [&](const CsvCell& part) {
        if (part.kind == CsvKind::Idle) return;
        const CellAt at{static_cast<int>(rank), static_cast<int>(i)};
        cells_.try_emplace(key(part.kind, part.stage, part.microbatch), at);
        if (part.computes()) ranks_.try_emplace(part.stage, at.rank);
      });
}

std::optional<CellAt> CellIndex::find(CsvKind kind, int stage, int microbatch) const {
  if (stage < 0) return std::nullopt;
  const auto found = cells_.find(key(kind, stage, microbatch));
  return found == cells_.end() ? std::nullopt : std::optional<CellAt>(found->second);
}

std::optional<CellAt> CellIndex::gradient(int stage, int microbatch) const {
  const std::optional<CellAt> input = find(CsvKind::BackwardInput, stage, microbatch);
  return input ? input : find(CsvKind::Backward, stage, microbatch);
}

std::optional<int> CellIndex::rank_of(int stage) const {
  const auto found = ranks_.find(stage);
  return found == ranks_.end() ? std::nullopt : std::optional<int>(found->second);
}

}  // namespace syncline::pipeline
