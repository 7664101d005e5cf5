#include "sim/report/pipeline_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <stdexcept>

namespace syncline {
namespace {

using pipeline::Action;
using pipeline::ActionKind;
using pipeline::Block;
using pipeline::BlockTimes;

// What a cell can show, in the order of the legend; of equal shares the earlier is drawn.
enum Mark : std::size_t { Forward, Backward, BackwardInput, BackwardWeight, Fused, IdleMark, MarkCount };

struct MarkStyle {
  char letter;
  std::string_view filling;
  std::string_view colour, bright;  // ANSI, of the first chunk and of every second
  std::string_view legend;
};
constexpr std::array<MarkStyle, MarkCount> Styles{{
    {'F', "─", "\x1b[97;44m", "\x1b[30;104m", "forward"},
    {'B', "═", "\x1b[30;42m", "\x1b[30;102m", "backward"},
    {'I', "═", "\x1b[30;46m", "\x1b[30;106m", "backward for inputs"},
    {'W', "~", "\x1b[30;43m", "\x1b[30;103m", "backward for weights"},
    {'X', "▒", "\x1b[97;45m", "\x1b[30;105m", "forward and backward fused"},
    {' ', "·", "\x1b[90m", "\x1b[90m", "idle"},
}};
constexpr std::string_view TransferColour = "\x1b[36m", ColourOff = "\x1b[0m";
constexpr std::size_t LabelColumns = 8;  // "rank 12 "
constexpr double Rounding = 1e-6;        // of a column

Mark mark_of(const Block& block) {
  return block.fused ? Fused : static_cast<Mark>(block.first.kind);
}

struct Cell {
  Mark mark = IdleMark;
  bool second = false;  // of every second chunk
  std::string text;     // in place of the filling
};

class Drawing {
 public:
  Drawing(const PipelinePicture& picture, const PictureOptions& options) : in_(picture), options_(options) {
    if (options.columns < 40) throw std::invalid_argument("a picture needs at least 40 columns");
    rows_ = std::min(picture.blocks.size(), options.most_ranks);
    end_ = options.end;
    for (const auto& rank : picture.blocks)
      if (!rank.empty()) end_ = std::max(end_, rank.back().end);
    cells_ = static_cast<std::size_t>(options.columns) - LabelColumns;
    scale_ = end_ > Seconds(0) ? static_cast<double>(cells_) / end_.si() : 0;
    snap();
    for (const auto& rank : picture.transfers) with_transfers_ = with_transfers_ || !rank.empty();
  }

  std::string run() {
    std::string text;
    for (std::size_t rank = 0; rank < rows_; ++rank) {
      text += fmt::format("{:<{}}", fmt::format("rank {}", rank), LabelColumns) + paint(row(rank)) + "\n";
      if (with_transfers_) text += std::string(LabelColumns, ' ') + transfer_row(rank) + "\n";
    }
    if (rows_ < in_.blocks.size()) text += fmt::format("(and {} more ranks)\n", in_.blocks.size() - rows_);
    return text + axis() + legend();
  }

 private:
  [[nodiscard]] double position(Seconds time) const { return time.si() * scale_; }

  /// Whole columns for the shortest block, where all others are multiples of it.
  void snap() {
    Seconds unit = end_;
    for (const auto& rank : in_.blocks)
      for (const BlockTimes& block : rank)
        if (block.end > block.start) unit = std::min(unit, block.end - block.start);
    const double columns = std::floor(position(unit) + Rounding);
    if (columns < 1) return;
    const auto off_grid = [unit](Seconds time) {
      const double units = time / unit;
      return std::abs(units - std::round(units)) > Rounding;
    };
    for (const auto& rank : in_.blocks)
      for (const BlockTimes& block : rank)
        if (off_grid(block.start) || off_grid(block.end)) return;
    scale_ = columns / unit.si();
    cells_ = static_cast<std::size_t>(std::ceil(position(end_) - Rounding));
  }

  /// Calls visit(cell, share of it) for the cells that an interval touches.
  template <class Visit>
  void for_each_cell(Seconds start, Seconds end, const Visit& visit) const {
    const double from = position(start), to = std::min(position(end), static_cast<double>(cells_));
    for (auto cell = static_cast<std::size_t>(from + Rounding); static_cast<double>(cell) < to - Rounding;
         ++cell)
      visit(cell, std::min(to, static_cast<double>(cell) + 1) - std::max(from, static_cast<double>(cell)));
  }

  [[nodiscard]] std::vector<Cell> row(std::size_t rank) const {
    const auto& order = in_.order.ranks[rank];
    std::set<int> stages;
    for (const Block& block : order) stages.insert(block.first.stage);
    const auto second_chunk = [&stages](const Block& block) {
      return std::distance(stages.begin(), stages.find(block.first.stage)) % 2 == 1;
    };
    std::vector<std::array<double, MarkCount>> shares(cells_);
    std::vector<Cell> cells(cells_);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Mark mark = mark_of(order[i]);
      for_each_cell(in_.blocks[rank][i].start, in_.blocks[rank][i].end, [&](std::size_t cell, double share) {
        shares[cell][mark] += share;
        if (share > 0.5) cells[cell].second = second_chunk(order[i]);
      });
    }
    for (std::size_t cell = 0; cell < cells_; ++cell) {
      double busy = 0;
      for (const double share : shares[cell]) busy += share;
      shares[cell][IdleMark] = 1 - busy;
      cells[cell].mark = static_cast<Mark>(std::max_element(shares[cell].begin(), shares[cell].end()) -
                                           shares[cell].begin());
      if (cells[cell].mark == IdleMark) cells[cell].second = false;
    }
    for (std::size_t i = 0; i < order.size(); ++i) write_label(order[i], in_.blocks[rank][i], cells);
    return cells;
  }

