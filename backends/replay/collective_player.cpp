#include "backends/replay/collective_player.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

// Of one exchange; they cost the square of their number, and more are one action.
constexpr std::size_t MostFanOuts = 512;

void insert_if_different(std::vector<HopCost>& ascending, const HopCost& cost) {
  const auto place = std::lower_bound(ascending.begin(), ascending.end(), cost);
  if (place == ascending.end() || *place != cost) ascending.insert(place, cost);
}

// All that a plan moves, at the same time: pieces that follow close upon each other load all hops of a chain.
void put_side_by_side(CollectivePlan& plan, std::size_t members) {
  std::vector<Flow> flows;
  if (plan.tracks) {  // shares of S, whatever that is
    for (const Track& track : *plan.tracks)
      for (const Round& round : track) flows.insert(flows.end(), round.flows.begin(), round.flows.end());
  } else {
    for_each_move(plan, members, [&](std::size_t from, std::size_t to, Bytes bytes) {
      flows.push_back({static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), bytes / plan.bytes});
    });
  }
  plan.lanes.clear();
  plan.tracks.reset();
  plan.flows = std::make_shared<const std::vector<Flow>>(std::move(flows));
}

double imbalance_of(const ExchangeView& exchange) {
  const double sent = exchange.sent();
  return sent > 0 ? exchange.most_received() * static_cast<double>(exchange.members) / sent : 1;
}

bool moves_nothing(const std::vector<Track>& tracks) {
  return std::ranges::all_of(tracks, [](const Track& track) { return track.empty(); });
}

}  // namespace

CollectivePlayer::CollectivePlayer(const Schedule& schedule, const Cluster& cluster, const Cast& cast,
                                   Detail detail, Network& network, BundleBook* folded)
    : schedule_(schedule),
      cluster_(cluster),
      cast_(cast),
      detail_(detail),
      network_(network),
      book_(folded),
      paths_(cluster),
      sum_(cluster.topology.links().size()),
      waits_(cluster.topology.links().size()) {}

// --- what is known of groups and of what they run ---

std::span<const RankId> CollectivePlayer::members_of(const Collective& collective, GroupId group) const {
  return schedule_.families[collective.family.value()].members(group);
}

std::vector<AcceleratorId> CollectivePlayer::accelerators_of(std::span<const RankId> members) const {
  std::vector<AcceleratorId> accelerators;
  for (const RankId rank : members) accelerators.push_back(paths_.accelerator(rank));
  return accelerators;
}

GroupShape CollectivePlayer::shape_of_group(std::span<const RankId> members) const {
  return shape_of(accelerators_of(members), paths_.topology());
}

void CollectivePlayer::add_places(std::span<const RankId> members, Places& places) const {
  std::map<std::uint32_t, std::size_t> node_sizes;
  const auto node_of = [&](RankId rank) { return paths_.topology().node_of(paths_.accelerator(rank)); };
  for (const RankId rank : members) ++node_sizes[node_of(rank)];
  std::size_t pairs = 0;
  for (const auto& [node, size] : node_sizes) pairs += size * (members.size() - size);
  places.nodes = std::max(places.nodes, node_sizes.size());
  places.pairs.add(pairs);
  places.far_from_first.add(members.size() - node_sizes[node_of(members.front())]);
}

CollectivePlayer::Group& CollectivePlayer::group_of(FamilyId family_id, GroupId id) {
  std::unique_ptr<Group>& entry = groups_[static_cast<std::uint64_t>(family_id.value()) << 32 | id.value()];
  if (entry) return *entry;
  entry = std::make_unique<Group>();
  const GroupFamily& family = schedule_.families[family_id.value()];
  const auto seat_of_first = [&](GroupId group) {
    return cast_.seat_of[family.members(group).front().value()];
  };
  if (book_ == nullptr) {
    entry->siblings = {id};
  } else {
    for (std::size_t g = 0; g < family.group_count(); ++g)
      if (seat_of_first(GroupId(g)) == seat_of_first(id)) entry->siblings.emplace_back(g);
  }
  entry->id = id;
  entry->members.assign(family.members(id).begin(), family.members(id).end());
  entry->shape = shape_of_group(entry->members);
  for (const GroupId sibling : entry->siblings) {
    add_places(family.members(sibling), entry->places);
    if (sibling != id && entry->alike)
      entry->alike =
          layout_of(accelerators_of(family.members(sibling)), paths_.topology()).like(entry->shape.layout);
  }
  return *entry;
}

