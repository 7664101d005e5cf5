// An order completed to a PyTorch schedule, by the rules of PyTorch's lowering.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "sim/pipeline/action_table.hpp"
#include "sim/pipeline/replay.hpp"
#include "sim/pipeline/torch_csv_index.hpp"
#include "sim/pipeline/torch_csv_names.hpp"

namespace syncline::pipeline {
namespace {

CsvCell cell_of(const Block& block) {
  CsvCell cell{static_cast<CsvKind>(block.first.kind), block.first.stage, block.first.microbatch, {}, 0};
  if (block.fused) cell.fused = block.second;
  return cell;
}

std::vector<int> stages_of(const Block& block) {
  std::vector<int> stages;
  for_each_action(block, [&](const Action& action) {
    if (std::ranges::find(stages, action.stage) == stages.end()) stages.push_back(action.stage);
  });
  return stages;
}

/// By block: the next `count` different stages that the rank computes, from that block on.
std::vector<std::vector<int>> next_stages(const RankOrder& rank, std::size_t count) {
  std::vector<std::vector<int>> next(rank.size() + 1);
  for (std::size_t i = rank.size(); i-- > 0;) {
    next[i] = stages_of(rank[i]);
    for (const int stage : next[i + 1])
      if (next[i].size() < count && std::ranges::find(next[i], stage) == next[i].end())
        next[i].push_back(stage);
  }
  return next;
}

/// The parameters of the next few stages are gathered, others are dropped to make room. PyTorch keeps the
/// gathered stages in a Python set and drops them in its order: ascending for stages below 8, as here for
/// all; above, its order follows from hash values modulo the size of its table. Nothing depends on it.
CsvRow with_sharding(const RankOrder& rank, int most_unsharded) {
  CsvRow row;
  std::set<int> gathered;
  const auto reshard = [&](const std::set<int>& stages) {
    for (const int stage : stages) {
      row.push_back({CsvKind::Reshard, stage, 0, {}, 0});
      gathered.erase(stage);
    }
  };
  const std::vector<std::vector<int>> next = next_stages(rank, static_cast<std::size_t>(most_unsharded));
  for (std::size_t i = 0; i < rank.size(); ++i) {
    std::set<int> unused = gathered;
    for (const int stage : next[i]) unused.erase(stage);
    reshard(unused);
    for (const int stage : next[i])
      if (gathered.insert(stage).second) row.push_back({CsvKind::Unshard, stage, 0, {}, 0});
    row.push_back(cell_of(rank[i]));
  }
  reshard(std::set<int>(gathered));
  return row;
}

/// The gradients of a stage are summed as soon as its last microbatch is through.
CsvRow with_reductions(const CsvRow& row, int microbatches) {
  CsvRow result;
  std::map<int, int> through;  // microbatches, by stage
  for (const CsvCell& cell : row) {
    result.push_back(cell);
    for_each_part(cell, [&](const CsvCell& part) {
      const bool last_part = part.kind == CsvKind::Backward || part.kind == CsvKind::BackwardWeight;
      if (last_part && ++through[part.stage] == microbatches)
        result.push_back({CsvKind::ReduceGrad, part.stage, 0, {}, 0});
    });
  }
  return result;
}

/// Puts sends behind what makes and receives before what uses an activation or a gradient. Ranks take turns,
/// a cell each, as far as their inputs are there; a receive is put where its sender acts, or before its use.
class TransferPass {
 public:
  TransferPass(const Order& order, std::vector<CsvRow> rows, CsvReceives receives)
      : order_(order), rows_(std::move(rows)), receives_(receives), index_(rows_), result_(rows_.size()) {
    const std::size_t count =
        static_cast<std::size_t>(order.stages) * static_cast<std::size_t>(order.microbatches);
    activation_there_.resize(count);
    gradient_there_.resize(count);
  }

  std::vector<CsvRow> run() {
    std::vector<std::size_t> next(rows_.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < rows_.size(); ++rank) {
        if (next[rank] == rows_[rank].size() || !ready(rows_[rank][next[rank]])) continue;
        act(rank, rows_[rank][next[rank]++]);
        moved = true;
      }
    }
    for (std::size_t rank = 0; rank < rows_.size(); ++rank)
      if (next[rank] < rows_[rank].size()) throw std::invalid_argument(deadlock_text());
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::size_t at(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(order_.microbatches) +
           static_cast<std::size_t>(microbatch);
  }
  static bool makes_gradient(const CsvCell& part) {
    return part.kind == CsvKind::Backward || part.kind == CsvKind::BackwardInput;
  }

  [[nodiscard]] bool ready(const CsvCell& cell) const {
    bool ready = true;
    for_each_part(cell, [&](const CsvCell& part) {
      if (part.kind == CsvKind::Forward && part.stage > 0)
        ready = ready && activation_there_[at(part.stage, part.microbatch)];
      if (makes_gradient(part) && part.stage + 1 < order_.stages)
        ready = ready && gradient_there_[at(part.stage, part.microbatch)];
    });
    return ready;
  }

