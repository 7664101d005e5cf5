#include "backends/replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "backends/replay/changes.hpp"
#include "backends/replay/collective_player.hpp"
#include "backends/replay/load_factors.hpp"
#include "backends/replay/memory_ledger.hpp"
#include "backends/replay/noise.hpp"
#include "backends/replay/program.hpp"
#include "backends/replay/send_player.hpp"
#include "backends/replay/token.hpp"
#include "sim/core/error.hpp"
#include "sim/core/random.hpp"
#include "sim/topology/apply_faults.hpp"

namespace syncline {
namespace {

constexpr std::uint32_t NoOp = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t StreamBits = 8;

// Streams by their bits; the last bit is that of all beyond it.
using StreamSet = std::uint64_t;
constexpr StreamSet AllStreams = ~StreamSet{0};
constexpr StreamSet only(std::uint32_t stream) {
  return StreamSet{1} << std::min(stream, 63U);
}

// An op whose issue is nearer than this is issued: the rounding of a sum of launches.
constexpr Seconds IssueSlack{1e-12};

// Those who are played are known by their seat: their position in Cast::played.
class Replay : public NetworkListener {
 public:
  Replay(const Schedule& schedule, const Cluster& cluster, const Cast& cast, Detail detail, Network& network,
         bool timeline);
  RunResult run();
  void on_done(Token token) override;

 private:
  struct Stream {
    std::uint32_t next = 0;  // position in the role's list of this stream's ops
    bool running = false;
    bool wake_pending = false;
    std::uint32_t generation = 0;  // of the end event of the running compute op; older ones are stale
    double work_left = 0;          // s at full rate
    double updated = 0;
    Seconds host_bound;  // of the running compute op: date that its host lets it end at
  };
  struct Seat {
    RankId rank;
    const Program* program = nullptr;
    double speed = 1;         // factor on compute time
    double compute_rate = 1;  // beside what communicates now
    std::size_t first_span = 0;
    std::size_t first_segment = 0;
    std::uint32_t first_op = 0;         // of its role in Timeline::ops
    std::uint32_t program_counter = 0;  // ops before it are issued, at known times
    std::uint32_t waiting_for = NoOp;   // the op that a host wait is blocked on
    std::uint32_t resident = 0;         // communication kernels on the device
  };
  // One end of a send/receive pair.
  struct End {
    std::uint32_t seat = 0, stream = 0;
  };
  struct Transfer {
    End sender, receiver;
    bool eager = false;
    bool arrived = false;  // eager: before its receiver came
    bool receiver_waits = false;
  };
  struct Meeting {  // unmatched ends of one (sender, receiver, message), oldest first
    std::deque<End> sends, receives;
    std::deque<std::uint32_t> in_flight;  // eager transfers not yet received
  };
  // A group on a channel: those of its members who are played come together there for each collective.
  struct Gathering {
    std::uint32_t channel = 0;
    GroupId group;
    std::uint32_t first = 0, seats = 0;  // in gathering_seats_
    std::uint32_t arrived = 0;
  };
  struct MeetingKey {
    std::uint32_t sender, receiver;
    int message;
    bool operator==(const MeetingKey&) const = default;
  };
  struct MeetingHash {
    std::size_t operator()(const MeetingKey& key) const {
      return mix(static_cast<std::uint64_t>(key.sender) << 32 | key.receiver,
                 static_cast<std::uint64_t>(key.message));
    }
  };