const CollectivePlayer::Part& CollectivePlayer::part_of(const Collective& collective, GroupId id) {
  Group& group = group_of(collective.family, id);
  const auto [known, added] = group.parts.try_emplace(
      {collective.kind, collective.algorithm, collective.bytes.si(), collective.chunks, collective.exchange,
       collective.back, collective.library, collective.call.si(), collective.least.si()});
  Part& part = known->second;
  if (!added) return part;
  part.group = &group;
  part.collective = collective;
  part.method = method_of(collective, group);
  lay_out(part);
  return part;
}

void CollectivePlayer::look_up_again() {
  SYNCLINE_CHECK(book_ == nullptr, "a folded run knows all it loads beforehand");
  for (const auto& [id, group] : groups_) {
    group->ring.reset();
    group->chain.reset();
    group->back_chain.reset();
    group->shift.reset();
    group->fan_outs = {};
    group->loads.clear();
    group->bundles.clear();
    group->costs.clear();
    group->rounds.clear();
    for (auto& [key, part] : group->parts) {
      Part fresh;
      fresh.group = part.group;
      fresh.collective = part.collective;
      fresh.method = part.method;
      part = std::move(fresh);
      lay_out(part);
    }
  }
}

void CollectivePlayer::lay_out(Part& part) {
  const Collective& collective = part.collective;
  const Group& group = *part.group;
  part.plan = plan_of(collective, part.method.algorithm, collective.bytes, group, group.id);
  part.bytes_sent =
      syncline::bytes_sent(part.plan, group.members.size()) * static_cast<double>(group.siblings.size());
  if (part.plan.tracks && moves_nothing(*part.plan.tracks))
    add_idle(collective, part);
  else if (part.method.figures != nullptr)
    add_figures(collective, part);
  else if (collective.library)
    add_library(collective, part);
  else if (part.plan.tracks)
    add_rounds(collective, part);
  else if (part.plan.flows)
    add_flows(collective, part);
  else if (part.plan.lanes.empty())
    add_bursts(collective, part);
  else
    add_lanes(collective, part);
}

CollectivePlan CollectivePlayer::plan_of(const Collective& collective, Algorithm algorithm, Bytes bytes,
                                         const Group& group, GroupId sibling) const {
  const std::span<const RankId> members = members_of(collective, sibling);
  if (collective.exchange) {
    const Layout layout =
        sibling == group.id ? group.shape.layout : layout_of(accelerators_of(members), paths_.topology());
    return plan_exchange(algorithm, bytes, exchange_of(collective, sibling), collective.back, layout);
  }
  if (sibling == group.id) return plan_collective(collective.kind, algorithm, bytes, group.shape);
  return plan_collective(collective.kind, algorithm, bytes, shape_of_group(members));
}

ExchangeView CollectivePlayer::exchange_of(const Collective& collective, GroupId group) const {
  return view_of(schedule_.exchanges[collective.exchange->value()], group);
}

void CollectivePlayer::add_idle(const Collective& collective, Part& part) {
  part.idle = true;
  add_choice(collective, part, Bytes(0));
  part.plan = {};
}

// --- where the topology has figures of its communication library ---

