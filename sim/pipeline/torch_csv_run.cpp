// A PyTorch schedule run cell by cell, for deadlocks and crossed messages.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/pipeline/torch_csv_index.hpp"

namespace syncline::pipeline {
namespace {

class Runner {
 public:
  Runner(const TorchCsv& csv, CsvTransfers transfers)
      : csv_(csv), transfers_(transfers), index_(csv.rows), next_(csv.rows.size()) {}

  /// The cycle, when it comes to a halt.
  std::vector<Diagnostic> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < ranks(); ++rank)
        while (!at_end(rank) && !awaited(rank)) {
          ++next_[static_cast<std::size_t>(rank)];
          moved = true;
        }
    }
    for (int rank = 0; rank < ranks(); ++rank)
      if (!at_end(rank)) return {cycle(rank)};
    return {};
  }

  /// Of each pair of ranks the first message that is received out of turn.
  std::vector<Diagnostic> crossed() const {
    std::map<std::pair<int, int>, std::vector<CellAt>> sent, received;  // by sender and receiver
    for (int rank = 0; rank < ranks(); ++rank)
      for (int i = 0; i < static_cast<int>(row(rank).size()); ++i) {
        const CsvCell& cell = row(rank)[static_cast<std::size_t>(i)];
        if (!cell.transfers()) continue;
        const std::optional<CellAt> other = index_.find(other_end(cell));
        if (!other) continue;
        if (is_send(cell))
          sent[{rank, other->rank}].push_back({rank, i});
        else
          received[{other->rank, rank}].push_back({rank, i});
      }
    std::vector<Diagnostic> found;
    for (const auto& [pair, sends] : sent) {
      const std::vector<CellAt>& receives = received[pair];
      for (std::size_t i = 0; i < std::min(sends.size(), receives.size()); ++i) {
        if (other_end(cell_at(sends[i])) == cell_at(receives[i])) continue;
        found.push_back(
            {place(receives[i]),
             fmt::format("{} would get what {} sends: each is message {} from rank {} to rank {}, and NCCL "
                         "matches messages by their order alone",
                         named(receives[i]), located(sends[i]), i + 1, pair.first, pair.second)});
        break;
      }
    }
    return found;
  }

 private:
  static bool is_send(const CsvCell& cell) {
    return cell.kind == CsvKind::SendForward || cell.kind == CsvKind::SendBackward;
  }

  [[nodiscard]] int ranks() const { return static_cast<int>(csv_.rows.size()); }
  [[nodiscard]] const CsvRow& row(int rank) const { return csv_.rows[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const CsvCell& cell_at(CellAt at) const {
    return row(at.rank)[static_cast<std::size_t>(at.cell)];
  }
  [[nodiscard]] int next(int rank) const { return next_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool at_end(int rank) const { return next(rank) == static_cast<int>(row(rank).size()); }
  [[nodiscard]] bool done(CellAt at) const { return at.cell < next(at.rank); }
  [[nodiscard]] bool reached(CellAt at) const { return at.cell <= next(at.rank); }

  /// What the next cell of a rank waits for, if anything.
  [[nodiscard]] std::optional<CellAt> awaited(int rank) const {
    std::optional<CellAt> missing;
    const auto need = [&](std::optional<CellAt> at, bool is_there) {
      if (at && !is_there && !missing) missing = at;
    };
    for_each_part(cell_at({rank, next(rank)}), [&](const CsvCell& part) {
      if (part.transfers()) {
        const std::optional<CellAt> other = index_.find(other_end(part));
        if (transfers_ == CsvTransfers::Rendezvous)
          need(other, other && reached(*other));
        else if (!is_send(part))
          need(other, other && done(*other));
      } else if (part.computes()) {
        for (const std::optional<CellAt>& input : inputs(rank, part)) need(input, input && done(*input));
      }
    });
    return missing;
  }

  [[nodiscard]] std::vector<std::optional<CellAt>> inputs(int rank, const CsvCell& part) const {
    // From another rank of a schedule with transfers comes the receive, else the computation itself.
    const auto from = [&](std::optional<CellAt> producer, CsvKind receive) {
      const bool received = csv_.form == CsvForm::ComputeComms && producer && producer->rank != rank;
      return received ? index_.find(receive, part.stage, part.microbatch) : producer;
    };
    switch (part.kind) {
      case CsvKind::Forward:
        return {
            from(index_.find(CsvKind::Forward, part.stage - 1, part.microbatch), CsvKind::ReceiveForward)};
      case CsvKind::Backward:
      case CsvKind::BackwardInput:
        return {index_.find(CsvKind::Forward, part.stage, part.microbatch),
                from(index_.gradient(part.stage + 1, part.microbatch), CsvKind::ReceiveBackward)};
      default: return {index_.gradient(part.stage, part.microbatch)};
    }
  }

  [[nodiscard]] Diagnostic cycle(int rank) const {
    std::vector<int> path;
    while (std::ranges::find(path, rank) == path.end()) {
      path.push_back(rank);
      rank = awaited(rank)->rank;
    }
    path.erase(path.begin(), std::ranges::find(path, rank));
    std::string text = "deadlock: ";
    for (const int waiting : path) {
      const CellAt here{waiting, next(waiting)}, there = *awaited(waiting);
      if (waiting != path.front()) text += "; ";
      text += fmt::format("rank {} waits in {} for {} of rank {}", waiting, located(here), located(there),
                          there.rank);
      if (!reached(there))
        text += fmt::format(", which comes after {}", named({there.rank, next(there.rank)}));
    }
    return {place({path.front(), next(path.front())}), text};
  }

  [[nodiscard]] std::string named(CellAt at) const { return to_text(cell_at(at), csv_.notation); }
  [[nodiscard]] std::string located(CellAt at) const {
    return fmt::format("{} (line {}, column {})", named(at), at.rank + 1, cell_at(at).column);
  }
  [[nodiscard]] Place place(CellAt at) const {
    return {csv_.file, at.rank + 1, cell_at(at).column, csv_.lines[static_cast<std::size_t>(at.rank)]};
  }

  const TorchCsv& csv_;
  CsvTransfers transfers_;
  const CellIndex index_;
  std::vector<int> next_;  // by rank: the cell that is not done yet
};

}  // namespace

std::vector<Diagnostic> check_communication(const TorchCsv& csv, CsvTransfers transfers) {
  SYNCLINE_CHECK(csv.lines.size() == csv.rows.size(), "a schedule that was read or made by lowering");
  Runner runner(csv, transfers);
  std::vector<Diagnostic> wrong = runner.run();
  for (Diagnostic& one : runner.crossed()) wrong.push_back(std::move(one));
  return wrong;
}

}  // namespace syncline::pipeline
