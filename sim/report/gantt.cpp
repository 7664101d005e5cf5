#include "sim/report/gantt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/core/printable.hpp"
#include "sim/report/text.hpp"

namespace syncline {
namespace {

// What a cell can show, in the order of the legend; on equal times the earlier one is drawn.
enum Mark : std::size_t { Forward, Backward, OtherCompute, HostWorking, Moving, Waiting, Idle, MarkCount };

struct MarkStyle {
  std::string_view glyph;
  std::string_view colour;  // ANSI
  std::string_view legend;
};
constexpr std::array<MarkStyle, MarkCount> Styles{{
    {"█", "\x1b[34m", "forward"},
    {"▓", "\x1b[32m", "backward"},
    {"▒", "\x1b[35m", "optimizer, other"},
    {"▞", "\x1b[33m", "host at work"},
    {"▄", "\x1b[36m", "communication (lower: in part)"},
    {"░", "\x1b[31m", "waiting for other ranks"},
    {"·", "\x1b[90m", "idle"},
}};
constexpr std::string_view ColourOff = "\x1b[0m";

Mark compute_mark(Phase phase) {
  switch (phase) {
    case Phase::Forward: return Forward;
    case Phase::Backward:
    case Phase::BackwardInput:
    case Phase::BackwardWeight:
    case Phase::ForwardBackward: return Backward;
    case Phase::Optimizer:
    case Phase::Other: break;
  }
  return OtherCompute;
}

// The time that the cells show, s.
struct Axis {
  double start = 0, cell = 0;
  std::size_t cells = 0;
  [[nodiscard]] double position(Seconds time) const { return cell > 0 ? (time.si() - start) / cell : 0; }
};

struct Cell {
  std::array<double, MarkCount> share{};  // of the cell's time
  std::string text;                       // of a layer number, in place of the glyph

  [[nodiscard]] Mark mark() const {
    const auto longest = std::max_element(share.begin(), share.end());
    const auto mark = static_cast<Mark>(longest - share.begin());
    if (mark == Moving && *longest >= LeastShown) return Moving;
    double busy = 0;
    for (const double part : share) busy += part;
    return *longest >= 1 - busy - Rounding ? mark : Idle;
  }

  // Short transfers would vanish beside long idle times: their height tells how much of the cell they fill.
  [[nodiscard]] std::string_view glyph() const {
    static constexpr std::array<std::string_view, 4> Heights{"▁", "▂", "▃", "▄"};
    if (!text.empty()) return text;
    if (mark() != Moving) return Styles[mark()].glyph;
    return Heights[std::min<std::size_t>(3, static_cast<std::size_t>((share[Moving] + Rounding) * 4))];
  }

 private:
  static constexpr double LeastShown = 0.01;  // of a cell
  static constexpr double Rounding =
      1e-9;  // an op that fills half of a cell is drawn, however its times were rounded
};

struct Row {
  std::string label;
  std::vector<Cell> cells;

  void fill(const Axis& axis, Mark mark, Seconds from, Seconds to) {
    const double begin = axis.position(from), end = axis.position(to);
    for (auto i = static_cast<std::size_t>(std::max(0.0, begin));
         i < cells.size() && static_cast<double>(i) < end; ++i) {
      const double left_edge = static_cast<double>(i);
      cells[i].share[mark] += std::max(0.0, std::min(end, left_edge + 1) - std::max(begin, left_edge));
    }
  }

  // Writes the layer in the middle of the cells that lie wholly inside the op, if it leaves one of them on each side.
  void number(const Axis& axis, const Span& span, int layer) {
    const auto first = static_cast<std::size_t>(std::ceil(std::max(0.0, axis.position(span.start) - 1e-6)));
    const auto last =
        std::min(cells.size(), static_cast<std::size_t>(std::max(0.0, axis.position(span.end) + 1e-6)));
    const std::string digits = std::to_string(layer);
    if (last < first + digits.size() + 2) return;
    std::size_t at = first + (last - first - digits.size()) / 2;
    for (const char digit : digits) cells[at++].text = digit;
  }
};

class Picture {
 public:
  Picture(const Timeline& timeline, const GanttOptions& options) : timeline_(timeline), options_(options) {
    find_ranks();
    find_rows();
    find_axis();
    fill_rows();
  }