  void act(std::size_t rank, const CsvCell& cell) {
    if (receives_ == CsvReceives::AtUse)
      for_each_part(cell, [&](const CsvCell& part) {
        if (part.kind == CsvKind::Forward && crosses(part.stage, part.stage - 1))
          result_[rank].push_back({CsvKind::ReceiveForward, part.stage, part.microbatch, {}, 0});
        if (makes_gradient(part) && crosses(part.stage, part.stage + 1))
          result_[rank].push_back({CsvKind::ReceiveBackward, part.stage, part.microbatch, {}, 0});
      });
    result_[rank].push_back(cell);
    for_each_part(cell, [&](const CsvCell& part) {
      if (part.kind == CsvKind::Forward && part.stage + 1 < order_.stages)
        hand_on({CsvKind::SendForward, part.stage, part.microbatch, {}, 0}, activation_there_);
      if (makes_gradient(part) && part.stage > 0)
        hand_on({CsvKind::SendBackward, part.stage, part.microbatch, {}, 0}, gradient_there_);
    });
  }

  void hand_on(const CsvCell& send, std::vector<char>& there) {
    const CsvCell receive = other_end(send);
    there[at(receive.stage, receive.microbatch)] = 1;
    if (!crosses(send.stage, receive.stage)) return;
    result_[rank_of(send.stage)].push_back(send);
    if (receives_ == CsvReceives::AtSend) result_[rank_of(receive.stage)].push_back(receive);
  }

  [[nodiscard]] std::size_t rank_of(int stage) const {
    return static_cast<std::size_t>(*index_.rank_of(stage));
  }
  [[nodiscard]] bool crosses(int from, int to) const {
    return to >= 0 && to < order_.stages && rank_of(from) != rank_of(to);
  }
  [[nodiscard]] std::string deadlock_text() const { return "the order deadlocks: " + deadlock(order_); }

  const Order& order_;
  const std::vector<CsvRow> rows_;
  const CsvReceives receives_;
  const CellIndex index_;
  std::vector<CsvRow> result_;
  std::vector<char> activation_there_, gradient_there_;  // by stage and microbatch, as input of the stage
};

void refuse_what_torch_cannot_run(const Order& order, CsvNotation notation) {
  std::vector<int> rank_of(static_cast<std::size_t>(order.stages), -1);
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank)
    for (const Block& block : order.ranks[rank]) {
      if (block.fused && notation == CsvNotation::Old)
        throw std::invalid_argument(
            fmt::format("{} is a fused block, which PyTorch's old notation cannot write; take the new one",
                        to_text(block)));
      for_each_action(block, [&](const Action& action) {
        int& known = rank_of[static_cast<std::size_t>(action.stage)];
        if (known >= 0 && known != static_cast<int>(rank))
          throw std::invalid_argument(fmt::format(
              "stage {} is on ranks {} and {}, but PyTorch runs a stage on one rank alone; try dualpipe-v "
              "in place of dualpipe",
              action.stage, known, rank));
        known = static_cast<int>(rank);
      });
    }
}

/// Gives each cell its column in the text that is written, and says what there tells the notation.
void set_places(TorchCsv& csv) {
  for (CsvRow& row : csv.rows) {
    std::string& line = csv.lines.emplace_back();
    for (CsvCell& cell : row) {
      if (&cell != &row.front()) line += ',';
      cell.column = static_cast<int>(line.size()) + 1;
      line += to_text(cell, csv.notation);
    }
  }
  std::vector<std::vector<CsvText>> texts;
  for (const std::string& line : csv.lines) texts.push_back(split_cells(line));
  csv.told_by = tell_notation(texts).by;
}

}  // namespace

TorchCsv to_torch_csv(const Order& order, CsvForm form, CsvNotation notation, const CsvLowering& lowering) {
  SYNCLINE_CHECK(lowering.most_unsharded > 0, "a rank needs the parameters of the stage it computes");
  refuse_what_torch_cannot_run(order, notation);
  TorchCsv csv;
  csv.order = order;
  csv.form = form;
  csv.notation = notation;
  for (const RankOrder& rank : order.ranks) {
    CsvRow& row = csv.rows.emplace_back();
    if (form == CsvForm::ComputeOnly) {
      for (const Block& block : rank) row.push_back(cell_of(block));
      continue;
    }
    row = with_sharding(rank, lowering.most_unsharded);
    if (lowering.reduce_grad && notation == CsvNotation::New) row = with_reductions(row, order.microbatches);
  }
  if (form == CsvForm::ComputeComms)
    csv.rows = TransferPass(order, std::move(csv.rows), lowering.receives).run();
  set_places(csv);
  return csv;
}

}  // namespace syncline::pipeline
