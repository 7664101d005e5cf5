#include "sim/compare/comparison_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/compare/names.hpp"
#include "sim/core/units.hpp"

namespace syncline::compare {
namespace {

using Json = nlohmann::ordered_json;

// Kinds of marks, as in the terminal's picture.
enum Mark : std::uint8_t { Forward, Backward, OtherCompute, Host, Moving, Waiting };
struct MarkStyle {
  std::string_view colour, legend;
};
constexpr std::array<MarkStyle, 6> Styles{{{"#0072b2", "forward"},
                                           {"#009e73", "backward"},
                                           {"#cc79a7", "optimizer, other"},
                                           {"#e69f00", "host at work"},
                                           {"#56b4e9", "communication"},
                                           {"#d55e00", "waiting for other ranks"}}};

Mark mark_of(const TimelineOp& op) {
  if (op.kind == SpanKind::Communication) return Moving;
  if (op.kind == SpanKind::Host) return Host;
  const Phase phase = op.tag.phase;
  if (phase == Phase::Forward) return Forward;
  return phase == Phase::Optimizer || phase == Phase::Other ? OtherCompute : Backward;
}

// What is said of a span beside its times.
enum Note : std::uint8_t { Same, HasMoved, OnlyHere };

struct Row {
  std::string stream;
  Json a = Json::array(), b = Json::array();  // spans, one after another, as Page::add writes them
  std::map<std::uint32_t, std::size_t> place_a, place_b;  // of a span among them
};

class Page {
 public:
  Page(const Comparison& comparison, const TextOptions& options) : c_(comparison), options_(options) {
    find_notes();
    first_ = std::numeric_limits<double>::infinity();
    last_ = -first_;
    for (const Timeline* timeline : {&c_.a.timeline, &c_.b.timeline})
      for (const Span& span : timeline->spans) {
        first_ = std::min(first_, span.start.si());
        last_ = std::max(last_, span.end.si());
      }
  }

