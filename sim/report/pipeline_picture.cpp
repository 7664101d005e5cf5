#include "sim/report/pipeline_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <stdexcept>

#include "sim/core/error.hpp"
#include "sim/report/text.hpp"

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
    {'I', "≡", "\x1b[30;46m", "\x1b[30;106m", "backward for inputs"},
    {'W', "~", "\x1b[30;43m", "\x1b[30;103m", "backward for weights"},
    {'X', "▒", "\x1b[97;45m", "\x1b[30;105m", "forward and backward fused"},
    {' ', "·", "\x1b[90m", "\x1b[90m", "idle"},
}};
constexpr std::string_view TransferColour = "\x1b[36m", ColourOff = "\x1b[0m";
constexpr std::size_t LabelColumns = 8;  // "rank 12 "
constexpr double Rounding = 1e-6;        // of a column
constexpr double MostColumns = 1000;     // that are worth asking for

Mark mark_of(const Block& block) {
  return block.fused ? Fused : static_cast<Mark>(block.first.kind);
}

struct Cell {
  Mark mark = IdleMark;
  bool second = false;  // of every second chunk
  std::string text;     // in place of the filling
};

/// Text that is not broken between lines.
struct Piece {
  std::string text;
  std::size_t columns;  // without what sets colours
};

void add_words(std::string_view sentence, std::vector<Piece>& pieces) {
  for (std::size_t at = 0; at < sentence.size();) {
    const std::size_t end = std::min(sentence.find(' ', at), sentence.size());
    const std::string_view word = sentence.substr(at, end - at);
    pieces.push_back({std::string(word), width(word)});
    at = end + 1;
  }
}