void CollectivePlayer::add_figures(const Collective& collective, Part& part) {
  Group& group = *part.group;
  const ProtocolFigures& figures = *part.method.figures;
  const Algorithm algorithm = part.method.algorithm;
  const Hops hops = hops_of(collective.kind, algorithm, {group.members.size(), group.places.nodes});
  part.latency = latency_of(figures, hops);
  part.bytes_time =
      bytes_time(figures, hops, scaled(own_load(collective, algorithm, group).load, collective.bytes),
                 node_limit_of(*paths_.topology().collectives(), collective.kind, algorithm));
  part.wire = wire_of(figures);
  play_at_pace(collective, part);
}

void CollectivePlayer::add_library(const Collective& collective, Part& part) {
  part.latency = collective.call;
  part.bytes_time = collective.least;
  play_at_pace(collective, part);
}

// All of it at a pace of its own: its latency once, then its bytes in no less than their time.
void CollectivePlayer::play_at_pace(const Collective& collective, Part& part) {
  const Group& group = *part.group;
  const Sum<double>& between = between_nodes_of_byte(collective, part);
  part.bytes_between_nodes = collective.bytes * between.total;
  add_choice(collective, part, collective.bytes * between.most);
  if (detail_ == Detail::Aggregate) {
    part.bundle = &wire_bundle(collective, part);
    part.progress = collective.bytes;
    part.plan = {};  // as long as the group, and not needed again
  } else if (!part.plan.lanes.empty() && part.plan.lanes.front().closed) {
    part.lanes = &lanes_of(collective, part);
  } else if (part.plan.phases.empty() && !part.plan.flows) {
    put_side_by_side(part.plan, group.members.size());
  }
}

const CollectivePlayer::Sum<double>& CollectivePlayer::between_nodes_of_byte(const Collective& collective,
                                                                             const Part& part) {
  Group& group = *part.group;
  const auto [entry, added] = group.between.try_emplace(plans_of(collective, part.method.algorithm));
  if (!added) return entry->second;
  for (const GroupId sibling : group.siblings) {
    const CollectivePlan plan = plan_of(collective, part.method.algorithm, Bytes(1), group, sibling);
    entry->second.add(
        bytes_between_nodes(plan, accelerators_of(members_of(collective, sibling)), paths_.topology()).si());
  }
  return entry->second;
}

// Of all siblings, per byte of S; each link carries what its protocol makes of the bytes.
const Bundle& CollectivePlayer::wire_bundle(const Collective& collective, const Part& part) {
  Group& group = *part.group;
  const auto [entry, added] =
      group.bundles.try_emplace({plans_of(collective, part.method.algorithm), part.method.figures});
  Bundle& bundle = entry->second;
  if (!added) return bundle;
  const Topology& topology = paths_.topology();
  if (group.siblings.size() == 1) {
    bundle.uses = own_load(collective, part.method.algorithm, group).uses;
  } else {
    for (const GroupId sibling : group.siblings)
      add_moves(plan_of(collective, part.method.algorithm, Bytes(1), group, sibling),
                accelerators_of(members_of(collective, sibling)), topology, sum_);
    bundle.uses = sum_.take();
  }
  for (LinkUse& use : bundle.uses)
    use.coefficient *=
        topology.link(use.link).kind == LinkKind::ScaleUp ? part.wire.inside : part.wire.between;
  if (book_ != nullptr) book_->enter(bundle);
  return bundle;
}

// --- rounds ---

CollectivePlayer::Rounds& CollectivePlayer::rounds_of_group(const Collective& collective, const Part& part) {
  const auto [entry, added] = part.group->rounds.try_emplace(plans_of(collective, part.method.algorithm));
  Rounds& rounds = entry->second;
  if (!added) return rounds;
  rounds = look_up_rounds(collective, part);
  if (book_ != nullptr)
    for (std::vector<RoundPath>& track : rounds.paths)
      for (RoundPath& path : track) book_->enter(path.bundle);
  return rounds;
}

