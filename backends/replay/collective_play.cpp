// A collective under way: what starts when, step by step.
#include <algorithm>

#include "backends/replay/collective_player.hpp"
#include "backends/replay/token.hpp"
#include "sim/core/error.hpp"

namespace syncline {
namespace {

// A step is a lane and a position in it, or a track and a piece.
constexpr std::uint32_t PositionBits = 20;
constexpr std::uint32_t PositionMask = (1U << PositionBits) - 1;

std::uint32_t step_of(std::size_t lane, std::size_t position) {
  return static_cast<std::uint32_t>(lane) << PositionBits | static_cast<std::uint32_t>(position);
}

}  // namespace

void CollectivePlayer::start(const Collective& collective, GroupId id, std::uint32_t owner, double uneven) {
  const Part& part = part_of(collective, id);
  bytes_sent_ += part.bytes_sent;
  part.choice->count += part.group->siblings.size();
  part.choice->total_bytes_between_nodes += part.bytes_between_nodes;

  std::uint32_t slot = static_cast<std::uint32_t>(live_.size());
  if (free_.empty()) {
    SYNCLINE_CHECK(slot <= Event::LargestA, "too many collectives at once");
    live_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Live& live = live_[slot];
  live.part = &part;
  live.phase = 0;
  live.owner = owner;
  live.uneven = uneven;
  if (part.idle) {
    live.outstanding = 1;
    network_.delay(Seconds(0), Event{EventKind::CollectiveStep, slot, 0}.token());
  } else if (part.rounds != nullptr) {
    play_rounds(slot);
  } else if (part.bundle != nullptr) {
    live.outstanding = 1;
    move(*part.bundle, part.progress, part.latency, slot);
  } else if (part.lanes != nullptr) {
    play_lanes(slot);
  } else if (part.plan.flows) {
    play_flows(slot);
  } else {
    play_phase(slot);
  }
}

// With figures no faster than these say: all that the transfer is one step of, `whole`, in the time of the
// bytes.
void CollectivePlayer::transfer(std::span<const LinkUse> uses, Bytes bytes, Bytes whole, Seconds latency,
                                std::uint32_t slot, std::uint32_t step) {
  const Live& live = live_[slot];
  const Seconds time = live.part->bytes_time;
  network_.transfer(uses, bytes, latency * live.uneven, Event{EventKind::CollectiveStep, slot, step}.token(),
                    time > Seconds(0) ? whole / time : AnyRate);
}

void CollectivePlayer::move(const Bundle& bundle, Bytes bytes, Seconds latency, std::uint32_t slot,
                            std::uint32_t step) {
  if (book_ != nullptr) book_->moved(bundle, bytes);
  transfer(bundle.uses, bytes, bytes, latency, slot, step);
}

void CollectivePlayer::play_lanes(std::uint32_t slot) {
  Live& live = live_[slot];
  const Part& part = *live.part;
  live.outstanding = 0;
  live.progress.assign(part.plan.lanes.size(), {});
  for (std::size_t l = 0; l < part.plan.lanes.size(); ++l) {
    const Lane& lane = part.plan.lanes[l];
    SYNCLINE_CHECK(lane.order.size() <= PositionMask, "group too large to expand in full");
    live.progress[l].resize(lane.order.size());
    live.outstanding += lane.senders() * static_cast<std::size_t>(lane.steps);
  }
  for (std::uint32_t l = 0; l < part.plan.lanes.size(); ++l)
    for (std::uint32_t i = 0; i < part.plan.lanes[l].senders(); ++i) try_send(slot, l, i);
}

// Sends the next step of a position when its own last one has arrived and what it forwards is there.
void CollectivePlayer::try_send(std::uint32_t slot, std::uint32_t lane_index, std::uint32_t position) {
  Live& live = live_[slot];
  const Lane& lane = live.part->plan.lanes[lane_index];
  if (position >= lane.senders()) return;
  Progress& progress = live.progress[lane_index][position];
  if (progress.busy || progress.sent == lane.steps) return;
  const bool head = !lane.closed && position == 0;
  if (!head && progress.received < progress.sent + 1 - lane.lag) return;
  progress.busy = true;
  const Part& part = *live.part;
  const LanePaths& paths = part.lanes->paths;
  const Path& path = paths.hops[lane_index][position];
  const std::vector<RankId>& members = part.group->members;
  const bool between = paths_.between_nodes(members[lane.order[position]],
                                            members[lane.order[(position + 1) % lane.order.size()]]);
  const double wire = between ? part.wire.between : part.wire.inside;
  transfer(paths.uses_of(path), lane.bytes_of(progress.sent) * wire, lane.bytes_per_sender() * wire,
           part.method.figures == nullptr ? path.latency : part.latency / static_cast<double>(lane.steps),
           slot, step_of(lane_index, position));
}

// One of the transfers of a part that is played in full. With figures, the latency of the whole is spread evenly over the
// steps that follow one another.
void CollectivePlayer::transfer_between(const Part& part, std::uint32_t from, std::uint32_t to, Bytes bytes,
                                        std::size_t steps, std::uint32_t slot) {
  scratch_.clear();
  const RankId source = part.group->members[from], target = part.group->members[to];
  Seconds latency = paths_.append(source, target, scratch_);
  if (part.method.figures != nullptr || part.plan.flows) latency = part.latency / static_cast<double>(steps);
  const Bytes on_wire = bytes * (paths_.between_nodes(source, target) ? part.wire.between : part.wire.inside);
  transfer(scratch_, on_wire, on_wire * static_cast<double>(steps), latency, slot, 0);
}

void CollectivePlayer::play_rounds(std::uint32_t slot) {
  Live& live = live_[slot];
  const Part& part = *live.part;
  const std::size_t tracks = part.rounds->tracks, chunks = static_cast<std::size_t>(part.chunks);
  live.pieces.assign(tracks, std::vector<Piece>(chunks));
  live.outstanding = tracks * chunks;
  for (std::size_t track = 0; track < tracks; ++track) try_round(slot, track, 0);
}

// A piece begins its next round when it is done with the one before, and the piece before it with this one.
void CollectivePlayer::try_round(std::uint32_t slot, std::size_t track, std::size_t piece) {
  std::vector<Piece>& pieces = live_[slot].pieces[track];
  if (piece >= pieces.size() || pieces[piece].busy) return;
  if (pieces[piece].round == live_[slot].part->rounds->rounds_of(track)) return;
  if (piece > 0 && pieces[piece - 1].round <= pieces[piece].round) return;
  pieces[piece].busy = true;
  pieces[piece].repeated = 0;
  play_repeat(slot, track, piece);
}

void CollectivePlayer::play_repeat(std::uint32_t slot, std::size_t track, std::size_t piece) {
  Live& live = live_[slot];
  const Part& part = *live.part;
  Piece& at = live.pieces[track][piece];
  const Bytes bytes = part.progress / static_cast<double>(part.chunks);
  const std::uint32_t step = step_of(track, piece);
  if (detail_ == Detail::Aggregate) {
    const RoundPath& path = part.rounds->paths[track][at.round];
    at.outstanding = 1;
    at.repeated = path.repeat;
    return move(path.bundle, bytes * path.largest_flow, path.latency(bytes), slot, step);
  }
  const Round& round = (*part.rounds->flows)[track][at.round];
  ++at.repeated;
  at.outstanding = round.flows.size();
  for (const Flow& flow : round.flows) {
    scratch_.clear();
    const Seconds latency =
        paths_.append(part.group->members[flow.from], part.group->members[flow.to], scratch_);
    const Bytes its = bytes * (flow.share / round.repeat);
    transfer(scratch_, its, its, latency, slot, step);
  }
}

void CollectivePlayer::on_round_step(std::uint32_t slot, std::size_t track, std::size_t piece) {
  Live& live = live_[slot];
  Piece& at = live.pieces[track][piece];
  if (--at.outstanding > 0) return;
  if (at.repeated < live.part->rounds->repeat(track, at.round)) return play_repeat(slot, track, piece);
  at.busy = false;
  ++at.round;
  if (at.round == live.part->rounds->rounds_of(track)) --live.outstanding;
  try_round(slot, track, piece);
  try_round(slot, track, piece + 1);
}

void CollectivePlayer::play_flows(std::uint32_t slot) {
  Live& live = live_[slot];
  const Part& part = *live.part;
  live.outstanding = part.plan.flows->size();
  for (const Flow& flow : *part.plan.flows)
    transfer_between(part, flow.from, flow.to, part.plan.bytes * flow.share, 1, slot);
}

void CollectivePlayer::play_phase(std::uint32_t slot) {
  Live& live = live_[slot];
  const Burst& burst = live.part->plan.phases[live.phase];
  const Group& group = *live.part->group;
  const std::size_t n = group.members.size();
  if (detail_ == Detail::Aggregate) {
    const FanOuts& fan_outs = *group.fan_outs[static_cast<std::size_t>(burst.pattern)];
    const Bytes bytes = burst.bytes * static_cast<double>(n - 1);
    live.outstanding = fan_outs.size();
    for (std::uint32_t source = 0; source < fan_outs.size(); ++source) {
      const FanOut& fan = fan_outs[source];
      Seconds latency;
      for (const FanOutCost& cost : fan.costs) latency = std::max(latency, cost.latency(bytes, n - 1));
      move(fan.bundle, bytes, latency, slot, source);
    }
    return;
  }
  const std::size_t sources = sources_of(burst.pattern, n);
  live.outstanding = sources * (n - 1);
  for (std::uint32_t shift = 1; shift < n; ++shift)
    for (std::uint32_t i = 0; i < sources; ++i)
      transfer_between(*live.part, i, static_cast<std::uint32_t>((i + shift) % n), burst.bytes,
                       live.part->plan.phases.size(), slot);
}

std::optional<std::uint32_t> CollectivePlayer::on_step(std::uint32_t slot, std::uint32_t step) {
  Live& live = live_[slot];
  const Part& part = *live.part;
  if (part.rounds != nullptr) {
    on_round_step(slot, step >> PositionBits, step & PositionMask);
    if (live.outstanding > 0) return std::nullopt;
    free_.push_back(slot);
    return live.owner;
  }
  --live.outstanding;
  if (part.lanes != nullptr && part.bundle == nullptr) {
    const std::uint32_t lane = step >> PositionBits, position = step & PositionMask;
    std::vector<Progress>& progress = live.progress[lane];
    const auto next = static_cast<std::uint32_t>((position + 1) % progress.size());
    progress[position].busy = false;
    ++progress[position].sent;
    ++progress[next].received;
    try_send(slot, lane, position);
    try_send(slot, lane, next);
  }
  if (live.outstanding > 0) return std::nullopt;
  if (live.phase + 1 < part.plan.phases.size()) {
    ++live.phase;
    play_phase(slot);
    return std::nullopt;
  }
  free_.push_back(slot);
  return live.owner;
}

const Bundle* CollectivePlayer::bundle_of(std::uint32_t slot, std::uint32_t step) const {
  const Live& live = live_[slot];
  const Part& part = *live.part;
  if (part.bundle != nullptr) return part.bundle;
  if (detail_ == Detail::Full || part.lanes != nullptr || part.idle) return nullptr;
  if (part.rounds == nullptr) {
    const Burst& burst = part.plan.phases[live.phase];
    return &(*part.group->fan_outs[static_cast<std::size_t>(burst.pattern)])[step].bundle;
  }
  const std::size_t track = step >> PositionBits, piece = step & PositionMask;
  return &part.rounds->paths[track][live.pieces[track][piece].round].bundle;
}

}  // namespace syncline