  [[nodiscard]] std::string text() {
    if (rows_.empty()) return "nothing ran: there is no picture to draw\n";
    std::string out;
    for (const Row& row : rows_) out += left(row.label, label_width_) + " " + cells_text(row) + "\n";
    out += axis_text() + legend_text();
    if (shown_.size() < ranks_with_spans_)
      out +=
          shown_.back() + 1 == shown_.size()
              ? fmt::format("ranks 0 to {} of {}; the others are not drawn\n", shown_.back(), timeline_.ranks)
              : fmt::format("{} of {} simulated ranks; the others are not drawn\n", shown_.size(),
                            ranks_with_spans_);
    return out;
  }

 private:
  static constexpr std::size_t AxisLabelWidth = 9;  // "time [ms]"
  static constexpr std::size_t NoRow = std::numeric_limits<std::size_t>::max();

  // While the host waits for an op it does nothing.
  [[nodiscard]] bool drawn(const Span& span) const {
    const TimelineOp& op = timeline_.ops.at(span.op);
    return place_of_.at(span.rank.value()) != NoRow && !(op.kind == SpanKind::Host && op.name == "host-wait");
  }

  [[nodiscard]] std::size_t tracks() const {
    return timeline_.streams.size() + 1;
  }  // of a rank; the last is its host

  std::size_t& row_index(const Span& span) {
    const TimelineOp& op = timeline_.ops[span.op];
    const std::size_t track = op.kind == SpanKind::Host ? timeline_.streams.size() : op.stream.value();
    return row_of_.at(place_of_[span.rank.value()] * tracks() + track);
  }

  // The first that ran something.
  void find_ranks() {
    place_of_.assign(timeline_.ranks, NoRow);
    std::vector<bool> ran(timeline_.ranks);
    for (const Span& span : timeline_.spans) ran.at(span.rank.value()) = true;
    for (std::size_t rank = 0; rank < ran.size(); ++rank) {
      if (!ran[rank]) continue;
      ++ranks_with_spans_;
      if (shown_.size() == options_.most_ranks) continue;
      place_of_[rank] = shown_.size();
      shown_.push_back(rank);
    }
  }

  // A row for each rank and stream that ran something, in order of rank and stream; and for its host, if that worked.
  void find_rows() {
    row_of_.assign(shown_.size() * tracks(), NoRow);
    for (const Span& span : timeline_.spans)
      if (drawn(span)) row_index(span) = 0;
    for (std::size_t i = 0; i < row_of_.size(); ++i) {
      if (row_of_[i] == NoRow) continue;
      row_of_[i] = rows_.size();
      const std::size_t rank = shown_[i / tracks()], track = i % tracks();
      const bool host = track == timeline_.streams.size();
      rows_.push_back(
          {printable(fmt::format("rank {} {}", rank, host ? "host" : timeline_.streams[track])), {}});
    }
  }

  // The step: from the first start to the last end, of ranks that are not drawn too.
  void find_axis() {
    const auto columns = static_cast<std::size_t>(options_.columns);
    for (const Row& row : rows_) label_width_ = std::max(label_width_, width(row.label));
    label_width_ = std::clamp(label_width_, AxisLabelWidth, columns / 2);
    axis_.cells = columns - label_width_ - 1;
    double first = std::numeric_limits<double>::infinity(), last = -first;
    for (const Span& span : timeline_.spans) {
      first = std::min(first, span.start.si());
      last = std::max(last, span.end.si());
    }
    if (!(last > first)) rows_.clear();
    axis_.start = first;
    axis_.cell = (last - first) / static_cast<double>(axis_.cells);
  }

  void fill_rows() {
    for (Row& row : rows_) row.cells.resize(axis_.cells);
    if (rows_.empty()) return;
    for (const Span& span : timeline_.spans) {
      if (!drawn(span)) continue;
      Row& row = rows_[row_index(span)];
      const TimelineOp& op = timeline_.ops[span.op];
      if (op.kind == SpanKind::Communication) {
        row.fill(axis_, Waiting, span.start, span.transfer);
        row.fill(axis_, Moving, span.transfer, span.end);
      } else if (op.kind == SpanKind::Host) {
        row.fill(axis_, HostWorking, span.start, span.end);
      } else {
        row.fill(axis_, compute_mark(op.tag.phase), span.start, span.end);
      }
      if (op.tag.layer >= 0) row.number(axis_, span, op.tag.layer);
    }
  }

