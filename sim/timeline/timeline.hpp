// A timeline: what ran when. The same value whether simulated, measured or imported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/ids.hpp"
#include "sim/core/quantity.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

enum class SpanKind : std::uint8_t { Compute, Communication, Host };

/// What the spans of one op have in common.
struct TimelineOp {
  SpanKind kind = SpanKind::Compute;
  StreamId stream{};
  Tag tag{};
  std::string name{};       // "all-gather", "layer-forward"
  Bytes bytes{};            // of communication
  Flop flop{};              // of compute
  std::string group{};      // family of a collective, "to pp 1" of a send
  std::string algorithm{};  // of a collective: "ring"; empty when not known
  std::string exchange{};   // of an all-to-all-v: the name of its exchange, with " back" on the way back
};

/// One op on one rank. A communication kernel is resident from `start`; its data moves from `transfer` (when the last
/// participant has arrived) to `end`, the time between being waiting. Other ops have transfer = start.
struct Span {
  RankId rank;
  std::uint32_t op = 0;  // position in Timeline::ops
  Seconds start;
  Seconds transfer;
  Seconds end;
};

struct Timeline {
  std::string source;  // "simulated: scenario x", "measured: ..."
  /// How it came about, in order: a key once, and text for people, such as {"clock-error", "3.1 us"}.
  std::vector<std::pair<std::string, std::string>> about{};
  std::uint32_t ranks = 0;
  std::vector<std::string> streams;  // names; StreamId indexes them
  std::vector<TimelineOp> ops;
  std::vector<Span> spans;  // by rank, then in program order
};

/// The ops table of a schedule: all roles' ops, role after role; `first_op_of_role(schedule)[r]` is where role r's begin.
[[nodiscard]] std::vector<TimelineOp> timeline_ops(const Schedule& schedule);
[[nodiscard]] std::vector<std::uint32_t> first_op_of_role(const Schedule& schedule);

/// Sets `transfer` of the spans of one communication (a collective on all its members, or both ends of a send and
/// receive) to when the last of them arrived: their latest start, but never beyond a span's own end, which clocks that
/// differ can bring about.
///
/// @param members  positions in Timeline::spans
/// @throws std::logic_error  if there is no such span
void arrive_together(Timeline& timeline, std::span<const std::size_t> members);

}  // namespace syncline