  /// The longest label that fits the cells that show the block.
  void write_label(const Block& block, const BlockTimes& times, std::vector<Cell>& cells) const {
    auto first = static_cast<std::size_t>(std::lround(position(times.start)));
    const auto last = std::min(cells_, static_cast<std::size_t>(std::lround(position(times.end))));
    const Mark mark = mark_of(block);
    while (first < last && cells[first].mark != mark) ++first;
    if (first >= last) return;
    for (const std::string& label : labels(block, cells[first].second)) {
      if (label.size() > last - first) continue;
      for (std::size_t i = 0; i < label.size(); ++i) cells[first + i].text = label[i];
      return;
    }
  }

  [[nodiscard]] std::vector<std::string> labels(const Block& block, bool second) const {
    const std::string number = std::to_string(block.first.microbatch);
    const std::string other = block.fused ? std::to_string(block.second.microbatch) : "";
    const std::string both = number + "/" + other;
    if (options_.colour) return block.fused ? std::vector{both, number} : std::vector{number};
    const char upper = Styles[mark_of(block)].letter;
    const std::string letter(1, second ? static_cast<char>(upper - 'A' + 'a') : upper);
    if (block.fused) return {letter + both, letter + number, letter};
    return {letter + number, letter};
  }

  [[nodiscard]] std::string paint(const std::vector<Cell>& cells) const {
    std::string text;
    std::string_view colour;
    for (const Cell& cell : cells) {
      const MarkStyle& style = Styles[cell.mark];
      const std::string_view wanted = cell.second ? style.bright : style.colour;
      if (options_.colour && wanted != colour)
        text += std::string(colour.empty() ? "" : ColourOff) + std::string(wanted);
      colour = wanted;
      const bool blank = options_.colour && cell.mark != IdleMark;
      text += !cell.text.empty() ? cell.text : blank ? " " : std::string(style.filling);
    }
    return options_.colour ? text + std::string(ColourOff) : text;
  }

  [[nodiscard]] std::string transfer_row(std::size_t rank) const {
    std::vector<double> moving(cells_);
    for (const PictureTransfer& transfer : in_.transfers[rank])
      for_each_cell(transfer.start, transfer.end,
                    [&](std::size_t cell, double share) { moving[cell] += share; });
    std::string text;
    for (const double share : moving) text += share >= 0.5 - Rounding ? "▀" : share > 0.01 ? "▘" : " ";
    text.erase(text.find_last_not_of(' ') + 1);
    return options_.colour ? std::string(TransferColour) + text + std::string(ColourOff) : text;
  }

  /// Times at round figures, at least ten columns apart.
  [[nodiscard]] std::string axis() const {
    if (scale_ <= 0) return "";
    double step = std::pow(10, std::floor(std::log10(10 / scale_)));
    for (const double factor : {1.0, 2.0, 5.0, 10.0})
      if (step * factor * scale_ >= 10) {
        step *= factor;
        break;
      }
    std::string line(LabelColumns, ' ');
    for (int tick = 0;; ++tick) {
      const double time = tick * step;
      const std::size_t column = LabelColumns + static_cast<std::size_t>(std::lround(time * scale_));
      const std::string label = fmt::format("{:.4g}", time);
      if (column + label.size() > LabelColumns + cells_ && tick > 0) break;
      line.resize(std::max(line.size(), column), ' ');
      if (line.size() == column) line += label;
    }
    return line + "\n";
  }

  [[nodiscard]] std::string legend() const {
    std::array<bool, MarkCount> used{};
    used[IdleMark] = true;
    for (std::size_t rank = 0; rank < rows_; ++rank)
      for (const Block& block : in_.order.ranks[rank]) used[mark_of(block)] = true;
    std::string line(LabelColumns, ' ');
    for (std::size_t mark = 0; mark < MarkCount; ++mark) {
      if (!used[mark]) continue;
      const MarkStyle& style = Styles[mark];
      if (mark == IdleMark)
        line += fmt::format("{} {}", style.filling, style.legend);
      else if (options_.colour)
        line += fmt::format("{}  {} {}, ", style.colour, ColourOff, style.legend);
      else
        line += fmt::format("{}{} {}, ", style.letter, style.filling, style.legend);
    }
    if (with_transfers_) line += ", ▀ transfer";
    return line + "\n";
  }

  const PipelinePicture& in_;
  const PictureOptions& options_;
  std::size_t rows_ = 0, cells_ = 0;
  Seconds end_;
  double scale_ = 0;  // columns a second
  bool with_transfers_ = false;
};

}  // namespace

std::string pipeline_picture(const PipelinePicture& picture, const PictureOptions& options) {
  return Drawing(picture, options).run();
}

}  // namespace syncline