  [[nodiscard]] std::string painted(Mark mark, std::string_view text) const {
    return options_.colour ? fmt::format("{}{}{}", Styles[mark].colour, text, ColourOff) : std::string(text);
  }

  [[nodiscard]] std::string cells_text(const Row& row) {
    std::string out, run;  // of cells with one mark
    Mark run_mark = Idle;
    for (const Cell& cell : row.cells) {
      const Mark mark = cell.mark();
      used_[mark] = true;
      if (mark != run_mark && !run.empty()) out += painted(run_mark, std::exchange(run, ""));
      run_mark = mark;
      run += cell.glyph();
    }
    return out + painted(run_mark, run);
  }

  // Ticks at round times with room for their labels; the unit stands in the column of labels.
  [[nodiscard]] std::string axis_text() const {
    struct Unit {
      std::string_view name;
      double seconds;
    };
    static constexpr std::array<Unit, 5> Units{
        {{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}, {"ns", 1e-9}, {"ps", 1e-12}}};
    static constexpr std::size_t LabelRoom = 8;  // least distance of ticks, cells
    const double total = axis_.cell * static_cast<double>(axis_.cells);
    const auto unit =
        std::find_if(Units.begin(), Units.end() - 1, [&](const Unit& u) { return total >= u.seconds; });
    const double least = axis_.cell * static_cast<double>(LabelRoom) / unit->seconds;
    double step = std::pow(10.0, std::floor(std::log10(least)));
    for (const double factor : {2.0, 2.5, 2.0})  // 1, 2, 5, 10
      if (step < least) step *= factor;

    std::string line, labels;
    std::size_t next = 0, label_end = 0;
    for (std::size_t cell = 0; cell < axis_.cells; ++cell) {
      const double time = static_cast<double>(next) * step;
      const bool tick = cell == static_cast<std::size_t>(time * unit->seconds / axis_.cell + 1e-6);
      line += tick ? "┬" : "─";
      if (!tick) continue;
      ++next;
      const std::string label = fmt::format("{:.10g}", time);
      if (cell + label.size() > axis_.cells) continue;
      labels += std::string(cell - label_end, ' ') + label;
      label_end = cell + label.size();
    }
    return fmt::format("{} {}\n{} {}\n", std::string(label_width_, ' '), line,
                       right(fmt::format("time [{}]", unit->name), label_width_), labels);
  }

  // The marks that occur, on as many lines as it takes.
  [[nodiscard]] std::string legend_text() const {
    const auto columns = static_cast<std::size_t>(options_.columns);
    std::vector<std::pair<std::string, std::size_t>> entries;  // text with colours, its width
    for (std::size_t mark = 0; mark < MarkCount; ++mark) {
      if (!used_[mark]) continue;
      const MarkStyle& style = Styles[mark];
      entries.emplace_back(fmt::format("{} {}", painted(static_cast<Mark>(mark), style.glyph), style.legend),
                           2 + width(style.legend));
    }
    const bool numbered = std::any_of(rows_.begin(), rows_.end(), [](const Row& row) {
      return std::any_of(row.cells.begin(), row.cells.end(),
                         [](const Cell& cell) { return !cell.text.empty(); });
    });
    if (numbered) entries.emplace_back("3 layer", 7);
    std::string out;
    std::size_t used = 0;
    for (const auto& [text, size] : entries) {
      const std::size_t gap = used == 0 ? 0 : 3;
      if (used + gap + size > columns) {
        out += "\n";
        used = 0;
      }
      if (used > 0) out += "   ";
      out += text;
      used += (used == 0 ? 0 : gap) + size;
    }
    return out + "\n";
  }

  const Timeline& timeline_;
  const GanttOptions& options_;
  std::vector<std::size_t> shown_;     // ranks, ascending
  std::vector<std::size_t> place_of_;  // by rank: its place among them
  std::size_t ranks_with_spans_ = 0;
  std::vector<std::size_t> row_of_;  // by rank and stream
  std::vector<Row> rows_;
  std::size_t label_width_ = 0;
  Axis axis_;
  std::array<bool, MarkCount> used_{};
};

}  // namespace

std::string gantt(const Timeline& timeline, const GanttOptions& options) {
  static constexpr int FewestColumns = 40;
  if (options.columns < FewestColumns)
    throw std::invalid_argument(fmt::format("{} columns are too few for a picture; at least {} are needed",
                                            options.columns, FewestColumns));
  return Picture(timeline, options).text();
}

}  // namespace syncline
