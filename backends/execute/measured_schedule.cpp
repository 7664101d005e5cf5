#include "backends/execute/measured_schedule.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "backends/execute/rank_program.hpp"
#include "sim/core/error.hpp"

namespace syncline {

MeasuredSchedule::MeasuredSchedule(const ExecutionPlan& plan) : plan_(plan) {
  struct Pair {
    std::size_t sender = 0, receiver = 0;
    bool eager = false;
  };
  std::map<std::pair<std::uint32_t, std::size_t>, std::vector<std::size_t>> collectives;  // by channel, how-manieth
  std::map<std::tuple<RankId, RankId, int, int>, Pair> pairs;  // by sender, receiver, message, tag
  std::size_t span = 0;
  for (const RankProgram& program : rank_programs(plan)) {
    std::map<std::uint32_t, std::size_t> counts;  // of collectives so far, by channel
    for (const Step& step : program.steps) {
      if (const auto* collective = std::get_if<CollectiveTask>(&step.task)) {
        const std::uint32_t channel = program.channels[collective->channel].number;
        collectives[{channel, counts[channel]++}].push_back(span);
      } else if (const auto* transfer = std::get_if<TransferTask>(&step.task)) {
        const Wire& wire = program.wires[transfer->wire];
        Pair& pair = pairs[{wire.sender, wire.receiver, transfer->message, transfer->tag}];
        pair.eager = transfer->eager;
        (transfer->sends ? pair.sender : pair.receiver) = span;
      }
      ++span;
    }
  }
  for (auto& [key, members] : collectives) communications_.push_back({std::move(members)});
  for (const auto& [key, pair] : pairs) communications_.push_back({{pair.sender, pair.receiver}, pair.eager});
}

Timeline MeasuredSchedule::timeline(const RankTimes& times) const {
  const Schedule& schedule = plan_.schedule;
  Timeline timeline;
  timeline.source = "measured: " + schedule.name;
  timeline.ranks = static_cast<std::uint32_t>(schedule.world_size());
  timeline.streams = schedule.streams;
  timeline.ops = timeline_ops(schedule);
  for (TimelineOp& op : timeline.ops) op.algorithm.clear();

  const std::vector<std::uint32_t> first_op = first_op_of_role(schedule);
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    const std::uint32_t first = first_op[schedule.role_of[rank].value()];
    for (std::uint32_t op = 0; op < times[rank].size(); ++op) {
      const OpTimes& measured = times[rank][op];
      timeline.spans.push_back({RankId(rank), first + op, measured.start, measured.start, measured.end});
    }
  }
  if (timeline.spans.empty()) return timeline;
  const Seconds begin = std::ranges::min(timeline.spans, {}, &Span::start).start;
  for (Span& span : timeline.spans) {
    span.start -= begin;
    span.transfer -= begin;
    span.end -= begin;
  }
  for (const Communication& communication : communications_) {
    const std::size_t first = communication.spans.front();
    const Seconds own = timeline.spans[first].start;
    arrive_together(timeline, communication.spans);
    if (communication.eager) timeline.spans[first].transfer = own;
  }
  return timeline;
}

}  // namespace syncline
