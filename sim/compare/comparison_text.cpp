#include "sim/compare/comparison_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/compare/names.hpp"
#include "sim/core/printable.hpp"
#include "sim/core/units.hpp"
#include "sim/report/metric_table.hpp"
#include "sim/report/text.hpp"

namespace syncline::compare {
namespace {

using Cells = std::vector<std::string>;

constexpr std::size_t NameWidth = 60;

std::string error_text(const std::optional<double>& error) {
  if (!error) return "-";
  return signed_percent(std::abs(*error) < Notable ? 0 : *error);
}

std::string share_text(const std::optional<double>& share) {
  return share ? percent(*share) : "-";
}

std::string section(std::string_view title, std::vector<Cells> rows, std::string_view alignment) {
  return fmt::format("\n{}\n{}", title, aligned(std::move(rows), alignment));
}

// A title and a line an item, of the first `most`.
template <class Items, class Say>
std::string list(const std::string& title, const Items& items, std::size_t most, const Say& say) {
  if (items.empty()) return "";
  std::string text = "\n" + title + "\n";
  for (std::size_t i = 0; i < std::min(items.size(), most); ++i)
    text += "  " + printable(say(items[i])) + "\n";
  if (items.size() > most) text += fmt::format("  and {} more\n", items.size() - most);
  return text;
}

std::string heading(const Comparison& c, const TextOptions& options) {
  std::string text;
  for (const auto& [letter, name, side] :
       {std::tuple("A", &options.name_a, &c.a), std::tuple("B", &options.name_b, &c.b)}) {
    const Timeline& timeline = side->timeline;
    text += printable(fmt::format("{}  {}: {}; {} ranks, {} ops", letter, *name, timeline.source,
                                  timeline.ranks, timeline.spans.size())) +
            "\n";
    std::string about;
    for (const auto& [key, value] : timeline.about)
      about += fmt::format("{}{}: {}", about.empty() ? "   " : ", ", key, value);
    if (!about.empty()) text += printable(about) + "\n";
  }
  return text + "error = A / B - 1: positive where A takes longer\n";
}

std::string totals(const Comparison& c) {
  const auto row = [](std::string name, Seconds a, Seconds b, std::optional<double> error) {
    return Cells{std::move(name), to_text(a), to_text(b), error_text(error)};
  };
  std::vector<Cells> rows{{"", "A", "B", "error"}};
  rows.push_back(row("step time", c.a.step_time, c.b.step_time, c.step_error));
  rows.push_back(row("exposed communication, mean over ranks", c.a.exposed, c.b.exposed,
                     error_of(c.a.exposed, c.b.exposed, c.floor)));
  rows.push_back({"communication under compute", percent(c.a.overlap_share), percent(c.b.overlap_share), ""});
  return "\n" + aligned(std::move(rows), "lrrr");
}

std::string clocks(const Comparison& c) {
  std::string text = "\nclocks: ";
  const double offset = c.clocks.offset.si();
  if (std::abs(offset) <= c.floor.si())
    text += "A and B begin at the same time";
  else
    text += fmt::format("B is {} {} than A; taken out", to_text(Seconds(std::abs(offset))),
                        offset > 0 ? "later" : "earlier");
  text += "\n";
  for (const Clocks::Differing& rank : c.clocks.ranks)
    text += fmt::format("  {}; taken out\n", clock_text(rank));
  if (c.worst_start)
    text += fmt::format("starts: half of the ops within {}; {}\n", to_text(c.median_start_difference),
                        c.start_difference(*c.worst_start).si() == 0
                            ? "all at the same time"
                            : "farthest apart: " + start_text(c, *c.worst_start));
  return printable(text, true);
}

std::string group_table(const Comparison& c, std::string_view title,
                        const std::vector<const Group*>& groups) {
  std::vector<Cells> rows{
      {"", "ops", "A", "B", "error", "mean", "median", "p90", "max", "waiting A", "waiting B"}};
  for (const Group* group : groups) {
    const bool any = group->counted > 0;
    rows.push_back({clipped(group->name, 24), fmt::format("{}", group->ops), to_text(group->work_a),
                    to_text(group->work_b), error_text(group->error), share_text(group->mean_absolute),
                    any ? percent(group->median_absolute) : "-", any ? percent(group->p90_absolute) : "-",
                    group->worst ? error_text(c.ops[*group->worst].error) : "-", to_text(group->waiting_a),
                    to_text(group->waiting_b)});
  }
  return section(title, std::move(rows), "lrrrrrrrrrr");
}

std::string groups(const Comparison& c, std::size_t most) {
  const auto pointers = [](const std::vector<Group>& all) {
    std::vector<const Group*> result;
    for (const Group& group : all) result.push_back(&group);
    return result;
  };
  std::vector<const Group*> kinds = pointers(c.kinds);
  kinds.push_back(&c.all);
  std::vector<const Group*> ranks = pointers(c.ranks);
  const auto off = [](const Group* group) { return -std::abs(group->error.value_or(0)); };
  std::string title = "by rank";
  if (ranks.size() > most) {
    title = fmt::format("by rank: {} of {}, the farthest off", most, ranks.size());
    std::ranges::stable_sort(ranks, {}, off);
    ranks.resize(most);
  }
  return group_table(c, "by kind: work, of communication from data moving to its end", kinds) +
         group_table(c, "by stream", pointers(c.streams)) + group_table(c, title, ranks);
}

std::string worst_ops(const Comparison& c, std::size_t most) {
  const std::vector<std::uint32_t> pairs = farthest_off(c, Notable);
  const std::size_t shorter = c.all.ops - c.all.counted;
  std::string text;
  if (pairs.empty()) {
    text = "\nno op takes longer or shorter\n";
  } else {
    std::vector<Cells> rows{{"", "A", "B", "error", "starts in B"}};
    for (std::size_t i = 0; i < std::min(most, pairs.size()); ++i) {
      const OpTimes& op = c.ops[pairs[i]];
      const Span& span = c.span_a(pairs[i]);
      rows.push_back({clipped(span_text(c.a.timeline, span), NameWidth), to_text(op.work_a),
                      to_text(op.work_b), error_text(op.error), to_text(c.span_b(pairs[i]).start)});
    }
    text =
        section(fmt::format("ops farthest off, of {} that differ", pairs.size()), std::move(rows), "lrrrr");
  }
  if (shorter > 0)
    text += fmt::format("  {} of {} ops take less than {} in both and have no error of their own\n", shorter,
                        c.all.ops, to_text(c.floor));
  return text;
}

// Ops of a whole rank or stream as one line.
std::vector<std::string> only_lines(const Timeline& timeline, const std::vector<std::uint32_t>& only) {
  using Track = std::pair<std::uint32_t, std::string_view>;
  const auto track_of = [&](const Span& span) {
    return Track(span.rank.value(), stream_of(timeline, timeline.ops[span.op]));
  };
  std::map<Track, std::pair<std::size_t, std::size_t>> counts;  // all, lacking
  for (const Span& span : timeline.spans) ++counts[track_of(span)].first;
  for (const std::uint32_t span : only) ++counts[track_of(timeline.spans[span])].second;
  std::vector<std::string> lines;
  for (const std::uint32_t position : only) {
    const Span& span = timeline.spans[position];
    auto& [all, lacking] = counts[track_of(span)];
    if (lacking == 0) continue;  // said already
    if (all == lacking && all > 1) {
      lines.push_back(fmt::format("rank {}, all of stream {}: {} ops", span.rank.value(),
                                  stream_of(timeline, timeline.ops[span.op]), all));
      lacking = 0;
    } else {
      lines.push_back(fmt::format("{}, at {}", span_text(timeline, span), to_text(span.start)));
    }
  }
  return lines;
}

std::string differences(const Comparison& c, std::size_t most) {
  std::string text;
  const auto as_is = [](const std::string& line) { return line; };
  if (c.alignment.only_a.empty() && c.alignment.only_b.empty()) text += "\nboth have the same ops\n";
  text += list(fmt::format("missing: {} ops are in A alone", c.alignment.only_a.size()),
               only_lines(c.a.timeline, c.alignment.only_a), most, as_is);
  text += list(fmt::format("extra: {} ops are in B alone", c.alignment.only_b.size()),
               only_lines(c.b.timeline, c.alignment.only_b), most, as_is);
  if (c.moved.empty()) text += "\nevery stream has its ops in the same order\n";
  text += list(fmt::format("order: {} moved",
                           c.moved.size() == 1 ? "one op has" : fmt::format("{} ops have", c.moved.size())),
               c.moved, most, [&](const Moved& moved) { return moved_text(c, moved); });
  return text;
}

std::string overlap(const Comparison& c, std::size_t most) {
  if (c.overlaps.empty()) return "";
  std::vector<Cells> rows{{"", "kernels A", "exposed A", "kernels B", "exposed B"}};
  for (const Overlap& kind : c.overlaps)
    rows.push_back({clipped(kind.kind, 24), to_text(kind.kernel_a), to_text(kind.exposed_a),
                    to_text(kind.kernel_b), to_text(kind.exposed_b)});
  return section("overlap: communication, and what of it runs without compute", std::move(rows), "lrrrr") +
         list("overlapped differently", overlapped_differently(c), most, [&](std::uint32_t pair) {
           const OpTimes& op = c.ops[pair];
           return fmt::format("{}: exposed {} in A, {} in B", span_text(c.a.timeline, c.span_a(pair)),
                              to_text(op.exposed_a), to_text(op.exposed_b));
         });
}

std::string meeting_text(const Timeline& timeline, const Meeting& meeting) {
  const Span& last = timeline.spans[meeting.last];
  std::string waits;
  constexpr std::size_t MostRanks = 8;
  for (std::size_t i = 0; i < std::min(meeting.spans.size(), MostRanks); ++i) {
    const Span& span = timeline.spans[meeting.spans[i]];
    waits +=
        fmt::format("{}{}: {}", i == 0 ? "" : ", ", span.rank.value(), to_text(span.transfer - span.start));
  }
  if (meeting.spans.size() > MostRanks) waits += ", …";
  std::string before = "its first op";
  if (meeting.before) {
    const Span& span = timeline.spans[*meeting.before];
    before = fmt::format("after {} of {}", op_text(timeline.ops[span.op]), to_text(span.end - span.start));
  }
  return fmt::format("{} at {}: cost at most {}; waiting by rank {}; last rank {}, {}",
                     op_text(timeline.ops[last.op]), to_text(last.start), to_text(meeting.cost), waits,
                     last.rank.value(), before);
}

std::string waits(const Comparison& c, std::size_t most) {
  if (c.a.waits.all.kernels + c.b.waits.all.kernels == 0) return "";
  std::vector<Cells> rows{{"", "", "kernels", "time", "of it waiting", ""}};
  std::string lists;
  for (const auto& [letter, side] : {std::pair("A", &c.a), std::pair("B", &c.b)}) {
    std::vector<const WaitsOfKind*> kinds;
    for (const WaitsOfKind& kind : side->waits.kinds) kinds.push_back(&kind);
    if (kinds.size() > 1) kinds.push_back(&side->waits.all);
    for (const WaitsOfKind* kind : kinds)
      rows.push_back({letter, clipped(kind->kind, 24), fmt::format("{}", kind->kernels),
                      to_text(kind->kernel_time), to_text(kind->waiting),
                      kind->kernel_time.si() > 0 ? percent(kind->waiting / kind->kernel_time) : "-"});
    lists += list(fmt::format("longest waits in {}", letter), side->waits.worst, most,
                  [&, in = side](const Meeting& meeting) { return meeting_text(in->timeline, meeting); });
  }
  return section("waits: communication kernels, all ranks together", std::move(rows), "llrrrr") + lists;
}

std::string place_text(const Comparison& c, std::uint32_t after) {
  if (after == c.ops.size()) return "the first";
  return "after " + op_text(c.a.timeline.ops[c.span_a(after).op]);
}

}  // namespace

std::string pair_text(const Comparison& c, std::uint32_t pair) {
  const OpTimes& op = c.ops[pair];
  return fmt::format("{}: A {}, B {}, {}", span_text(c.a.timeline, c.span_a(pair)), to_text(op.work_a),
                     to_text(op.work_b), error_text(op.error));
}

std::string start_text(const Comparison& c, std::uint32_t pair) {
  const double later = c.start_difference(pair).si();
  return fmt::format("{} starts {} {} in A", span_text(c.a.timeline, c.span_a(pair)),
                     to_text(Seconds(std::abs(later))), later < 0 ? "earlier" : "later");
}

std::string moved_text(const Comparison& c, const Moved& moved) {
  return fmt::format("{}: in A {}, in B {}", span_text(c.a.timeline, c.span_a(moved.pair)),
                     place_text(c, moved.after_in_a), place_text(c, moved.after_in_b));
}

std::string clock_text(const Clocks::Differing& rank) {
  return fmt::format("rank {} alone: its clock is {} {} in B", rank.rank.value(),
                     to_text(Seconds(std::abs(rank.offset.si()))),
                     rank.offset.si() > 0 ? "later" : "earlier");
}

std::string comparison_text(const Comparison& c, const TextOptions& options) {
  return heading(c, options) + totals(c) + clocks(c) + differences(c, options.worst) +
         worst_ops(c, options.worst) + groups(c, options.worst) + overlap(c, options.worst) +
         waits(c, std::min<std::size_t>(options.worst, 3));
}

}  // namespace syncline::compare