// Of each round all flows together, of all siblings.
CollectivePlayer::Rounds CollectivePlayer::look_up_rounds(const Collective& collective, const Part& part) {
  const std::vector<Track>& tracks = *part.plan.tracks;
  Rounds rounds{tracks.size(), {}, {}};
  if (detail_ == Detail::Full) {
    rounds.flows = part.plan.tracks;
    return rounds;
  }
  std::vector<CollectivePlan> plans;
  for (const GroupId sibling : part.group->siblings)
    plans.push_back(plan_of(collective, part.method.algorithm, Bytes(1), *part.group, sibling));
  for (std::size_t t = 0; t < tracks.size(); ++t) {
    rounds.paths.emplace_back();
    for (std::size_t r = 0; r < tracks[t].size(); ++r) {
      RoundPath& path = rounds.paths.back().emplace_back();
      for (const Flow& flow : tracks[t][r].flows) path.largest_flow = std::max(path.largest_flow, flow.share);
      std::vector<HopCost> lone;
      for (std::size_t s = 0; s < plans.size(); ++s) {
        const std::span<const RankId> members = members_of(collective, part.group->siblings[s]);
        for (const Flow& flow : (*plans[s].tracks)[t][r].flows) {
          scratch_.clear();
          const Seconds latency = paths_.append(members[flow.from], members[flow.to], scratch_);
          insert_if_different(lone, {latency, flow.share * paths_.topology().seconds_per_byte(scratch_)});
          sum_.add(scratch_, flow.share / path.largest_flow);
          waits_.add(scratch_, flow.share / path.largest_flow * latency.si());
        }
      }
      path.bundle.uses = sum_.take();
      path.repeat = tracks[t][r].repeat;
      path.costs = round_costs(path, waits_.take(), std::move(lone));
    }
  }
  return rounds;
}

// Without latency anywhere there are no waits.
std::vector<HopCost> CollectivePlayer::round_costs(const RoundPath& path, const std::vector<LinkUse>& waits,
                                                   std::vector<HopCost> all) const {
  auto wait = waits.begin();
  for (const LinkUse& use : path.bundle.uses) {
    const bool waited = wait != waits.end() && wait->link == use.link;
    const double latency = waited ? (wait++)->coefficient / use.coefficient : 0;
    all.push_back({Seconds(latency),
                   use.coefficient * path.largest_flow / paths_.topology().link(use.link).bandwidth.si()});
  }
  std::ranges::sort(all, std::greater<>());
  std::vector<HopCost> costs;
  for (const HopCost& cost : all)
    if (costs.empty() || cost.seconds_per_byte > costs.back().seconds_per_byte) costs.push_back(cost);
  return costs;
}

Seconds CollectivePlayer::RoundPath::latency(Bytes bytes) const {
  Seconds longest;
  for (const HopCost& cost : costs)
    longest = std::max(longest, cost.latency * repeat + Seconds(bytes.si() * cost.seconds_per_byte));
  return costs.empty() ? longest : longest - Seconds(bytes.si() * costs.back().seconds_per_byte);
}

void CollectivePlayer::add_rounds(const Collective& collective, Part& part) {
  part.rounds = &rounds_of_group(collective, part);
  part.chunks = std::max(1, collective.chunks);
  part.progress = collective.bytes;
  const Sum<double>& between = between_nodes_of_byte(collective, part);
  part.bytes_between_nodes = collective.bytes * between.total;
  add_choice(collective, part, collective.bytes * between.most);
  part.choice->channels = static_cast<int>(part.rounds->tracks);
  part.plan = {};
}

// --- flows, without figures ---

void CollectivePlayer::add_flows(const Collective& collective, Part& part) {
  part.latency = cost_of(collective, part.method.algorithm, *part.group).latency();
  const Sum<double>& between = between_nodes_of_byte(collective, part);
  part.bytes_between_nodes = collective.bytes * between.total;
  add_choice(collective, part, collective.bytes * between.most);
  if (detail_ == Detail::Full) return;
  part.bundle = &wire_bundle(collective, part);
  part.progress = collective.bytes;
  part.plan = {};
}

