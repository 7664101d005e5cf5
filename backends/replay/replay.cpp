#include "backends/replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <unordered_map>

#include "backends/replay/collective_player.hpp"
#include "backends/replay/memory_ledger.hpp"
#include "backends/replay/program.hpp"
#include "backends/replay/token.hpp"
#include "sim/core/error.hpp"
#include "sim/core/random.hpp"

namespace syncline {
namespace {

constexpr std::uint32_t NoOp = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t StreamBits = 8;

// An op whose issue is nearer than this is issued: the rounding of a sum of launches.
constexpr Seconds IssueSlack{1e-12};

class Replay : public NetworkListener {
 public:
  Replay(const Schedule& schedule, const Cluster& cluster, Detail detail, Network& network);
  RunResult run();
  void on_done(Token token) override;

 private:
  struct Stream {
    std::uint32_t next = 0;        // position in the role's list of this stream's ops
    bool running = false;
    bool wake_pending = false;
    std::uint32_t generation = 0;  // of the end event of the running compute op; older ones are stale
    double work_left = 0;          // s at full rate
    double updated = 0;
  };
  struct Rank {
    std::uint32_t program_counter = 0;  // ops before it are issued, at known times
    std::uint32_t waiting_for = NoOp;   // the op that a host wait is blocked on
    std::uint32_t resident = 0;         // communication kernels on the device
  };
  // One end of a send/receive pair.
  struct End {
    std::uint32_t rank = 0, stream = 0;
  };
  struct Transfer {
    End sender, receiver;
    bool eager = false;
    bool arrived = false;         // eager: before its receiver came
    bool receiver_waits = false;
  };
  struct Meeting {                       // unmatched ends of one (sender, receiver, message), oldest first
    std::deque<End> sends, receives;
    std::deque<std::uint32_t> in_flight; // eager transfers not yet received
  };
  struct MeetingKey {
    std::uint32_t sender, receiver;
    int message;
    bool operator==(const MeetingKey&) const = default;
  };
  struct MeetingHash {
    std::size_t operator()(const MeetingKey& key) const {
      return mix(static_cast<std::uint64_t>(key.sender) << 32 | key.receiver, static_cast<std::uint64_t>(key.message));
    }
  };

  const Program& program(std::uint32_t rank) const {
    return compiled_.programs[schedule_.role_of[rank].value()];
  }
  Stream& stream(std::uint32_t rank, std::uint32_t index) { return streams_[rank * stream_count_ + index]; }
  Span& span(std::uint32_t rank, std::uint32_t op) { return result_.timeline.spans[first_span_[rank] + op]; }
  Seconds& segment_start(std::uint32_t rank, std::uint32_t segment) {
    return segment_starts_[first_segment_[rank] + segment];
  }
  std::uint32_t running_op(std::uint32_t rank, std::uint32_t index) {
    return program(rank).stream_ops[index][stream(rank, index).next];
  }
  std::uint32_t timeline_op(std::uint32_t rank, std::uint32_t op) const {
    return first_op_[schedule_.role_of[rank].value()] + op;
  }
  void at_op_end(std::uint32_t rank, std::uint32_t index, Seconds delay) {
    const std::uint32_t generation = stream(rank, index).generation & 0xFFFFFF;
    network_.delay(delay, Event{EventKind::OpEnd, rank, index | generation << StreamBits}.token());
  }

  void advance_host(std::uint32_t rank);
  void try_streams(std::uint32_t rank);
  void try_start(std::uint32_t rank, std::uint32_t index);
  void end_op(std::uint32_t rank, std::uint32_t index);

  void begin(std::uint32_t rank, std::uint32_t index, const Compute& compute);
  void begin(std::uint32_t rank, std::uint32_t index, const Collective& collective);
  void begin(std::uint32_t rank, std::uint32_t index, const Send& send);
  void begin(std::uint32_t rank, std::uint32_t index, const Receive& receive);
  void begin(std::uint32_t, std::uint32_t, const HostWork&) {}
  void begin(std::uint32_t, std::uint32_t, const HostWait&) {}

