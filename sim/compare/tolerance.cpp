#include "sim/compare/tolerance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "sim/compare/comparison_text.hpp"
#include "sim/compare/names.hpp"
#include "sim/core/units.hpp"
#include "sim/report/metric_table.hpp"

namespace syncline::compare {
namespace {

enum class Unit { Share, Count, Time };

using Breaks = std::vector<Broken>;

std::string beyond(const Limit& limit) {
  return fmt::format(", beyond {}", limit.text);
}

void check_share(const Limit& limit, std::optional<double> error, const std::string& figures, Breaks& out) {
  if (!error || std::abs(*error) <= std::max(limit.most, Notable)) return;
  out.push_back({limit.what,
                 fmt::format("{}: {}, {}{}", limit.what, figures, signed_percent(*error), beyond(limit)),
                 *error, limit.most});
}

std::string both(Seconds a, Seconds b) {
  return fmt::format("A {}, B {}", to_text(a), to_text(b));
}

// Each of the items beyond the limit, but no more than MostNamed.
template <class Say>
void name_each(const Limit& limit, const std::vector<std::uint32_t>& items, const Say& say, Breaks& out) {
  for (std::size_t i = 0; i < std::min(items.size(), MostNamed); ++i) {
    out.push_back(say(items[i]));
    if (i + 1 == MostNamed && items.size() > MostNamed)
      out.back().message += fmt::format("; and {} more", items.size() - MostNamed);
    out.back().most = limit.most;
    out.back().what = limit.what;
  }
}

void check_step(const Comparison& c, const Limit& limit, Breaks& out) {
  check_share(limit, c.step_error, both(c.a.step_time, c.b.step_time), out);
}

void check_each_op(const Comparison& c, const Limit& limit, Breaks& out) {
  name_each(
      limit, farthest_off(c, std::max(limit.most, Notable)),
      [&](std::uint32_t pair) {
        return Broken{"", fmt::format("op: {}{}", pair_text(c, pair), beyond(limit)), *c.ops[pair].error, 0};
      },
      out);
}

void check_mean(const Comparison& c, const Limit& limit, Breaks& out) {
  check_share(limit, c.all.mean_absolute, "mean over all ops by their time", out);
}
void check_median(const Comparison& c, const Limit& limit, Breaks& out) {
  check_share(limit, c.all.median_absolute, fmt::format("median over {} ops", c.all.counted), out);
}
void check_p90(const Comparison& c, const Limit& limit, Breaks& out) {
  check_share(limit, c.all.p90_absolute, fmt::format("a tenth of {} ops is above", c.all.counted), out);
}

void check_exposed(const Comparison& c, const Limit& limit, Breaks& out) {
  check_share(limit, error_of(c.a.exposed, c.b.exposed, c.floor), both(c.a.exposed, c.b.exposed), out);
}

void check_start(const Comparison& c, const Limit& limit, Breaks& out) {
  if (!c.worst_start || std::abs(c.start_difference(*c.worst_start).si()) <= limit.most) return;
  out.push_back({limit.what, fmt::format("start: {}{}", start_text(c, *c.worst_start), beyond(limit)),
                 c.start_difference(*c.worst_start).si(), limit.most});
}

void check_clock(const Comparison& c, const Limit& limit, Breaks& out) {
  for (const Clocks::Differing& rank : c.clocks.ranks)
    if (std::abs(rank.offset.si()) > limit.most)
      out.push_back({limit.what, fmt::format("clock: {}{}", clock_text(rank), beyond(limit)),
                     rank.offset.si(), limit.most});
}

void check_order(const Comparison& c, const Limit& limit, Breaks& out) {
  if (static_cast<double>(c.moved.size()) <= limit.most) return;
  std::vector<std::uint32_t> items(c.moved.size());
  for (std::uint32_t i = 0; i < items.size(); ++i) items[i] = i;
  name_each(
      limit, items,
      [&](std::uint32_t i) {
        return Broken{"", fmt::format("order: {}{}", moved_text(c, c.moved[i]), beyond(limit)),
                      static_cast<double>(c.moved.size()), 0};
      },
      out);
}

void check_missing(const Comparison& c, const Limit& limit, Breaks& out) {
  const Alignment& alignment = c.alignment;
  const double count = static_cast<double>(alignment.only_a.size() + alignment.only_b.size());
  if (count <= limit.most) return;
  for (const auto& [word, side, only] : {std::tuple("missing: in A alone", &c.a, &alignment.only_a),
                                         std::tuple("missing: in B alone", &c.b, &alignment.only_b)})
    name_each(
        limit, *only,
        [&, what = word, in = side](std::uint32_t span) {
          return Broken{
              "",
              fmt::format("{}: {}{}", what, span_text(in->timeline, in->timeline.spans[span]), beyond(limit)),
              count, 0};
        },
        out);
}

struct Measure {
  std::string_view name;
  Unit unit;
  std::string_view help;
  void (*check)(const Comparison&, const Limit&, Breaks&);
};
constexpr std::array Measures{
    Measure{"step", Unit::Share, "the step time", check_step},
    Measure{"op", Unit::Share, "the work of every single op", check_each_op},
    Measure{"op-mean", Unit::Share, "mean absolute error of ops, by their time", check_mean},
    Measure{"op-median", Unit::Share, "median absolute error of ops", check_median},
    Measure{"op-p90", Unit::Share, "what nine of ten ops keep to", check_p90},
    Measure{"exposed", Unit::Share, "communication without compute, mean over ranks", check_exposed},
    Measure{"start", Unit::Time, "how far apart an op starts, with clocks set", check_start},
    Measure{"clock", Unit::Time, "how far the clock of a rank is off", check_clock},
    Measure{"order", Unit::Count, "ops that have moved in their stream", check_order},
    Measure{"missing", Unit::Count, "ops that one of the two timelines lacks", check_missing},
};

const Measure* find_measure(std::string_view name) {
  const auto found = std::ranges::find(Measures, name, &Measure::name);
  return found == Measures.end() ? nullptr : &*found;
}

double share_of(std::string_view text) {
  if (!text.ends_with('%'))
    throw std::invalid_argument(fmt::format("\"{}\" is no percentage, expected such as 5%", text));
  const std::string_view number = text.substr(0, text.find_last_not_of(" %") + 1);
  return parse_number(number) / 100;
}

double most_of(Unit unit, std::string_view text) {
  double most = 0;
  switch (unit) {
    case Unit::Share: most = share_of(text); break;
    case Unit::Count: most = static_cast<double>(parse_integer(text)); break;
    case Unit::Time: most = parse_seconds(text).si(); break;
  }
  if (most < 0) throw std::invalid_argument(fmt::format("\"{}\" is below 0", text));
  return most;
}

bool has_kind(const Timeline& timeline, std::string_view kind) {
  return std::ranges::any_of(timeline.spans,
                             [&](const Span& span) { return kind_of(timeline.ops[span.op]) == kind; });
}

/// @throws InputError  when neither timeline has such ops
void check_kind(const Comparison& c, const Limit& limit, Breaks& out) {
  const auto kind = std::ranges::find(c.kinds, limit.what, &Group::name);
  if (kind != c.kinds.end()) {
    const std::string times = both(kind->work_a, kind->work_b);
    return check_share(limit, kind->error, fmt::format("{} ops, {}", kind->ops, times), out);
  }
  const bool in_a = has_kind(c.a.timeline, limit.what), in_b = has_kind(c.b.timeline, limit.what);
  if (in_a || in_b) {  // none that both have: A / 0 - 1 or 0 / B - 1
    const char* where = !in_b ? "in A alone" : !in_a ? "in B alone" : "no two are the same op";
    const double error = in_a ? std::numeric_limits<double>::infinity() : -1;
    out.push_back({limit.what, fmt::format("{}: {}{}", limit.what, where, beyond(limit)), error, limit.most});
    return;
  }
  std::vector<std::string> known;
  for (const Measure& measure : Measures) known.emplace_back(measure.name);
  for (const Group& group : c.kinds) known.push_back(group.name);
  throw InputError({limit.place, unknown_name("measure or kind of op", limit.what, known)});
}

}  // namespace

std::string measures_text() {
  std::string text;
  for (const Measure& measure : Measures) text += fmt::format("  {:<10} {}\n", measure.name, measure.help);
  return text;
}

Limit parse_limit(std::string_view what, std::string_view value) {
  const Measure* measure = find_measure(what);
  const double most = most_of(measure == nullptr ? Unit::Share : measure->unit, value);
  return {std::string(what), most, std::string(value), {}};
}

std::vector<Limit> parse_limits(std::string_view text, const std::string& flag) {
  std::vector<Limit> limits;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t sign = part.find('=');
    if (sign == std::string_view::npos || sign == 0)
      refuse(flag, fmt::format("\"{}\" is no limit, expected such as step=5%", part));
    try {
      limits.push_back(parse_limit(part.substr(0, sign), part.substr(sign + 1)));
    } catch (const std::invalid_argument& error) {
      refuse(flag, fmt::format("\"{}\": {}", part, error.what()));
    }
    limits.back().place.file = flag;
  }
  return limits;
}

void lay_over(std::vector<Limit>& limits, std::vector<Limit> over) {
  for (Limit& limit : over) {
    std::erase_if(limits, [&](const Limit& other) { return other.what == limit.what; });
    limits.push_back(std::move(limit));
  }
}

std::vector<Broken> broken_limits(const Comparison& comparison, const std::vector<Limit>& limits) {
  std::vector<Broken> broken;
  for (const Limit& limit : limits) {
    const Measure* measure = find_measure(limit.what);
    if (measure != nullptr)
      measure->check(comparison, limit, broken);
    else
      check_kind(comparison, limit, broken);
  }
  return broken;
}

}  // namespace syncline::compare
