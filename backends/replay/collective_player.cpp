#include "backends/replay/collective_player.hpp"

#include <algorithm>
#include <map>

#include "backends/replay/token.hpp"
#include "sim/core/error.hpp"

namespace syncline {
namespace {

constexpr std::uint32_t PositionBits = 20;
constexpr std::uint32_t PositionMask = (1U << PositionBits) - 1;

std::uint32_t step_of(std::size_t lane, std::size_t position) {
  return static_cast<std::uint32_t>(lane) << PositionBits | static_cast<std::uint32_t>(position);
}

}  // namespace

CollectivePlayer::CollectivePlayer(const Schedule& schedule, const Cluster& cluster, Detail detail, Network& network)
    : schedule_(schedule), detail_(detail), network_(network), paths_(cluster) {}

CollectivePlayer::Group& CollectivePlayer::group_of(FamilyId family, GroupId id) {
  std::unique_ptr<Group>& entry = groups_[static_cast<std::uint64_t>(family.value()) << 32 | id.value()];
  if (entry) return *entry;
  entry = std::make_unique<Group>();
  const std::span<const RankId> members = schedule_.families[family.value()].members(id);
  entry->members.assign(members.begin(), members.end());
  std::vector<AcceleratorId> accelerators;
  std::map<std::uint32_t, std::size_t> node_sizes;
  for (const RankId rank : members) {
    accelerators.push_back(paths_.accelerator(rank));
    ++node_sizes[paths_.topology().node_of(accelerators.back())];
  }
  entry->nodes = node_sizes.size();
  entry->far_from_first = members.size() - node_sizes[paths_.topology().node_of(accelerators.front())];
  for (const auto& [node, size] : node_sizes) entry->pairs_between_nodes += size * (members.size() - size);
  entry->rings = ring_orders(accelerators, paths_.topology());
  return *entry;
}

// Rings of one group all take the same hops whatever they carry; so do its chains.
const LanePaths& CollectivePlayer::lane_paths(Group& group, const CollectivePlan& plan) {
  std::optional<LanePaths>& paths = plan.lanes.front().closed ? group.ring_paths : group.chain_paths;
  if (!paths) paths = paths_.lane_paths(group.members, plan.lanes);
  return *paths;
}

void CollectivePlayer::start(const Collective& collective, GroupId id, std::uint32_t owner) {
  Group& group = group_of(collective.family, id);
  const Algorithm algorithm =
      collective.algorithm == Algorithm::Auto ? choose_algorithm(collective.kind) : collective.algorithm;
  std::shared_ptr<const CollectivePlan>& plan =
      plans_[{collective.kind, algorithm, collective.family, id, collective.bytes.si()}];
  if (!plan)
    plan = std::make_shared<const CollectivePlan>(
        plan_collective(collective.kind, algorithm, collective.bytes, group.rings));
  const LanePaths* lanes = plan->lanes.empty() ? nullptr : &lane_paths(group, *plan);
  note_choice(collective, group, *plan, lanes);

  std::uint32_t slot = static_cast<std::uint32_t>(live_.size());
  if (free_.empty()) {
    SYNCLINE_CHECK(slot <= Event::LargestA, "too many collectives at once");
    live_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Live& live = live_[slot];
  live.group = &group;
  live.plan = plan;
  live.lanes = lanes;
  live.phase = 0;
  live.owner = owner;
  if (lanes != nullptr) play_lanes(slot);
  else play_phase(slot);
}

void CollectivePlayer::transfer(std::span<const LinkUse> uses, Bytes bytes, Seconds latency, std::uint32_t slot,
                                std::uint32_t step) {
  network_.transfer(uses, bytes, latency, Event{EventKind::CollectiveStep, slot, step}.token());
}

// The pieces of a chain are at different places of it at different times: no one action stands for them.
bool CollectivePlayer::expanded(const CollectivePlan& plan) const {
  return detail_ == Detail::Full || (!plan.lanes.empty() && !plan.lanes.front().closed);
}

void CollectivePlayer::play_lanes(std::uint32_t slot) {
  Live& live = live_[slot];
  if (!expanded(*live.plan)) {
    // All hops of all lanes advance together. What a lane takes alone beyond its bytes at the bundle's pace comes first.
    const Bundle& bundle = live.lanes->bundle;
    const Bytes bytes = live.plan->lanes.front().bytes_per_sender();
    Seconds latency;
    for (std::size_t l = 0; l < live.plan->lanes.size(); ++l)
      latency = std::max(latency, live.lanes->lone_time(l, live.plan->lanes[l]) -
                                      Seconds(bytes.si() * bundle.seconds_per_byte));
    live.outstanding = 1;
    return transfer(bundle.uses, bytes, latency, slot, 0);
  }
  live.outstanding = 0;
  live.progress.assign(live.plan->lanes.size(), {});
  for (std::size_t l = 0; l < live.plan->lanes.size(); ++l) {
    const Lane& lane = live.plan->lanes[l];
    SYNCLINE_CHECK(lane.order.size() <= PositionMask, "group too large to expand in full");
    live.progress[l].resize(lane.order.size());
    live.outstanding += lane.senders() * static_cast<std::size_t>(lane.steps);
  }
  for (std::uint32_t l = 0; l < live.plan->lanes.size(); ++l)
    for (std::uint32_t i = 0; i < live.plan->lanes[l].senders(); ++i) try_send(slot, l, i);
}

// Sends the next step of a position when its own last one has arrived and what it forwards is there.
void CollectivePlayer::try_send(std::uint32_t slot, std::uint32_t lane_index, std::uint32_t position) {
  Live& live = live_[slot];
  const Lane& lane = live.plan->lanes[lane_index];
  if (position >= lane.senders()) return;
  Progress& progress = live.progress[lane_index][position];
  if (progress.busy || progress.sent == lane.steps) return;
  const bool head = !lane.closed && position == 0;
  if (!head && progress.received < progress.sent + 1 - lane.lag) return;
  progress.busy = true;
  const Path& path = live.lanes->hops[lane_index][position];
  transfer(live.lanes->uses_of(path), lane.bytes_of(progress.sent), path.latency, slot, step_of(lane_index, position));
}

void CollectivePlayer::play_phase(std::uint32_t slot) {
  Live& live = live_[slot];
  const Burst& burst = live.plan->phases[live.phase];
  const std::vector<RankId>& members = live.group->members;
  const std::size_t n = members.size();
  const std::size_t sources = burst.pattern == Burst::Pattern::AllPairs ? n : 1;
  if (detail_ == Detail::Aggregate) {
    std::vector<Bundle>& fan_out = live.group->fan_out;
    fan_out.reserve(sources);
    while (fan_out.size() < sources) fan_out.push_back(paths_.fan_out(members, fan_out.size()));
    live.outstanding = sources;
    for (std::size_t i = 0; i < sources; ++i) {
      // Much to send: the near ones are served while the first bytes are on their way to the far ones. Little: the last
      // arrival is that at the farthest.
      const Bytes bytes = burst.bytes * static_cast<double>(n - 1);
      const Seconds sending(bytes.si() * fan_out[i].seconds_per_byte);
      const Seconds latency =
          std::max(fan_out[i].mean_latency,
                   fan_out[i].slowest_latency - sending * (static_cast<double>(n - 2) / static_cast<double>(n - 1)));
      transfer(fan_out[i].uses, bytes, latency, slot, 0);
    }
    return;
  }
  live.outstanding = sources * (n - 1);
  for (std::size_t shift = 1; shift < n; ++shift) {
    for (std::size_t i = 0; i < sources; ++i) {
      scratch_.clear();
      const Seconds latency = paths_.append(members[i], members[(i + shift) % n], scratch_);
      transfer(scratch_, burst.bytes, latency, slot, 0);
    }
  }
}

std::optional<std::uint32_t> CollectivePlayer::on_step(std::uint32_t slot, std::uint32_t step) {
  Live& live = live_[slot];
  --live.outstanding;
  if (live.lanes != nullptr && expanded(*live.plan)) {
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
  if (live.lanes == nullptr && live.phase + 1 < live.plan->phases.size()) {
    ++live.phase;
    play_phase(slot);
    return std::nullopt;
  }
  free_.push_back(slot);
  return live.owner;
}

// Groups of one family may differ in size and in what they span: a choice is of one size, and its bytes are summed.
void CollectivePlayer::note_choice(const Collective& collective, const Group& group, const CollectivePlan& plan,
                                   const LanePaths* lanes) {
  Bytes between_nodes;
  if (lanes != nullptr) {
    between_nodes = plan.lanes.front().bytes_per_sender() * static_cast<double>(lanes->between_nodes);
  } else {
    for (const Burst& burst : plan.phases) {
      const bool all = burst.pattern == Burst::Pattern::AllPairs;
      between_nodes += burst.bytes * static_cast<double>(all ? group.pairs_between_nodes : group.far_from_first);
    }
  }
  bytes_sent_ += bytes_sent(plan, group.members.size());

  CollectiveChoice& choice = choices_[{collective.family, collective.kind, collective.bytes.si(), plan.algorithm,
                                       group.members.size()}];
  choice.kind = collective.kind;
  choice.family = schedule_.families[collective.family.value()].name();
  choice.bytes = collective.bytes;
  choice.group_size = group.members.size();
  choice.algorithm = plan.algorithm;
  choice.channels = std::max({choice.channels, 1, static_cast<int>(plan.lanes.size())});
  choice.nodes_spanned = std::max(choice.nodes_spanned, group.nodes);
  choice.bytes_between_nodes = std::max(choice.bytes_between_nodes, between_nodes);
  choice.total_bytes_between_nodes += between_nodes;
  ++choice.count;
}

std::vector<CollectiveChoice> CollectivePlayer::choices() const {
  std::vector<CollectiveChoice> all;
  for (const auto& [key, choice] : choices_) all.push_back(choice);
  return all;
}

}  // namespace syncline
