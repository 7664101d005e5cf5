#include "sim/compare/waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/compare/names.hpp"

namespace syncline::compare {
namespace {

bool is_message(const TimelineOp& op) {
  return op.name == "send" || op.name == "recv";
}

// What the members of a communication have in common, but for the time. The two ends of a message differ in name, peer
// and chunk.
std::string common_text(const TimelineOp& op) {
  const int phase = static_cast<int>(op.tag.phase);
  if (is_message(op)) return fmt::format("{}\n{}", phase, op.tag.microbatch);
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", phase, op.tag.layer, op.tag.microbatch, op.tag.chunk,
                     op.tag.name, op.name, op.group);
}

struct Member {
  std::uint32_t common = 0;
  double transfer = 0;  // s
  std::uint32_t rank = 0, span = 0;
  [[nodiscard]] auto order() const { return std::tie(common, transfer, rank, span); }
};

std::vector<Member> members_of(const Timeline& timeline) {
  std::unordered_map<std::string, std::uint32_t> known;
  std::vector<std::uint32_t> common(timeline.ops.size(), 0);
  for (std::size_t i = 0; i < timeline.ops.size(); ++i)
    if (timeline.ops[i].kind == SpanKind::Communication)
      common[i] = known.try_emplace(common_text(timeline.ops[i]), static_cast<std::uint32_t>(known.size()))
                      .first->second;
  std::vector<Member> members;
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const Span& span = timeline.spans[i];
    if (timeline.ops[span.op].kind == SpanKind::Communication)
      members.push_back(
          {common[span.op], span.transfer.si(), span.rank.value(), static_cast<std::uint32_t>(i)});
  }
  std::ranges::sort(members, {}, &Member::order);
  return members;
}

// Times of one moment that came through a file differ by the rounding of a few sums.
double rounding_of(const Timeline& timeline) {
  constexpr double Share = 4e-15;
  double latest = 0;
  for (const Span& span : timeline.spans)
    latest = std::max({latest, std::abs(span.start.si()), std::abs(span.end.si())});
  return Share * latest;
}

Meeting meeting_of(const Timeline& timeline, std::vector<std::uint32_t> spans) {
  Meeting meeting;
  meeting.last = spans.front();
  meeting.cost = timeline.spans[spans.front()].end - timeline.spans[spans.front()].start;
  for (const std::uint32_t position : spans) {
    const Span& span = timeline.spans[position];
    meeting.cost = std::min({meeting.cost, span.end - span.start, span.end - span.transfer});
    meeting.kernel_time += span.end - span.start;
    meeting.waiting += span.transfer - span.start;
    if (span.start > timeline.spans[meeting.last].start) meeting.last = position;
  }
  meeting.spans = std::move(spans);
  return meeting;
}

// Of those that end at one time the longest.
std::optional<std::uint32_t> ended_before(const Timeline& timeline, std::uint32_t position, double rounding) {
  const Span& late = timeline.spans[position];
  std::optional<std::uint32_t> found;
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const Span& span = timeline.spans[i];
    if (span.rank != late.rank || i == position || is_host_wait(timeline.ops[span.op])) continue;
    if (span.end.si() > late.start.si() + rounding) continue;
    const Span* best = found ? &timeline.spans[*found] : nullptr;
    if (best == nullptr || span.end.si() > best->end.si() + rounding ||
        (span.end.si() > best->end.si() - rounding && span.end - span.start > best->end - best->start))
      found = static_cast<std::uint32_t>(i);
  }
  return found;
}

void add(WaitsOfKind& sums, const Span& span, bool alone) {
  ++sums.kernels;
  sums.alone += alone ? 1 : 0;
  sums.kernel_time += span.end - span.start;
  sums.waiting += span.transfer - span.start;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> meetings_of(const Timeline& timeline) {
  const std::vector<Member> members = members_of(timeline);
  const double rounding = rounding_of(timeline);
  std::vector<std::vector<std::uint32_t>> meetings;
  for (auto begin = members.begin(); begin != members.end();) {
    const auto end = std::find_if(begin, members.end(), [&](const Member& member) {
      return member.common != begin->common || member.transfer > begin->transfer + rounding;
    });
    if (end - begin > 1) {
      std::vector<std::uint32_t>& spans = meetings.emplace_back();
      for (auto member = begin; member != end; ++member) spans.push_back(member->span);
      std::ranges::sort(spans, {}, [&](std::uint32_t i) { return std::pair(timeline.spans[i].rank, i); });
    }
    begin = end;
  }
  return meetings;
}

Waits find_waits(const Timeline& timeline, std::size_t worst) {
  Waits waits;
  waits.all.kind = "all";
  waits.by_rank.resize(timeline.ranks);
  std::vector<bool> meets(timeline.spans.size(), false);
  for (std::vector<std::uint32_t>& spans : meetings_of(timeline)) {
    for (const std::uint32_t span : spans) meets[span] = true;
    Meeting meeting = meeting_of(timeline, std::move(spans));
    const auto more = [](const Meeting& x, const Meeting& y) { return x.waiting > y.waiting; };
    if (meeting.waiting.si() <= 0) continue;
    if (waits.worst.size() == worst && (worst == 0 || !more(meeting, waits.worst.back()))) continue;
    waits.worst.insert(std::ranges::upper_bound(waits.worst, meeting, more), std::move(meeting));
    if (waits.worst.size() > worst) waits.worst.pop_back();
  }
  const double rounding = rounding_of(timeline);
  for (Meeting& meeting : waits.worst) meeting.before = ended_before(timeline, meeting.last, rounding);

  std::unordered_map<std::string_view, std::size_t> place_of;
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const Span& span = timeline.spans[i];
    const TimelineOp& op = timeline.ops[span.op];
    if (op.kind != SpanKind::Communication) continue;
    const auto [place, is_new] = place_of.try_emplace(kind_of(op), waits.kinds.size());
    if (is_new) waits.kinds.push_back({.kind = op.name});
    add(waits.kinds[place->second], span, !meets[i]);
    add(waits.all, span, !meets[i]);
    waits.by_rank[span.rank.value()] += span.transfer - span.start;
  }
  return waits;
}

}  // namespace syncline::compare