  double compute_rate(std::uint32_t rank) const {
    return ranks_[rank].resident > 0 ? cluster_.device.compute_rate_while_communicating : 1.0;
  }
  void plan_compute_end(std::uint32_t rank, std::uint32_t index);
  void change_resident(std::uint32_t rank, int by);
  void end_collective(std::uint32_t owner);
  std::uint32_t begin_transfer(End sender, End receiver, Bytes bytes, bool eager, bool receiver_waits);
  void end_transfer(std::uint32_t slot);
  void check_all_ended() const;

  const Schedule& schedule_;
  const Cluster& cluster_;
  Network& network_;
  CompiledSchedule compiled_;
  CollectivePlayer collectives_;
  MemoryLedger memory_;
  std::size_t stream_count_;
  std::vector<Rank> ranks_;
  std::vector<Stream> streams_;               // [rank][stream]
  std::vector<double> speed_;                 // by rank: factor on compute time
  std::vector<std::size_t> first_span_;       // by rank
  std::vector<std::size_t> first_segment_;    // by rank
  std::vector<Seconds> segment_starts_;
  std::vector<std::uint8_t> ended_;           // as spans
  std::vector<std::uint32_t> first_op_;       // by role
  std::vector<std::uint32_t> first_group_;    // by channel, into arrivals_
  std::vector<std::uint32_t> arrivals_;       // members of a group at its next collective on a channel
  struct GroupOnChannel {
    std::uint32_t channel;
    GroupId group;
  };
  std::vector<GroupOnChannel> group_of_arrivals_;
  std::unordered_map<MeetingKey, Meeting, MeetingHash> meetings_;  // looked up, never walked
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_transfers_;
  std::vector<LinkUse> scratch_;
  PathFinder paths_;
  RunResult result_;
};

Replay::Replay(const Schedule& schedule, const Cluster& cluster, Detail detail, Network& network)
    : schedule_(schedule),
      cluster_(cluster),
      network_(network),
      compiled_(compile(schedule, cluster.device)),
      collectives_(schedule, cluster, detail, network),
      memory_(schedule.world_size(), cluster.device.memory),
      stream_count_(schedule.streams.size()),
      ranks_(schedule.world_size()),
      streams_(schedule.world_size() * schedule.streams.size()),
      speed_(schedule.world_size(), 1.0),
      first_op_(first_op_of_role(schedule)),
      paths_(cluster) {
  SYNCLINE_CHECK(stream_count_ < (1U << StreamBits), "too many streams");
  SYNCLINE_CHECK(schedule.world_size() <= Event::LargestA, "too many ranks");
  for (const RankSpeed& speed : schedule.speeds) speed_[speed.rank.value()] = speed.factor;

  std::size_t spans = 0, segments = 0;
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    first_span_.push_back(spans);
    first_segment_.push_back(segments);
    spans += program(rank).ops.size();
    segments += program(rank).segments;
  }
  segment_starts_.resize(segments);
  ended_.resize(spans);
  Timeline& timeline = result_.timeline;
  timeline.source = "simulated: " + schedule.name;
  timeline.ranks = static_cast<std::uint32_t>(ranks_.size());
  timeline.streams = schedule.streams;
  timeline.ops = timeline_ops(schedule);
  timeline.spans.resize(spans);
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    for (std::uint32_t op = 0; op < program(rank).ops.size(); ++op) {
      span(rank, op).rank = RankId(rank);
      span(rank, op).op = timeline_op(rank, op);
    }
  }
  for (std::uint32_t c = 0; c < compiled_.channels.size(); ++c) {
    first_group_.push_back(static_cast<std::uint32_t>(group_of_arrivals_.size()));
    const GroupFamily& family = schedule.families[compiled_.channels[c].family.value()];
    for (std::size_t g = 0; g < family.group_count(); ++g) group_of_arrivals_.push_back({c, GroupId(g)});
  }
  arrivals_.resize(group_of_arrivals_.size());
  SYNCLINE_CHECK(arrivals_.size() <= Event::LargestA, "too many groups");
}