/// Lines of at most `columns`, below the rows of ranks.
std::string wrapped(const std::vector<Piece>& pieces, std::size_t columns) {
  std::string text;
  std::size_t used = columns;
  for (const Piece& piece : pieces) {
    const bool begins = used + 1 + piece.columns > columns;
    if (begins)
      text += (text.empty() ? "" : "\n") + std::string(LabelColumns, ' ');
    else
      text += ' ';
    text += piece.text;
    used = (begins ? LabelColumns : used + 1) + piece.columns;
  }
  return text + "\n";
}

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
    return text + axis() + legend() + too_narrow();
  }

 private:
  [[nodiscard]] double position(Seconds time) const { return time.si() * scale_; }

  /// Whole columns for the shortest block, where all others are multiples of it.
  void snap() {
    shortest_ = end_;
    for (const auto& rank : in_.blocks)
      for (const BlockTimes& block : rank)
        if (block.end > block.start) shortest_ = std::min(shortest_, block.end - block.start);
    const double columns = std::floor(position(shortest_) + Rounding);
    if (columns < 1) return;
    const auto off_grid = [unit = shortest_](Seconds time) {
      const double units = time / unit;
      return std::abs(units - std::round(units)) > Rounding;
    };
    for (const auto& rank : in_.blocks)
      for (const BlockTimes& block : rank)
        if (off_grid(block.start) || off_grid(block.end)) return;
    scale_ = columns / shortest_.si();
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

  /// The stages of a rank, in the order of its chunks.
  [[nodiscard]] std::set<int> stages_of(std::size_t rank) const {
    std::set<int> stages;
    for (const Block& block : in_.order.ranks[rank]) stages.insert(block.first.stage);
    return stages;
  }

  [[nodiscard]] std::vector<Cell> row(std::size_t rank) const {
    const auto& order = in_.order.ranks[rank];
    const std::set<int> stages = stages_of(rank);
    const auto second_chunk = [&stages](const Block& block) {
      return std::distance(stages.begin(), stages.find(block.first.stage)) % 2 == 1;
    };
    using Shares = std::array<double, MarkCount>;
    std::vector<Shares> shares(cells_), of_second(cells_);
    std::vector<Cell> cells(cells_);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Mark mark = mark_of(order[i]);
      for_each_cell(in_.blocks[rank][i].start, in_.blocks[rank][i].end, [&](std::size_t cell, double share) {
        shares[cell][mark] += share;
        if (second_chunk(order[i])) of_second[cell][mark] += share;
      });
    }
    for (std::size_t cell = 0; cell < cells_; ++cell) {
      double busy = 0;
      for (const double share : shares[cell]) busy += share;
      shares[cell][IdleMark] = 1 - busy;
      const Mark mark = static_cast<Mark>(std::max_element(shares[cell].begin(), shares[cell].end()) -
                                          shares[cell].begin());
      cells[cell].mark = mark;
      cells[cell].second = of_second[cell][mark] > shares[cell][mark] / 2;
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
      const std::string label = written(Seconds(time));
      if (column + label.size() > LabelColumns + cells_ && tick > 0) break;
      line.resize(std::max(line.size(), column), ' ');
      if (line.size() == column) line += label;
    }
    return line + "\n";
  }

  [[nodiscard]] std::string written(Seconds time) const {
    return options_.time ? options_.time(time) : fmt::format("{:.4g}", time.si());
  }

  [[nodiscard]] std::string legend() const {
    std::array<bool, MarkCount> used{};
    used[IdleMark] = true;
    std::size_t chunks = 0;
    for (std::size_t rank = 0; rank < rows_; ++rank) {
      chunks = std::max(chunks, stages_of(rank).size());
      for (const Block& block : in_.order.ranks[rank]) used[mark_of(block)] = true;
    }
    std::vector<Piece> pieces;
    for (std::size_t mark = 0; mark < MarkCount; ++mark)
      if (used[mark]) pieces.push_back(legend_of(Styles[mark], mark != IdleMark));
    if (with_transfers_) pieces.push_back({"▀ transfer", 10});
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
      pieces[i].text += ',';
      ++pieces[i].columns;
    }
    if (chunks > 1) {
      pieces.back().text += ';';
      ++pieces.back().columns;
      add_words(
          fmt::format("{}: a rank's second{} chunk", options_.colour ? "lighter colours" : "small letters",
                      chunks > 3 ? ", fourth, ..." : ""),
          pieces);
    }
    return wrapped(pieces, static_cast<std::size_t>(options_.columns));
  }

  [[nodiscard]] Piece legend_of(const MarkStyle& style, bool block) const {
    if (block && options_.colour)
      return {fmt::format("{}  {} {}", style.colour, ColourOff, style.legend), 3 + width(style.legend)};
    const std::string letter(block ? 1 : 0, style.letter);
    std::string text = fmt::format("{}{} {}", letter, style.filling, style.legend);
    const std::size_t columns = width(text);
    return {std::move(text), columns};
  }

  /// What a column stands for where blocks are narrower; else nothing.
  [[nodiscard]] std::string too_narrow() const {
    if (scale_ <= 0 || position(shortest_) >= 1 - Rounding) return "";
    std::size_t most = 0;  // blocks in a column
    for (std::size_t rank = 0; rank < rows_; ++rank) {
      std::vector<std::size_t> blocks(cells_);
      for (const BlockTimes& block : in_.blocks[rank])
        for_each_cell(block.start, block.end,
                      [&](std::size_t cell, double) { most = std::max(most, ++blocks[cell]); });
    }
    std::string note =
        fmt::format("a column covers {}: up to {} block{} of a rank, and shows what takes most of it",
                    written(Seconds(1 / scale_)), most, most == 1 ? "" : "s");
    const double enough = static_cast<double>(LabelColumns) + std::ceil(end_ / shortest_ - Rounding);
    if (enough <= MostColumns) note += fmt::format("; --columns {:.0f} would show each", enough);
    std::vector<Piece> words;
    add_words(note, words);
    return wrapped(words, static_cast<std::size_t>(options_.columns));
  }

  const PipelinePicture& in_;
  const PictureOptions& options_;
  std::size_t rows_ = 0, cells_ = 0;
  Seconds end_, shortest_;
  double scale_ = 0;  // columns a second
  bool with_transfers_ = false;
};

}  // namespace

PipelinePicture picture_of_textbook(const pipeline::Order& order, const Schedule& schedule,
                                    const Timeline& timeline) {
  PipelinePicture picture{order, {}, {}};
  std::size_t next = 0;  // span
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    auto& blocks = picture.blocks.emplace_back();
    auto& transfers = picture.transfers.emplace_back();
    for (const Op& op : schedule.role(RankId(rank)).program) {
      const Span& span = timeline.spans.at(next++);
      if (std::holds_alternative<Compute>(op.body)) blocks.push_back({span.start, span.end});
      if (op.communicates() && span.end > span.transfer) transfers.push_back({span.transfer, span.end});
    }
    SYNCLINE_CHECK(blocks.size() == order.ranks[rank].size(), "a compute op is a block of the order");
  }
  return picture;
}

std::string pipeline_picture(const PipelinePicture& picture, const PictureOptions& options) {
  return Drawing(picture, options).run();
}

}  // namespace syncline