  [[nodiscard]] std::string text() {
    Json rows = Json::array();
    const std::uint32_t ranks = std::max(c_.a.timeline.ranks, c_.b.timeline.ranks);
    std::uint32_t rank = 0;
    for (; rank < ranks && drawn_ < MostDrawn; ++rank) add_rank(rank, rows);
    Json page{{"a", side(options_.name_a, c_.a)},
              {"b", side(options_.name_b, c_.b)},
              {"length", (last_ - first_) * 1e6},
              {"ops", texts_},
              {"rows", rows}};
    if (rank < ranks)
      page["note"] = fmt::format("ranks 0 to {} of {}; the others are not drawn", rank - 1, ranks);
    for (const MarkStyle& style : Styles) page["marks"].push_back({style.colour, style.legend});
    return escaped(page.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

 private:
  // Text in a script ends at "</", wherever that stands.
  static std::string escaped(std::string_view json) {
    std::string text;
    for (const char letter : json) {
      if (letter == '<')
        text += "\\u003c";
      else
        text += letter;
    }
    return text;
  }

  static Json side(const std::string& name, const Side& side) {
    return {{"name", name},
            {"source", side.timeline.source},
            {"step", to_text(side.step_time)},
            {"ops", side.timeline.spans.size()}};
  }

  void find_notes() {
    notes_a_.assign(c_.a.timeline.spans.size(), OnlyHere);
    notes_b_.assign(c_.b.timeline.spans.size(), OnlyHere);
    partner_.assign(c_.a.timeline.spans.size(), 0);
    for (const Pair& pair : c_.alignment.pairs) {
      notes_a_[pair.a] = notes_b_[pair.b] = Same;
      partner_[pair.a] = pair.b;
    }
    for (const Moved& moved : c_.moved) {
      const Pair& pair = c_.alignment.pairs[moved.pair];
      notes_a_[pair.a] = notes_b_[pair.b] = HasMoved;
    }
  }

  // Start, length, waiting [µs], text, mark, note, place of the partner.
  void add(Json& list, const Timeline& timeline, std::uint32_t position, Note note) {
    const Span& span = timeline.spans[position];
    const TimelineOp& op = timeline.ops[span.op];
    const auto microseconds = [](double seconds) { return std::round(seconds * 1e12) / 1e6; };
    const Mark mark = is_host_wait(op) ? Waiting : mark_of(op);
    list.push_back({microseconds(span.start.si() - first_), microseconds((span.end - span.start).si()),
                    microseconds(waiting_of(op, span).si()), text_number(op_text(op)), mark, note, -1});
    ++drawn_;
  }

  std::size_t text_number(std::string text) {
    const auto [place, is_new] = numbers_.try_emplace(std::move(text), texts_.size());
    if (is_new) texts_.push_back(place->first);
    return place->second;
  }

  void add_rank(std::uint32_t rank, Json& rows) {
    std::vector<Row> streams;
    const auto row_of = [&](std::string_view stream) -> Row& {
      const auto known = std::ranges::find(streams, stream, &Row::stream);
      if (known != streams.end()) return *known;
      streams.emplace_back().stream = stream;
      return streams.back();
    };
    const auto add_side = [&](const Timeline& timeline, const std::vector<Note>& notes, Json Row::*list,
                              std::map<std::uint32_t, std::size_t> Row::*place) {
      const auto [begin, end] = std::ranges::equal_range(timeline.spans, RankId(rank), {}, &Span::rank);
      for (auto span = begin; span != end; ++span) {
        const auto position = static_cast<std::uint32_t>(span - timeline.spans.begin());
        Row& row = row_of(stream_of(timeline, timeline.ops[span->op]));
        (row.*place)[position] = (row.*list).size();
        add(row.*list, timeline, position, notes[position]);
      }
    };
    add_side(c_.a.timeline, notes_a_, &Row::a, &Row::place_a);
    add_side(c_.b.timeline, notes_b_, &Row::b, &Row::place_b);
    for (Row& row : streams) {
      for (const auto& [position, place] : row.place_a) {
        if (notes_a_[position] == OnlyHere) continue;
        const std::size_t other = row.place_b.at(partner_[position]);
        row.a[place].back() = other;
        row.b[other].back() = place;
      }
      rows.push_back(
          {{"rank", rank}, {"stream", row.stream}, {"a", std::move(row.a)}, {"b", std::move(row.b)}});
    }
  }

  const Comparison& c_;
  const TextOptions& options_;
  double first_ = 0, last_ = 0;  // s
  std::vector<Note> notes_a_, notes_b_;
  std::vector<std::uint32_t> partner_;  // of A's spans
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::size_t drawn_ = 0;
};

constexpr std::string_view Head = R"page(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>syncline compare</title>
<style>
  :root { color-scheme: light dark; --ink: #1f2328; --paper: #ffffff; --line: #d8dce0; }
  @media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #3a414a; } }
  body { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; color: var(--ink); background: var(--paper); margin: 12px; }
  canvas { display: block; cursor: crosshair; }
  #tip { position: fixed; display: none; white-space: pre; padding: 6px 8px; pointer-events: none;
         border: 1px solid var(--line); background: var(--paper); }
  .mark { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 12px; }
</style></head><body>
<div id="head"></div><p id="legend"></p><canvas id="chart"></canvas><div id="tip"></div>
<script type="application/json" id="data">)page";

// What draws it. A span is [start, length, waiting, text, mark, note, partner]; times are µs.
constexpr std::string_view Tail = R"page(</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const WAITING = 5, LABEL = 150, LANE = 11, GAP = 6, TOP = 24;
const canvas = document.getElementById("chart"), tip = document.getElementById("tip");
const draw2d = canvas.getContext("2d");
let from = 0, to = data.length || 1, width = 0;

function addText(parent, tag, text) {
  const node = document.createElement(tag);
  node.textContent = text;
  parent.append(node);
  return node;
}
for (const [letter, side] of [["A", data.a], ["B", data.b]])
  addText(document.getElementById("head"), "div",
          letter + "  " + side.name + ": " + side.source + "; " + side.ops + " ops, step " + side.step);
const legend = document.getElementById("legend");
legend.append("A above B in each row; wheel zooms, dragging moves, double click shows all.");
for (const [colour, text] of data.marks) {
  const mark = addText(legend, "span", "");
  mark.className = "mark";
  mark.style.background = colour;
  legend.append(text);
}
if (data.note) addText(legend, "div", data.note);

const rowTop = row => TOP + row * (2 * LANE + GAP);
const place = time => LABEL + (time - from) / (to - from) * (width - LABEL);
function timeText(us) {
  const size = Math.abs(us);
  if (size >= 1e6) return (us / 1e6).toPrecision(5) + " s";
  if (size >= 1e3) return (us / 1e3).toPrecision(5) + " ms";
  return Number(us.toPrecision(5)) + " µs";
}

function drawLane(spans, top, ink) {
  let drawnTo = -1;
  for (const [start, length, waiting, , mark, note] of spans) {
    const end = start + length;
    if (end < from || start > to) continue;
    const left = Math.max(LABEL, place(start)), right = Math.min(width, place(end));
    if (right < drawnTo + 0.3 && !note) continue;  // too narrow to be seen beside what is there
    drawnTo = right;
    const moving = Math.min(Math.max(left, place(start + waiting)), right);
    draw2d.fillStyle = data.marks[WAITING][0];
    draw2d.fillRect(left, top + LANE / 2 - 1, Math.max(moving - left, 0), LANE / 2);
    draw2d.fillStyle = data.marks[mark][0];
    if (mark !== WAITING) draw2d.fillRect(moving, top, Math.max(right - moving - 0.3, 0.5), LANE - 1);
    if (!note) continue;
    draw2d.strokeStyle = note === 2 ? "#d00000" : ink;
    draw2d.lineWidth = 2;
    draw2d.strokeRect(left, top, Math.max(right - left, 2), LANE - 1);
  }
}

function draw() {
  const ratio = window.devicePixelRatio || 1, height = rowTop(data.rows.length) + GAP;
  width = document.body.clientWidth;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  draw2d.setTransform(ratio, 0, 0, ratio, 0, 0);
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink"), line = style.getPropertyValue("--line");
  draw2d.font = "12px system-ui, sans-serif";
  let step = 10 ** Math.floor(Math.log10((to - from) / 5));
  for (const factor of [2, 2.5, 2]) if ((to - from) / step > 10) step *= factor;
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
    draw2d.fillStyle = line;
    draw2d.fillRect(place(tick), TOP - 6, 1, height);
    draw2d.fillStyle = ink;
    draw2d.fillText(timeText(tick), place(tick) + 3, 12);
  }
  data.rows.forEach((row, i) => {
    draw2d.fillStyle = ink;
    draw2d.fillText("rank " + row.rank + " " + row.stream, 0, rowTop(i) + LANE + 4, LABEL - 8);
    drawLane(row.a, rowTop(i), ink);
    drawLane(row.b, rowTop(i) + LANE, ink);
  });
}

function spanAt(x, y) {
  const row = Math.floor((y - TOP) / (2 * LANE + GAP));
  if (row < 0 || row >= data.rows.length || x < LABEL) return null;
  const lane = y - rowTop(row) < LANE ? "a" : "b";
  const time = from + (x - LABEL) / (width - LABEL) * (to - from), slack = (to - from) / (width - LABEL);
  const found = data.rows[row][lane].find(s => s[0] - slack <= time && time <= s[0] + s[1] + slack);
  return found && {row: data.rows[row], lane, span: found};
}
function sideText(letter, span) {
  if (!span) return letter + "  has no such op";
  return letter + "  " + timeText(span[0]) + " to " + timeText(span[0] + span[1]) + ": " + timeText(span[1] - span[2]) +
         (span[2] > 0 ? " after " + timeText(span[2]) + " of waiting" : "");
}
function tipText({row, lane, span}) {
  const other = span[6] < 0 ? null : row[lane === "a" ? "b" : "a"][span[6]];
  const [a, b] = lane === "a" ? [span, other] : [other, span];
  let text = "rank " + row.rank + ", " + row.stream + "\n" + data.ops[span[3]] + "\n" + sideText("A", a) + "\n" + sideText("B", b);
  if (a && b && b[1] > b[2]) {
    const error = ((a[1] - a[2]) / (b[1] - b[2]) - 1) * 100;
    text += "\nA / B - 1 = " + (error < 0 ? "" : "+") + error.toFixed(1) + " %; A starts " + timeText(a[0] - b[0]) + " after B";
  }
  return text + (span[5] === 1 ? "\nat another place in its stream" : "");
}

let dragged = null;
canvas.addEventListener("mousemove", event => {
  if (dragged !== null) {
    const by = (dragged - event.offsetX) / (width - LABEL) * (to - from);
    dragged = event.offsetX;
    from += by;
    to += by;
    draw();
    return;
  }
  const found = spanAt(event.offsetX, event.offsetY);
  tip.style.display = found ? "block" : "none";
  if (!found) return;
  tip.textContent = tipText(found);
  tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + "px";
});
canvas.addEventListener("mousedown", event => { dragged = event.offsetX; tip.style.display = "none"; });
window.addEventListener("mouseup", () => { dragged = null; });
canvas.addEventListener("mouseleave", () => { tip.style.display = "none"; });
canvas.addEventListener("dblclick", () => { from = 0; to = data.length || 1; draw(); });
canvas.addEventListener("wheel", event => {
  if (event.shiftKey) return;  // scrolls
  event.preventDefault();
  const at = from + (event.offsetX - LABEL) / (width - LABEL) * (to - from), factor = event.deltaY > 0 ? 1.25 : 0.8;
  from = at - (at - from) * factor;
  to = at + (to - at) * factor;
  draw();
}, {passive: false});
window.addEventListener("resize", draw);
draw();
</script></body></html>
)page";

}  // namespace

std::string comparison_page(const Comparison& comparison, const TextOptions& options) {
  return std::string(Head) + Page(comparison, options).text() + std::string(Tail);
}

}  // namespace syncline::compare