RunResult Replay::run() {
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
    memory_.hold(RankId(rank), program(rank).role->resident);
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    advance_host(rank);
    try_streams(rank);
  }
  network_.run(*this);
  check_all_ended();

  const std::vector<Span>& spans = result_.timeline.spans;
  if (!spans.empty()) {
    Seconds first = spans.front().start, last = spans.front().end;
    for (const Span& one : spans) {
      first = std::min(first, one.start);
      last = std::max(last, one.end);
    }
    result_.step_time = last - first;
  }
  result_.memory = std::move(memory_).report();
  result_.collectives = collectives_.choices();
  result_.bytes_sent += collectives_.bytes_sent_so_far();
  const std::vector<Bytes> carried = network_.carried();
  for (std::size_t link = 0; link < carried.size(); ++link)
    if (carried[link] > Bytes(0)) result_.links.push_back({LinkId(link), carried[link]});
  result_.engine.events = network_.event_count();
  result_.engine.flows = network_.transfer_count();
  return std::move(result_);
}

void Replay::on_done(Token token) {
  const Event event = Event::of(token);
  switch (event.kind) {
    case EventKind::StreamWake:
      stream(event.a, event.b).wake_pending = false;
      try_start(event.a, event.b);
      break;
    case EventKind::OpEnd: {
      const std::uint32_t index = event.b & ((1U << StreamBits) - 1);
      const Stream& state = stream(event.a, index);
      if (state.running && (state.generation & 0xFFFFFF) == event.b >> StreamBits) end_op(event.a, index);
      break;
    }
    case EventKind::CollectiveStep:
      if (const auto owner = collectives_.on_step(event.a, event.b)) end_collective(*owner);
      break;
    case EventKind::TransferEnd:
      end_transfer(event.a);
      break;
  }
}

// Lets the host issue up to the first wait that is not yet over.
void Replay::advance_host(std::uint32_t rank) {
  Rank& state = ranks_[rank];
  const Program& role = program(rank);
  for (; state.program_counter < role.ops.size(); ++state.program_counter) {
    const std::uint32_t index = state.program_counter;
    const ProgramOp& op = role.ops[index];
    const OpBody& body = role.role->program[index].body;
    const bool wait = std::holds_alternative<HostWait>(body);
    if (!wait && !std::holds_alternative<HostWork>(body)) continue;

    Span& host = span(rank, index);
    const Seconds arrival = segment_start(rank, op.segment) + op.arrival;
    host.start = host.transfer = arrival;
    if (const auto* work = std::get_if<HostWork>(&body)) {
      host.end = arrival + work->duration;
    } else {
      const std::uint32_t awaited = std::get<HostWait>(body).op.value();
      if (!ended_[first_span_[rank] + awaited]) {
        state.waiting_for = awaited;
        return;
      }
      host.end = std::max(arrival, span(rank, awaited).end);
      segment_start(rank, op.segment + 1) = host.end;
    }
    ended_[first_span_[rank] + index] = 1;
  }
}

void Replay::try_streams(std::uint32_t rank) {
  for (std::uint32_t index = 0; index < stream_count_; ++index) try_start(rank, index);
}

// Starts the next op of a stream if it is issued and all it waits for is over.
void Replay::try_start(std::uint32_t rank, std::uint32_t index) {
  Stream& state = stream(rank, index);
  const Program& role = program(rank);
  const std::vector<std::uint32_t>& list = role.stream_ops[index];
  if (state.running || state.next == list.size()) return;
  const std::uint32_t op_index = list[state.next];
  if (op_index >= ranks_[rank].program_counter) return;
  const Op& op = role.role->program[op_index];
  for (const OpIndex before : op.after)
    if (!ended_[first_span_[rank] + before.value()]) return;
  const ProgramOp& cost = role.ops[op_index];
  const Seconds issued = segment_start(rank, cost.segment) + cost.issued;
  if (issued > network_.now() + IssueSlack) {
    if (state.wake_pending) return;
    state.wake_pending = true;
    network_.delay(issued - network_.now(), Event{EventKind::StreamWake, rank, index}.token());
    return;
  }
  state.running = true;
  Span& started = span(rank, op_index);
  started.start = started.transfer = network_.now();
  memory_.take(RankId(rank), op.memory, timeline_op(rank, op_index), network_.now());
  std::visit([&](const auto& body) { begin(rank, index, body); }, op.body);
}