  const Program& program(std::uint32_t seat) const { return *seats_[seat].program; }
  Stream& stream(std::uint32_t seat, std::uint32_t index) { return streams_[seat * stream_count_ + index]; }
  Span& span(std::uint32_t seat, std::uint32_t op) {
    return result_.timeline.spans[seats_[seat].first_span + op];
  }
  Seconds& segment_start(std::uint32_t seat, std::uint32_t segment) {
    return segment_starts_[seats_[seat].first_segment + segment];
  }
  std::uint32_t seat_of_peer(std::uint32_t seat, const Peer& peer) const {
    return cast_.seat_of[schedule_.peer(seats_[seat].rank, peer).value()];
  }
  std::span<const std::uint32_t> seats_of(const Gathering& gathering) const {
    return std::span(gathering_seats_).subspan(gathering.first, gathering.seats);
  }
  std::uint32_t running_op(std::uint32_t seat, std::uint32_t index) {
    return program(seat).stream_ops[index][stream(seat, index).next];
  }
  std::uint8_t& ended(std::uint32_t seat, std::uint32_t op) { return ended_[seats_[seat].first_span + op]; }
  void at_op_end(std::uint32_t seat, std::uint32_t index, Seconds delay) {
    const std::uint32_t generation = stream(seat, index).generation & 0xFFFFFF;
    network_.delay(delay, Event{EventKind::OpEnd, seat, index | generation << StreamBits}.token());
  }

  void check_units();
  void take_seats();
  void lay_out_timeline();
  void gather_groups();
  void prepare_folded();
  void advance_host(std::uint32_t seat);
  StreamSet end_waits(std::uint32_t seat, std::uint32_t op);
  void try_streams(std::uint32_t seat, StreamSet streams);
  void try_start(std::uint32_t seat, std::uint32_t index);
  void end_op(std::uint32_t seat, std::uint32_t index);

  void begin(std::uint32_t seat, std::uint32_t index, const Compute& compute);
  void begin(std::uint32_t seat, std::uint32_t index, const Collective& collective);
  void begin(std::uint32_t seat, std::uint32_t index, const Send& send);
  void begin(std::uint32_t seat, std::uint32_t index, const Receive& receive);
  void begin(std::uint32_t, std::uint32_t, const HostWork&) {}
  void begin(std::uint32_t, std::uint32_t, const HostWait&) {}

  double compute_rate(std::uint32_t seat);
  double rate_beside(const Op& op) const;
  double pace_of(std::uint32_t seat, std::uint32_t op) const;
  Seconds host_comes(std::uint32_t seat, const ProgramOp& op) {
    return segment_start(seat, op.segment) + op.arrival;
  }
  const WorkCost& cost_of(const ProgramOp& op) const { return compiled_.works[op.work.value()]; }
  void plan_compute_end(std::uint32_t seat, std::uint32_t index);
  void change_compute(std::uint32_t seat, double rate_before, double longer);
  enum class NoiseOf : std::uint8_t { Compute, Latency };
  [[nodiscard]] double unevenness(double variation, NoiseOf what, std::uint32_t seat, std::uint32_t op) const;
  void take_faults();
  void on_change(const Change& change);
  void slow_down(std::uint32_t seat, double factor);
  void slow_down(Stream& compute, std::uint32_t seat, std::uint32_t number, double longer);
  void change_resident(std::uint32_t seat, int by);
  void end_collective(std::uint32_t owner);
  std::uint32_t begin_transfer(End sender, End receiver, Bytes bytes, bool eager, bool receiver_waits);
  void end_transfer(std::uint32_t slot);
  void check_all_ended() const;
  void name_algorithms();

