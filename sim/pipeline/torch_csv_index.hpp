// Where each action of a PyTorch schedule stands.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/pipeline/torch_csv.hpp"

namespace syncline::pipeline {

/// A cell by rank and position in its row.
struct CellAt {
  int rank = 0;
  int cell = 0;
  friend bool operator==(const CellAt&, const CellAt&) = default;
};

/// Calls `visit(part)` for the one or two actions of a cell, idle ones too.
template <class Visit>
void for_each_part(const CsvCell& cell, const Visit& visit) {
  visit(CsvCell{cell.kind, cell.stage, cell.microbatch, {}, cell.column});
  if (cell.fused)
    visit(CsvCell{
        static_cast<CsvKind>(cell.fused->kind), cell.fused->stage, cell.fused->microbatch, {}, cell.column});
}

/// The other end of a transfer: 0SEND_F1 and 1RECV_F1, 1SEND_B1 and 0RECV_B1.
[[nodiscard]] CsvCell other_end(const CsvCell& transfer);

/// The first cell of each action. Looked up only, never walked over.
class CellIndex {
 public:
  explicit CellIndex(const std::vector<CsvRow>& rows);

  [[nodiscard]] std::optional<CellAt> find(CsvKind kind, int stage, int microbatch) const;
  [[nodiscard]] std::optional<CellAt> find(const CsvCell& part) const {
    return find(part.kind, part.stage, part.microbatch);
  }
  /// I or B: what hands the gradient on.
  [[nodiscard]] std::optional<CellAt> gradient(int stage, int microbatch) const;
  /// The rank of a stage's first computation.
  [[nodiscard]] std::optional<int> rank_of(int stage) const;

 private:
  std::unordered_map<std::uint64_t, CellAt> cells_;
  std::unordered_map<int, int> ranks_;  // by stage
};

}  // namespace syncline::pipeline