// --- where the topology has none ---

void CollectivePlayer::add_lanes(const Collective& collective, Part& part) {
  // The pieces of a chain are at different places of it at different times: no one action stands for them.
  const bool as_one = detail_ == Detail::Aggregate && part.plan.lanes.front().closed;
  if (book_ != nullptr && !as_one)
    throw std::invalid_argument(
        "the ranks of a role cannot be folded: a broadcast by ring goes piece by piece");
  part.lanes = &lanes_of(collective, part);
  const Counts& hops = part.lanes->between_nodes;
  part.progress = part.plan.lanes.front().bytes_per_sender();
  part.bytes_between_nodes = part.progress * static_cast<double>(hops.total);
  add_choice(collective, part, part.progress * static_cast<double>(hops.most));
  if (!as_one) return;
  part.bundle = &part.lanes->paths.bundle;
  // All hops of all lanes advance together. What a lane takes alone beyond its bytes at the bundle's pace
  // comes first.
  const LanePaths& paths = part.lanes->paths;
  for (std::size_t l = 0; l < part.plan.lanes.size(); ++l)
    part.latency = std::max(part.latency, paths.lone_time(l, part.plan.lanes[l]) -
                                              Seconds(part.progress.si() * paths.seconds_per_byte));
  part.plan.lanes.clear();  // as long as the group, and not needed again
}

// Rings of one group all take the same hops whatever they carry; so do its chains, and its shifts.
CollectivePlayer::Lanes& CollectivePlayer::lanes_of(const Collective& collective, const Part& part) {
  Group& group = *part.group;
  std::optional<Lanes>& lanes = collective.kind == CollectiveKind::Shift    ? group.shift
                                : part.plan.lanes.front().closed            ? group.ring
                                : collective.kind == CollectiveKind::Reduce ? group.back_chain
                                                                            : group.chain;
  if (lanes) return *lanes;
  lanes = Lanes{paths_.lane_paths(group.members, part.plan.lanes), {}};
  lanes->between_nodes.add(lanes->paths.between_nodes);
  if (detail_ == Detail::Aggregate && part.plan.lanes.front().closed) {
    lanes->paths.hops.clear();
    lanes->paths.uses.clear();
    lanes->paths.uses.shrink_to_fit();
  }
  if (book_ == nullptr) return *lanes;
  add_siblings(collective, part, *lanes);
  book_->enter(lanes->paths.bundle);
  return *lanes;
}

// The siblings' flows share the links with the group's own. Alone, each would take its own time: the longest
// counts.
void CollectivePlayer::add_siblings(const Collective& collective, const Part& part, Lanes& lanes) {
  LanePaths& all = lanes.paths;
  sum_.add(all.bundle.uses);
  for (const GroupId sibling : part.group->siblings) {
    const std::span<const RankId> members = members_of(collective, sibling);
    if (members.front() == part.group->members.front()) continue;
    const CollectivePlan plan =
        plan_collective(collective.kind, part.plan.algorithm, collective.bytes, shape_of_group(members));
    const LanePaths its = paths_.lane_paths(members, plan.lanes);
    // One with more lanes moves less on each.
    const double share = static_cast<double>(part.plan.lanes.size()) / static_cast<double>(plan.lanes.size());
    sum_.add(its.bundle.uses, share);
    lanes.between_nodes.add(its.between_nodes);
    all.seconds_per_byte = std::max(all.seconds_per_byte, its.seconds_per_byte * share);
    for (std::size_t l = 0; l < its.costs.size(); ++l) {
      std::vector<HopCost>& costs = all.costs[std::min(l, all.costs.size() - 1)];
      for (const HopCost& cost : its.costs[l])
        insert_if_different(costs, {cost.latency, cost.seconds_per_byte * share});
    }
  }
  all.bundle.uses = sum_.take();
}