void Replay::end_op(std::uint32_t rank, std::uint32_t index) {
  Stream& state = stream(rank, index);
  const std::uint32_t op_index = running_op(rank, index);
  const Op& op = program(rank).role->program[op_index];
  span(rank, op_index).end = network_.now();
  ended_[first_span_[rank] + op_index] = 1;
  memory_.give_back(RankId(rank), op.memory);
  state.running = false;
  ++state.generation;
  ++state.next;
  if (op.communicates()) change_resident(rank, -1);
  if (ranks_[rank].waiting_for == op_index) {
    ranks_[rank].waiting_for = NoOp;
    advance_host(rank);
  }
  try_streams(rank);
}

void Replay::begin(std::uint32_t rank, std::uint32_t index, const Compute&) {
  Stream& state = stream(rank, index);
  const WorkCost& cost = compiled_.works[program(rank).ops[running_op(rank, index)].work.value()];
  state.work_left = (cost.device * speed_[rank]).si();
  state.updated = network_.now().si();
  plan_compute_end(rank, index);
}

void Replay::plan_compute_end(std::uint32_t rank, std::uint32_t index) {
  const ProgramOp& op = program(rank).ops[running_op(rank, index)];
  const Seconds issuing = compiled_.works[op.work.value()].host_bound(speed_[rank]);
  const Seconds host_bound = segment_start(rank, op.segment) + op.arrival + issuing - network_.now();
  at_op_end(rank, index, std::max(Seconds(stream(rank, index).work_left / compute_rate(rank)), host_bound));
}

// One more, or one less, communication kernel on the device: compute under way goes on at another rate.
void Replay::change_resident(std::uint32_t rank, int by) {
  const double before = compute_rate(rank);
  ranks_[rank].resident = static_cast<std::uint32_t>(static_cast<int>(ranks_[rank].resident) + by);
  if (compute_rate(rank) == before) return;
  for (std::uint32_t index = 0; index < stream_count_; ++index) {
    Stream& state = stream(rank, index);
    if (!state.running) continue;
    if (!std::holds_alternative<Compute>(program(rank).role->program[running_op(rank, index)].body)) continue;
    const double now = network_.now().si();
    state.work_left = std::max(0.0, state.work_left - (now - state.updated) * before);
    state.updated = now;
    ++state.generation;
    plan_compute_end(rank, index);
  }
}

void Replay::begin(std::uint32_t rank, std::uint32_t index, const Collective& collective) {
  change_resident(rank, +1);
  const std::uint32_t channel = program(rank).ops[running_op(rank, index)].channel;
  const GroupFamily& family = schedule_.families[collective.family.value()];
  const GroupId group = family.group_of(RankId(rank));
  const std::span<const RankId> members = family.members(group);
  if (members.size() == 1) return at_op_end(rank, index, Seconds(0));
  const std::uint32_t owner = first_group_[channel] + group.value();
  if (++arrivals_[owner] < members.size()) return;
  arrivals_[owner] = 0;
  for (const RankId member : members)
    span(member.value(), running_op(member.value(), index)).transfer = network_.now();
  collectives_.start(collective, group, owner);
}

void Replay::end_collective(std::uint32_t owner) {
  const GroupOnChannel& place = group_of_arrivals_[owner];
  const Channel& channel = compiled_.channels[place.channel];
  for (const RankId member : schedule_.families[channel.family.value()].members(place.group))
    end_op(member.value(), channel.stream.value());
}

// A send meets the oldest unmatched receive of its kind, or waits for one; an eager send waits for nobody.
void Replay::begin(std::uint32_t rank, std::uint32_t index, const Send& send) {
  change_resident(rank, +1);
  const RankId to = schedule_.peer(RankId(rank), send.to);
  Meeting& meeting = meetings_[{rank, to.value(), send.message}];
  const End self{rank, index};
  if (meeting.receives.empty() && !send.eager) return meeting.sends.push_back(self);
  End receiver{to.value(), 0};
  const bool receiver_waits = !meeting.receives.empty();
  if (receiver_waits) {
    receiver = meeting.receives.front();
    meeting.receives.pop_front();
  }
  const std::uint32_t slot = begin_transfer(self, receiver, send.bytes, send.eager, receiver_waits);
  if (!send.eager) return;
  if (!receiver_waits) meeting.in_flight.push_back(slot);
  at_op_end(rank, index, Seconds(0));
}