  const Schedule& schedule_;
  const std::vector<Change> changes_;
  std::optional<Cluster> changing_;  // where something changes on the way: a copy of our own
  const Cluster& cluster_;           // as it is now
  const Cast& cast_;
  const bool keeps_timeline_;
  Network& network_;
  CompiledSchedule compiled_;
  BundleBook book_;  // of a folded run
  CollectivePlayer collectives_;
  SendPlayer sends_;
  MemoryLedger memory_;
  LoadFactors loads_;
  bool takes_units_ = false;  // some collective says how many units of the device it takes
  std::size_t stream_count_;
  std::vector<Seat> seats_;
  std::vector<Stream> streams_;  // [seat][stream]
  std::vector<Seconds> segment_starts_;
  std::vector<std::uint32_t> waits_;          // as spans: ops that it stands after and that have not ended
  std::vector<std::uint8_t> ended_;           // as spans
  std::vector<std::size_t> first_gathering_;  // by channel; then by group
  std::vector<Gathering> gatherings_;
  std::vector<std::uint32_t> gathering_seats_;
  std::unordered_map<MeetingKey, Meeting, MeetingHash> meetings_;  // looked up, never walked
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_transfers_;
  RunResult result_;
};

Replay::Replay(const Schedule& schedule, const Cluster& cluster, const Cast& cast, Detail detail,
               Network& network, bool timeline)
    : schedule_(schedule),
      changes_(changes_of(cluster)),
      changing_(changes_.empty() ? std::nullopt : std::optional(cluster)),
      cluster_(changing_ ? *changing_ : cluster),
      cast_(cast),
      keeps_timeline_(timeline),
      network_(network),
      compiled_(compile(schedule, cluster_.device)),
      book_(cluster_.topology),
      collectives_(schedule, cluster_, cast, detail, network, cast.folded() ? &book_ : nullptr),
      sends_(schedule, cluster_, cast, network, cast.folded() ? &book_ : nullptr),
      memory_(cast.seats(), cluster_.device.memory),
      loads_(schedule, cast),
      stream_count_(schedule.streams.size()),
      seats_(cast.seats()),
      streams_(cast.seats() * schedule.streams.size()) {
  SYNCLINE_CHECK(stream_count_ < (1U << StreamBits), "too many streams");
  SYNCLINE_CHECK(cast.seats() <= Event::LargestA, "too many ranks");
  check_units();
  take_seats();
  if (keeps_timeline_) lay_out_timeline();
  gather_groups();
  if (cast.folded()) prepare_folded();
}

void Replay::check_units() {
  const int units = cluster_.device.gemm.units;
  for (const Role& role : schedule_.roles) {
    for (const Op& op : role.program) {
      const auto* collective = std::get_if<Collective>(&op.body);
      if (collective == nullptr || collective->units == 0 || units == 1) continue;
      takes_units_ = true;
      if (collective->units >= units)
        throw std::invalid_argument(
            fmt::format("{} takes {} units of the device, which has {}; some must be left for compute",
                        name_of(collective->kind), collective->units, units));
    }
  }
}

void Replay::take_seats() {
  const std::vector<std::uint32_t> first_op = first_op_of_role(schedule_);
  std::size_t spans = 0, segments = 0;
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = seats_[i];
    seat.rank = cast_.played[i];
    const std::uint32_t role = schedule_.role_of[seat.rank.value()].value();
    seat.program = &compiled_.programs[role];
    seat.first_op = first_op[role];
    seat.first_span = spans;
    seat.first_segment = segments;
    spans += seat.program->ops.size();
    segments += seat.program->segments;
  }
  for (const RankSpeed& speed : schedule_.speeds)
    seats_[cast_.seat_of[speed.rank.value()]].speed = speed.factor;
  take_faults();
  segment_starts_.resize(segments);
  ended_.resize(spans);
  waits_.reserve(spans);
  for (const Seat& seat : seats_)
    for (const ProgramOp& op : seat.program->ops) waits_.push_back(op.waits);
  result_.timeline.spans.resize(spans);
}

void Replay::lay_out_timeline() {
  Timeline& timeline = result_.timeline;
  timeline.source = "simulated: " + schedule_.name;
  timeline.ranks = static_cast<std::uint32_t>(schedule_.world_size());
  timeline.streams = schedule_.streams;
  timeline.ops = timeline_ops(schedule_);
  auto span = timeline.spans.begin();
  for (const Seat& seat : seats_) {
    for (std::uint32_t op = 0; op < seat.program->ops.size(); ++op, ++span) {
      span->rank = seat.rank;
      span->op = seat.first_op + op;
    }
  }
}

void Replay::gather_groups() {
  for (std::uint32_t channel = 0; channel < compiled_.channels.size(); ++channel) {
    first_gathering_.push_back(gatherings_.size());
    const GroupFamily& family = schedule_.families[compiled_.channels[channel].family.value()];
    for (std::size_t group = 0; group < family.group_count(); ++group) {
      Gathering& gathering = gatherings_.emplace_back();
      gathering.channel = channel;
      gathering.group = GroupId(group);
      gathering.first = static_cast<std::uint32_t>(gathering_seats_.size());
      for (const RankId member : family.members(GroupId(group)))
        if (cast_.plays(member)) gathering_seats_.push_back(cast_.seat_of[member.value()]);
      gathering.seats = static_cast<std::uint32_t>(gathering_seats_.size()) - gathering.first;
    }
  }
  SYNCLINE_CHECK(gatherings_.size() <= Event::LargestA, "too many groups");
}

// All that is going to move must be known before the first does.
void Replay::prepare_folded() {
  for (const Seat& seat : seats_) {
    for (const Op& op : seat.program->role->program) {
      if (const auto* send = std::get_if<Send>(&op.body)) sends_.prepare(seat.rank, send->to);
      const auto* collective = std::get_if<Collective>(&op.body);
      if (collective == nullptr) continue;
      const GroupFamily& family = schedule_.families[collective->family.value()];
      const GroupId group = family.group_of(seat.rank);
      if (family.members(group).size() > 1) collectives_.prepare(*collective, group);
    }
  }
  book_.close();
}

RunResult Replay::run() {
  for (std::uint32_t seat = 0; seat < seats_.size(); ++seat) memory_.hold(seat, program(seat).role->resident);
  for (std::uint32_t seat = 0; seat < seats_.size(); ++seat) {
    advance_host(seat);
    try_streams(seat, AllStreams);
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
  if (!keeps_timeline_) result_.timeline = {};
  const std::vector<RankMemory> memory = std::move(memory_).report();
  for (const std::uint32_t seat : cast_.seat_of) {
    result_.memory.push_back(memory[seat]);
    if (cast_.folded()) result_.player_of.push_back(cast_.played[seat]);
  }
  result_.collectives = collectives_.choices();
  if (keeps_timeline_) name_algorithms();
  for (std::size_t rank = 0; rank < cluster_.placement.size(); ++rank)
    if (cluster_.placement[rank] != AcceleratorId(rank)) ++result_.ranks_moved;
  if (!cluster_.faults.empty())
    result_.detours = share_of_detours(cluster_.topology.router(), cluster_.placement);
  result_.bytes_sent = collectives_.bytes_sent_so_far() + sends_.bytes_sent_so_far();
  const std::vector<Bytes> carried = cast_.folded() ? book_.carried() : network_.carried();
  for (std::size_t link = 0; link < carried.size(); ++link)
    if (carried[link] > Bytes(0)) result_.links.push_back({LinkId(link), carried[link]});
  result_.engine.events = network_.event_count();
  result_.engine.flows = network_.transfer_count();
  return std::move(result_);
}

// Of collectives that left it open: what was chosen; where groups of a family differ, all of it: "ring/tree".
void Replay::name_algorithms() {
  auto named = result_.timeline.ops.begin();
  for (const Role& role : schedule_.roles) {
    for (const Op& op : role.program) {
      TimelineOp& out = *named++;
      const auto* collective = std::get_if<Collective>(&op.body);
      if (collective == nullptr || collective->algorithm != Algorithm::Auto) continue;
      std::vector<std::string_view> chosen;
      for (const CollectiveChoice& choice : result_.collectives) {
        const std::string_view name = name_of(choice.algorithm);
        const bool its =
            choice.family == out.group && choice.bytes == out.bytes && choice.kind == collective->kind;
        if (its && std::ranges::find(chosen, name) == chosen.end()) chosen.push_back(name);
      }
      if (!chosen.empty()) out.algorithm = fmt::format("{}", fmt::join(chosen, "/"));
    }
  }
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
    case EventKind::TransferEnd: end_transfer(event.a); break;
    case EventKind::ClusterChange: on_change(changes_[event.a]); break;
  }
}

// Lets the host issue up to the first wait that is not yet over.
void Replay::advance_host(std::uint32_t seat) {
  Seat& state = seats_[seat];
  const Program& role = program(seat);
  for (; state.program_counter < role.ops.size(); ++state.program_counter) {
    const std::uint32_t index = state.program_counter;
    const ProgramOp& op = role.ops[index];
    const OpBody& body = role.role->program[index].body;
    const bool wait = std::holds_alternative<HostWait>(body);
    if (!wait && !std::holds_alternative<HostWork>(body)) continue;

    Span& host = span(seat, index);
    const Seconds arrival = segment_start(seat, op.segment) + op.arrival;
    host.start = host.transfer = arrival;
    if (const auto* work = std::get_if<HostWork>(&body)) {
      host.end = arrival + work->duration;
    } else {
      const std::uint32_t awaited = std::get<HostWait>(body).op.value();
      if (!ended(seat, awaited)) {
        state.waiting_for = awaited;
        return;
      }
      host.end = std::max(arrival, span(seat, awaited).end);
      segment_start(seat, op.segment + 1) = host.end;
    }
    ended(seat, index) = 1;
    end_waits(seat, index);
  }
}

// An op has ended: returns the streams of those that stand after nothing else.
StreamSet Replay::end_waits(std::uint32_t seat, std::uint32_t op) {
  StreamSet free = 0;
  const Program& role = program(seat);
  for (const std::uint32_t follower : role.followers_of(op))
    if (--waits_[seats_[seat].first_span + follower] == 0) free |= only(role.ops[follower].stream);
  return free;
}

void Replay::try_streams(std::uint32_t seat, StreamSet streams) {
  for (std::uint32_t index = 0; index < stream_count_; ++index)
    if ((streams & only(index)) != 0) try_start(seat, index);
}

// Starts the next op of a stream if it is issued and all it waits for is over.
void Replay::try_start(std::uint32_t seat, std::uint32_t index) {
  Stream& state = stream(seat, index);
  const Program& role = program(seat);
  const std::vector<std::uint32_t>& list = role.stream_ops[index];
  if (state.running || state.next == list.size()) return;
  const std::uint32_t op_index = list[state.next];
  if (op_index >= seats_[seat].program_counter || waits_[seats_[seat].first_span + op_index] > 0) return;
  const ProgramOp& cost = role.ops[op_index];
  const Seconds issued = segment_start(seat, cost.segment) + cost.issued;
  if (issued > network_.now() + IssueSlack) {
    if (state.wake_pending) return;
    state.wake_pending = true;
    network_.delay(issued - network_.now(), Event{EventKind::StreamWake, seat, index}.token());
    return;
  }
  const Op& op = role.role->program[op_index];
  state.running = true;
  Span& started = span(seat, op_index);
  started.start = started.transfer = network_.now();
  memory_.take(seat, op.memory, loads_.of(op, seat), seats_[seat].first_op + op_index, network_.now());
  std::visit([&](const auto& body) { begin(seat, index, body); }, op.body);
}

void Replay::end_op(std::uint32_t seat, std::uint32_t index) {
  Stream& state = stream(seat, index);
  const std::uint32_t op_index = running_op(seat, index);
  const Op& op = program(seat).role->program[op_index];
  span(seat, op_index).end = network_.now();
  ended(seat, op_index) = 1;
  memory_.give_back(seat, op.memory, loads_.of(op, seat));
  state.running = false;
  ++state.generation;
  ++state.next;
  if (op.communicates()) change_resident(seat, -1);
  StreamSet free = only(index) | end_waits(seat, op_index);
  if (seats_[seat].waiting_for == op_index) {
    seats_[seat].waiting_for = NoOp;
    advance_host(seat);
    free = AllStreams;
  }
  try_streams(seat, free);
}

void Replay::begin(std::uint32_t seat, std::uint32_t index, const Compute&) {
  Stream& state = stream(seat, index);
  const std::uint32_t number = running_op(seat, index);
  const ProgramOp& op = program(seat).ops[number];
  const double pace = pace_of(seat, number);
  state.work_left = (cost_of(op).device * pace).si();
  state.host_bound = host_comes(seat, op) + cost_of(op).host_bound(pace);
  state.updated = network_.now().si();
  plan_compute_end(seat, index);
}

// Factor on the time of a compute op.
double Replay::pace_of(std::uint32_t seat, std::uint32_t op) const {
  return seats_[seat].speed * loads_.of(program(seat).role->program[op], seat) *
         unevenness(cluster_.noise.compute, NoiseOf::Compute, seat, op);
}

double Replay::unevenness(double variation, NoiseOf what, std::uint32_t seat, std::uint32_t op) const {
  return noise_factor(variation, cluster_.seed, static_cast<std::uint64_t>(what), seats_[seat].rank.value(),
                      op);
}

// What is slow from the start, and the dates of what changes later; these come before all that happens at the same time.
void Replay::take_faults() {
  for (const Fault& fault : cluster_.faults) {
    result_.faults.push_back({fault, {}, 0, 0});
    FaultEffect& effect = result_.faults.back();
    const std::size_t rank =
        fault.part == Fault::Part::Accelerator ? rank_on(cluster_, fault) : schedule_.world_size();
    if (rank < schedule_.world_size()) effect.rank = RankId(rank);
    if (fault.part != Fault::Part::Accelerator) effect.links = links_of(cluster_.topology, fault).size();
    if (effect.rank && !fault.at) seats_[cast_.seat_of[rank]].speed *= fault.slowdown;
  }
  for (std::uint32_t i = 0; i < changes_.size(); ++i)
    network_.delay(changes_[i].date, Event{EventKind::ClusterChange, i}.token());
}

void Replay::on_change(const Change& change) {
  if (std::ranges::find(ended_, 0) == ended_.end()) return;  // after the step
  FaultEffect& effect = result_.faults[change.fault];
  if (change.kind == Change::Kind::Slow) {
    if (effect.rank) slow_down(cast_.seat_of[effect.rank->value()], effect.fault.slowdown);
    return;
  }
  Topology& topology = changing_->topology;
  for (const LinkId link : change.links) {
    if (change.kind == Change::Kind::Narrow) topology.limit(link, effect.fault.bandwidth);
    network_.set_bandwidth(
        link, change.kind == Change::Kind::Stop ? BytesPerSecond(0) : topology.link(link).bandwidth);
  }
  if (change.kind == Change::Kind::Stop) return;
  if (change.kind == Change::Kind::Reroute) topology.set_router(change.router);
  collectives_.look_up_again();
  if (change.kind == Change::Kind::Reroute)
    effect.rerouted = network_.reroute([&](Token token, std::vector<LinkUse>& uses) {
      const Event event = Event::of(token);
      const Bundle* bundle =
          event.kind == EventKind::CollectiveStep ? collectives_.bundle_of(event.a, event.b) : nullptr;
      if (bundle != nullptr)
        uses = bundle->uses;
      else
        take_present_way(topology, uses);
    });
}

// What is left of compute under way takes longer too.
void Replay::slow_down(std::uint32_t seat, double factor) {
  seats_[seat].speed *= factor;
  change_compute(seat, seats_[seat].compute_rate, factor);
}

// Kernels to come take `longer` times as long once the host has issued them, and what is left of the others from now on.
// The device may have waited for one issued since the last change: what has gone by since then is all that is done of it
// and those after it.
void Replay::slow_down(Stream& compute, std::uint32_t seat, std::uint32_t number, double longer) {
  const ProgramOp& op = program(seat).ops[number];
  const double pace = pace_of(seat, number);
  const Seconds now = network_.now();
  const WorkCost& cost = cost_of(op);
  compute.host_bound = Seconds(0);
  for (std::size_t kernel = 0; kernel < cost.followers.size(); ++kernel) {
    const Seconds issued = host_comes(seat, op) + cost.launched[kernel], followers = cost.followers[kernel];
    if (issued > now)
      compute.host_bound = std::max(compute.host_bound, issued + followers * pace);
    else if (issued > Seconds(compute.updated))
      compute.work_left = std::max(compute.work_left, (issued + followers * (pace / longer) - now).si());
  }
  compute.work_left *= longer;
}

void Replay::plan_compute_end(std::uint32_t seat, std::uint32_t index) {
  const Stream& state = stream(seat, index);
  at_op_end(
      seat, index,
      std::max(Seconds(state.work_left / seats_[seat].compute_rate), state.host_bound - network_.now()));
}

// One more, or one less, communication kernel on the device: compute under way goes on at another rate.
void Replay::change_resident(std::uint32_t seat, int by) {
  Seat& state = seats_[seat];
  state.resident = static_cast<std::uint32_t>(static_cast<int>(state.resident) + by);
  const double before = std::exchange(state.compute_rate, compute_rate(seat));
  if (state.compute_rate != before) change_compute(seat, before, 1);
}

// The least that a communication kernel on the device leaves.
double Replay::compute_rate(std::uint32_t seat) {
  if (seats_[seat].resident == 0) return 1;
  if (!takes_units_) return cluster_.device.compute_rate_while_communicating;
  double rate = 1;
  for (std::uint32_t index = 0; index < stream_count_; ++index)
    if (stream(seat, index).running)
      rate = std::min(rate, rate_beside(program(seat).role->program[running_op(seat, index)]));
  return rate;
}

double Replay::rate_beside(const Op& op) const {
  if (!op.communicates()) return 1;
  const auto* collective = std::get_if<Collective>(&op.body);
  const int units = cluster_.device.gemm.units;
  if (collective == nullptr || collective->units == 0 || units == 1)
    return cluster_.device.compute_rate_while_communicating;
  return 1 - static_cast<double>(collective->units) / units;
}

// Compute under way went at `rate_before` until now; what is left of it takes `longer` times as long.
void Replay::change_compute(std::uint32_t seat, double rate_before, double longer) {
  for (std::uint32_t index = 0; index < stream_count_; ++index) {
    Stream& state = stream(seat, index);
    if (!state.running) continue;
    const std::uint32_t number = running_op(seat, index);
    if (!std::holds_alternative<Compute>(program(seat).role->program[number].body)) continue;
    const double now = network_.now().si();
    state.work_left = std::max(0.0, state.work_left - (now - state.updated) * rate_before);
    if (longer != 1) slow_down(state, seat, number, longer);
    state.updated = now;
    ++state.generation;
    plan_compute_end(seat, index);
  }
}

void Replay::begin(std::uint32_t seat, std::uint32_t index, const Collective& collective) {
  change_resident(seat, +1);
  const std::uint32_t channel = program(seat).ops[running_op(seat, index)].channel;
  const GroupFamily& family = schedule_.families[collective.family.value()];
  const GroupId group = family.group_of(seats_[seat].rank);
  if (family.members(group).size() == 1) return at_op_end(seat, index, Seconds(0));
  const std::size_t owner = first_gathering_[channel] + group.value();
  Gathering& gathering = gatherings_[owner];
  if (++gathering.arrived < gathering.seats) return;
  gathering.arrived = 0;
  for (const std::uint32_t member : seats_of(gathering))
    span(member, running_op(member, index)).transfer = network_.now();
  const std::uint32_t first = seats_of(gathering).front();
  collectives_.start(collective, group, static_cast<std::uint32_t>(owner),
                     unevenness(cluster_.noise.latency, NoiseOf::Latency, first, running_op(first, index)));
}

void Replay::end_collective(std::uint32_t owner) {
  const Gathering& gathering = gatherings_[owner];
  const std::uint32_t index = compiled_.channels[gathering.channel].stream.value();
  for (const std::uint32_t member : seats_of(gathering)) end_op(member, index);
}

// A send meets the oldest unmatched receive of its kind, or waits for one; an eager send waits for nobody.
void Replay::begin(std::uint32_t seat, std::uint32_t index, const Send& send) {
  change_resident(seat, +1);
  const std::uint32_t to = seat_of_peer(seat, send.to);
  Meeting& meeting = meetings_[{seat, to, send.message}];
  const End self{seat, index};
  if (meeting.receives.empty() && !send.eager) return meeting.sends.push_back(self);
  End receiver{to, 0};
  const bool receiver_waits = !meeting.receives.empty();
  if (receiver_waits) {
    receiver = meeting.receives.front();
    meeting.receives.pop_front();
  }
  const std::uint32_t slot = begin_transfer(self, receiver, send.bytes, send.eager, receiver_waits);
  if (!send.eager) return;
  if (!receiver_waits) meeting.in_flight.push_back(slot);
  at_op_end(seat, index, Seconds(0));
}

void Replay::begin(std::uint32_t seat, std::uint32_t index, const Receive& receive) {
  change_resident(seat, +1);
  const std::uint32_t from = seat_of_peer(seat, receive.from);
  Meeting& meeting = meetings_[{from, seat, receive.message}];
  const End self{seat, index};
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
  span(sender.seat, running_op(sender.seat, sender.stream)).transfer = now;
  if (receiver_waits) span(receiver.seat, running_op(receiver.seat, receiver.stream)).transfer = now;
  sends_.start(seats_[sender.seat].rank, seats_[receiver.seat].rank, bytes,
               Event{EventKind::TransferEnd, slot}.token(),
               unevenness(cluster_.noise.latency, NoiseOf::Latency, sender.seat,
                          running_op(sender.seat, sender.stream)));
  return slot;
}

// The bytes have arrived, or a late receiver has come for an eager message that had.
void Replay::end_transfer(std::uint32_t slot) {
  const Transfer transfer = transfers_[slot];
  transfers_[slot].arrived = true;
  if (transfer.eager && !transfer.receiver_waits) return;  // the receiver will come
  free_transfers_.push_back(slot);
  if (transfer.eager && transfer.arrived) {
    at_op_end(transfer.receiver.seat, transfer.receiver.stream, Seconds(0));
    return;
  }
  if (!transfer.eager) end_op(transfer.sender.seat, transfer.sender.stream);
  end_op(transfer.receiver.seat, transfer.receiver.stream);
}

void Replay::check_all_ended() const {
  const auto open = std::find(ended_.begin(), ended_.end(), 0);
  if (open == ended_.end()) return;
  const auto index = static_cast<std::size_t>(open - ended_.begin());
  const auto after = std::ranges::upper_bound(seats_, index, {}, &Seat::first_span);
  const Seat& seat = *std::prev(after);
  const std::size_t op = index - seat.first_span;
  throw std::logic_error(fmt::format("the schedule came to a halt: rank {}, op {} ({}) never ended",
                                     seat.rank.value(), op, to_text(seat.program->role->program[op].tag)));
}

}  // namespace

RunResult replay(const Schedule& schedule, const Cluster& cluster, const Cast& cast, Detail detail,
                 Network& network, bool timeline) {
  if (cluster.placement.size() < schedule.world_size())
    throw std::invalid_argument(
        fmt::format("the schedule has {} ranks but only {} are placed on accelerators", schedule.world_size(),
                    cluster.placement.size()));
  SYNCLINE_CHECK(!cast.folded() || detail == Detail::Aggregate, "ranks are folded in aggregate detail only");
  return Replay(schedule, cluster, cast, detail, network, timeline).run();
}

RunResult replay(const Schedule& schedule, const Cluster& cluster, Detail detail, Network& network) {
  return replay(schedule, cluster, everybody(schedule), detail, network);
}

std::vector<BytesPerSecond> link_capacities(const Topology& topology) {
  std::vector<BytesPerSecond> capacities;
  for (const Link& link : topology.links()) capacities.push_back(link.bandwidth);
  return capacities;
}

}  // namespace syncline