void CollectivePlayer::add_bursts(const Collective& collective, Part& part) {
  Bytes at_most;
  for (const Burst& burst : part.plan.phases) {
    if (detail_ == Detail::Aggregate) static_cast<void>(fan_outs_of(collective, *part.group, burst.pattern));
    const bool all = burst.pattern == Burst::Pattern::AllPairs;
    const Places& places = part.group->places;
    const Counts& crossings = all ? places.pairs : places.far_from_first;
    at_most += burst.bytes * static_cast<double>(crossings.most);
    part.bytes_between_nodes += burst.bytes * static_cast<double>(crossings.total);
  }
  add_choice(collective, part, at_most);
}

const CollectivePlayer::FanOuts& CollectivePlayer::fan_outs_of(const Collective& collective, Group& group,
                                                               Burst::Pattern pattern) {
  std::optional<FanOuts>& fan_outs = group.fan_outs[static_cast<std::size_t>(pattern)];
  if (fan_outs) return *fan_outs;
  fan_outs.emplace();
  if (book_ != nullptr) {
    fan_outs->push_back(merged_fan_out(collective, group, pattern));
    book_->enter(fan_outs->front().bundle);
    return *fan_outs;
  }
  const std::size_t sources = sources_of(pattern, group.members.size());
  if (sources > MostFanOuts) {
    fan_outs->push_back(merged_fan_out(collective, group, pattern));
    return *fan_outs;
  }
  for (std::size_t source = 0; source < sources; ++source)
    fan_outs->push_back(paths_.fan_out(group.members, source));
  return *fan_outs;
}

FanOut CollectivePlayer::merged_fan_out(const Collective& collective, const Group& group,
                                        Burst::Pattern pattern) {
  FanOut all;
  for (const GroupId sibling : group.siblings) {
    const std::span<const RankId> members = members_of(collective, sibling);
    for (std::size_t source = 0; source < sources_of(pattern, members.size()); ++source) {
      const FanOut its = paths_.fan_out(members, source);
      sum_.add(its.bundle.uses);
      all.costs.insert(all.costs.end(), its.costs.begin(), its.costs.end());
    }
  }
  all.bundle.uses = sum_.take();
  keep_different(all.costs);
  return all;
}

// Groups of one family may differ in size and in what they span: a choice is of one size, and its bytes are
// summed.
void CollectivePlayer::add_choice(const Collective& collective, Part& part, Bytes between_nodes_at_most) {
  const std::size_t members = part.group->members.size();
  CollectiveChoice& choice =
      choices_[{collective.family, collective.kind, collective.bytes.si(), part.method.algorithm,
                part.method.figures, members, collective.exchange.has_value()}];
  choice.kind = collective.kind;
  choice.family = schedule_.families[collective.family.value()].name();
  choice.bytes = collective.bytes;
  choice.group_size = members;
  choice.algorithm = part.method.algorithm;
  if (part.method.figures != nullptr) choice.protocol = part.method.figures->protocol;
  if (collective.library) choice.protocol = schedule_.libraries[collective.library->value()];
  choice.channels = std::max({choice.channels, 1, static_cast<int>(part.plan.lanes.size())});
  choice.nodes_spanned = std::max(choice.nodes_spanned, part.group->places.nodes);
  choice.bytes_between_nodes = std::max(choice.bytes_between_nodes, between_nodes_at_most);
  if (collective.exchange) {
    choice.by_counts = true;
    for (const GroupId sibling : part.group->siblings)
      choice.imbalance = std::max(choice.imbalance, imbalance_of(exchange_of(collective, sibling)));
  }
  part.choice = &choice;
}

std::vector<CollectiveChoice> CollectivePlayer::choices() const {
  std::vector<CollectiveChoice> all;
  for (const auto& [key, choice] : choices_) all.push_back(choice);
  return all;
}

}  // namespace syncline