void Replay::begin(std::uint32_t rank, std::uint32_t index, const Receive& receive) {
  change_resident(rank, +1);
  const RankId from = schedule_.peer(RankId(rank), receive.from);
  Meeting& meeting = meetings_[{from.value(), rank, receive.message}];
  const End self{rank, index};
  if (!meeting.in_flight.empty()) {
    const std::uint32_t slot = meeting.in_flight.front();
    meeting.in_flight.pop_front();
    transfers_[slot].receiver = self;
    transfers_[slot].receiver_waits = true;
    if (transfers_[slot].arrived) end_transfer(slot);
    return;
  }
  if (meeting.sends.empty()) return meeting.receives.push_back(self);
  const End sender = meeting.sends.front();
  meeting.sends.pop_front();
  begin_transfer(sender, self, receive.bytes, false, true);
}

std::uint32_t Replay::begin_transfer(End sender, End receiver, Bytes bytes, bool eager, bool receiver_waits) {
  std::uint32_t slot = static_cast<std::uint32_t>(transfers_.size());
  if (free_transfers_.empty()) {
    SYNCLINE_CHECK(slot <= Event::LargestA, "too many transfers at once");
    transfers_.emplace_back();
  } else {
    slot = free_transfers_.back();
    free_transfers_.pop_back();
  }
  transfers_[slot] = {sender, receiver, eager, false, receiver_waits};
  const Seconds now = network_.now();
  span(sender.rank, running_op(sender.rank, sender.stream)).transfer = now;
  if (receiver_waits) span(receiver.rank, running_op(receiver.rank, receiver.stream)).transfer = now;
  result_.bytes_sent += bytes;
  scratch_.clear();
  const Seconds latency = paths_.append(RankId(sender.rank), RankId(receiver.rank), scratch_);
  network_.transfer(scratch_, bytes, latency, Event{EventKind::TransferEnd, slot}.token());
  return slot;
}

// The bytes have arrived, or a late receiver has come for an eager message that had.
void Replay::end_transfer(std::uint32_t slot) {
  const Transfer transfer = transfers_[slot];
  transfers_[slot].arrived = true;
  if (transfer.eager && !transfer.receiver_waits) return;  // the receiver will come
  free_transfers_.push_back(slot);
  if (transfer.eager && transfer.arrived) {
    at_op_end(transfer.receiver.rank, transfer.receiver.stream, Seconds(0));
    return;
  }
  if (!transfer.eager) end_op(transfer.sender.rank, transfer.sender.stream);
  end_op(transfer.receiver.rank, transfer.receiver.stream);
}

void Replay::check_all_ended() const {
  const auto open = std::find(ended_.begin(), ended_.end(), 0);
  if (open == ended_.end()) return;
  const auto index = static_cast<std::size_t>(open - ended_.begin());
  const auto rank = static_cast<std::uint32_t>(
      std::upper_bound(first_span_.begin(), first_span_.end(), index) - first_span_.begin() - 1);
  const Op& op = program(rank).role->program[index - first_span_[rank]];
  throw std::logic_error(fmt::format("the schedule came to a halt: rank {}, op {} ({}) never ended", rank,
                                     index - first_span_[rank], to_text(op.tag)));
}

}  // namespace

RunResult replay(const Schedule& schedule, const Cluster& cluster, Detail detail, Network& network) {
  if (cluster.placement.size() < schedule.world_size())
    throw std::invalid_argument(fmt::format("the schedule has {} ranks but only {} are placed on accelerators",
                                            schedule.world_size(), cluster.placement.size()));
  return Replay(schedule, cluster, detail, network).run();
}

std::vector<BytesPerSecond> link_capacities(const Topology& topology) {
  std::vector<BytesPerSecond> capacities;
  for (const Link& link : topology.links()) capacities.push_back(link.bandwidth);
  return capacities;
}

}  // namespace syncline
