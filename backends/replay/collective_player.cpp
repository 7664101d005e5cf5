#include "backends/replay/collective_player.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>

#include "backends/replay/replay.hpp"
#include "backends/replay/token.hpp"
#include "sim/core/error.hpp"
#include "sim/network/fluid.hpp"

namespace syncline {
namespace {

constexpr std::uint32_t PositionBits = 20;
constexpr std::uint32_t PositionMask = (1U << PositionBits) - 1;

// Of one exchange; they cost the square of their number, and more are one action.
constexpr std::size_t MostFanOuts = 512;

constexpr double LongestRehearsal = 100000;  // sends: a tenth of a second

constexpr double Rounding = 1e-9;  // predicted times nearer than this, as a share, are equal

std::uint32_t step_of(std::size_t lane, std::size_t position) {
  return static_cast<std::uint32_t>(lane) << PositionBits | static_cast<std::uint32_t>(position);
}

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

std::size_t sources_of(Burst::Pattern pattern, std::size_t members) {
  return pattern == Burst::Pattern::AllPairs ? members : 1;
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

// --- what is known of groups and of what they run
// ------------------------------------------------------------------

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
  const auto [known, added] =
      group.parts.try_emplace({collective.kind, collective.algorithm, collective.bytes.si(), collective.chunks,
                               collective.exchange, collective.back, collective.library});
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

const Bundle* CollectivePlayer::bundle_of(std::uint32_t slot, std::uint32_t step) const {
  const Live& live = live_[slot];
  const Part& part = *live.part;
  if (part.bundle != nullptr) return part.bundle;
  if (detail_ == Detail::Full || part.lanes != nullptr) return nullptr;
  if (part.rounds == nullptr) {
    const Burst& burst = part.plan.phases[live.phase];
    return &(*part.group->fan_outs[static_cast<std::size_t>(burst.pattern)])[step].bundle;
  }
  const std::size_t track = step >> PositionBits, piece = step & PositionMask;
  return &part.rounds->paths[track][live.pieces[track][piece].round].bundle;
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

// --- how a collective is carried out ---

CollectivePlayer::Method CollectivePlayer::method_of(const Collective& collective, Group& group) {
  const Algorithm asked = collective.algorithm;
  if (asked != Algorithm::Auto)
    if (const std::optional<std::string> why = refusal(collective, asked, group))
      throw std::invalid_argument(*why);
  if (goes_by_layout(collective, asked, group) && !group.alike)
    throw std::invalid_argument(
        fmt::format("the ranks of a role cannot be folded: their groups lie differently on the "
                    "cluster, and {} goes by that",
                    name_of(asked)));
  if (const CollectiveFigures* figures = figures_of(collective)) {
    const Method method = by_figures(collective, group, *figures);
    if (method.figures != nullptr) return method;
  }
  if (asked == Algorithm::InNetwork)
    throw std::invalid_argument(
        fmt::format("{} cannot go by in-network: the topology has no figures of it under "
                    "\"collectives\"",
                    name_of(collective.kind)));
  return {asked == Algorithm::Auto ? by_links(collective, group) : asked, nullptr};
}

// Whose figures it has; null: it goes by the links.
const CollectiveFigures* CollectivePlayer::figures_of(const Collective&) const {
  return paths_.topology().collectives();
}

std::optional<std::string> CollectivePlayer::refusal(const Collective& collective, Algorithm algorithm,
                                                     const Group& group) const {
  return collective.exchange
             ? exchange_refusal_of(algorithm, exchange_of(collective, group.id), group.shape.layout)
             : refusal_of(collective.kind, algorithm, group.shape.layout);
}

// Its rounds are others where a group lies otherwise on the cluster.
bool CollectivePlayer::goes_by_layout(const Collective& collective, Algorithm algorithm,
                                      const Group& group) const {
  return collective.exchange ? syncline::goes_by_layout(algorithm, exchange_of(collective, group.id))
                             : goes_in_rounds(collective.kind, algorithm);
}

// The algorithm and protocol predicted to end first; without figures when there are none for the kind.
CollectivePlayer::Method CollectivePlayer::by_figures(const Collective& collective, Group& group,
                                                      const CollectiveFigures& figures) {
  const Spread spread{group.members.size(), group.places.nodes};
  const bool chosen = collective.algorithm != Algorithm::Auto;
  Method best;
  Seconds least;
  for (const Algorithm algorithm :
       chosen ? std::vector{collective.algorithm} : algorithms_for(figures, collective.kind, spread)) {
    const Hops hops = hops_of(collective.kind, algorithm, spread);
    for (const ProtocolFigures& protocol : protocols_of(figures, collective.kind, algorithm)) {
      const Load load = scaled(own_load(collective, algorithm, group).load, collective.bytes);
      const Seconds time =
          predicted_time(protocol, hops, load, node_limit_of(figures, collective.kind, algorithm));
      if (best.figures != nullptr && time >= least) continue;
      best = {algorithm, &protocol};
      least = time;
    }
  }
  return best;
}

// Of those that take equally long, but for rounding, the first of algorithms_of(). What takes a rehearsal to
// tell comes last.
Algorithm CollectivePlayer::by_links(const Collective& collective, Group& group) {
  if (collective.exchange) return exchange_by_links(collective, group);
  const std::span<const Algorithm> all = algorithms_of(collective.kind);
  if (collective.kind == CollectiveKind::AllToAll || collective.kind == CollectiveKind::Shift)
    return all.front();
  std::vector<std::pair<Algorithm, Seconds>> times;
  Seconds least(std::numeric_limits<double>::infinity());
  for (const bool exact : {true, false}) {
    for (const Algorithm algorithm : all) {
      if (!may_choose(collective, algorithm, group)) continue;
      if (cost_of(collective, algorithm, group).exact() != exact) continue;
      times.emplace_back(algorithm, time_by_links(collective, algorithm, group, least));
      least = std::min(least, times.back().second);
    }
  }
  for (const Algorithm algorithm : all)
    for (const auto& [one, time] : times)
      if (one == algorithm && time <= least * (1 + Rounding)) return algorithm;
  SYNCLINE_CHECK(false, "no algorithm carries out a collective");
}

// There may be one for every layer and microbatch: none is rehearsed.
Algorithm CollectivePlayer::exchange_by_links(const Collective& collective, Group& group) {
  Algorithm best = Algorithm::Direct;
  Seconds least = cost_of(collective, best, group).time(collective.bytes);
  for (const Algorithm algorithm : {Algorithm::Pairwise, Algorithm::TwoHop}) {
    if (!may_choose(collective, algorithm, group)) continue;
    const Seconds time = cost_of(collective, algorithm, group).time(collective.bytes);
    if (time >= least * (1 - Rounding)) continue;
    best = algorithm;
    least = time;
  }
  return best;
}

Seconds CollectivePlayer::time_by_links(const Collective& collective, Algorithm algorithm, Group& group,
                                        Seconds to_beat) {
  const LinkCost& cost = cost_of(collective, algorithm, group);
  if (cost.exact()) return cost.time(collective.bytes);
  const CostBounds bounds = cost.bounds(collective.bytes);
  if (to_beat < bounds.least || to_beat > bounds.most) return cost.time(collective.bytes);
  if (cost.sends(collective.bytes) > LongestRehearsal) return cost.time(collective.bytes);
  return rehearsed_time(collective, algorithm, group);
}

/// Plays alone, on a network of its own.
Seconds CollectivePlayer::rehearsed_time(const Collective& collective, Algorithm algorithm,
                                         const Group& group) const {
  struct Stage : NetworkListener {
    void on_done(Token token) override {
      const Event event = Event::of(token);
      if (player->on_step(event.a, event.b)) ended = network->now();
    }
    CollectivePlayer* player = nullptr;
    Network* network = nullptr;
    Seconds ended{std::numeric_limits<double>::infinity()};
  } stage;
  PlainNetwork network(link_capacities(paths_.topology()));
  CollectivePlayer player(schedule_, cluster_, cast_, detail_, network, nullptr);
  stage.player = &player;
  stage.network = &network;
  Collective chosen = collective;
  chosen.algorithm = algorithm;
  player.start(chosen, group.id, 0);
  network.run(stage);
  return stage.ended;
}

bool CollectivePlayer::may_choose(const Collective& collective, Algorithm algorithm,
                                  const Group& group) const {
  const Layout& layout = group.shape.layout;
  if (algorithm == Algorithm::InNetwork || refusal(collective, algorithm, group)) return false;
  const bool rooted =
      collective.kind == CollectiveKind::Broadcast || collective.kind == CollectiveKind::Reduce;
  if (book_ != nullptr && ((rooted && algorithm == Algorithm::Ring) ||
                           (goes_by_layout(collective, algorithm, group) && !group.alike)))
    return false;  // cannot be folded
  if (collective.exchange && exchange_of(collective, group.id).node_members > 0) {
    const ExchangeView exchange = exchange_of(collective, group.id);
    return algorithm != Algorithm::TwoHop || (exchange.nodes() > 1 && exchange.node_members > 1);
  }
  if (algorithm == Algorithm::Hierarchical || algorithm == Algorithm::TwoHop)
    return layout.nodes.size() > 1 && layout.nodes.front().size() > 1;
  // Elsewhere all ways of a member begin on the same link, so that it has no more bandwidth by going direct.
  if (algorithm == Algorithm::Direct && !goes_in_rounds(collective.kind, algorithm) && !rooted)
    return fully_meshed(accelerators_of(group.members), paths_.topology());
  return true;
}

const LinkCost& CollectivePlayer::cost_of(const Collective& collective, Algorithm algorithm, Group& group) {
  const auto [entry, added] = group.costs.try_emplace(plans_of(collective, algorithm));
  if (added) {
    const CollectivePlan plan = plan_of(collective, algorithm, Bytes(1), group, group.id);
    entry->second = link_cost(collective.kind, plan, group.shape, accelerators_of(group.members),
                              paths_.topology(), sum_);
  }
  return entry->second;
}

// --- where the topology has figures of its communication library ---

const CollectivePlayer::OwnLoad& CollectivePlayer::own_load(const Collective& collective, Algorithm algorithm,
                                                            Group& group) {
  const auto [entry, added] = group.loads.try_emplace(plans_of(collective, algorithm));
  OwnLoad& own = entry->second;
  if (!added) return own;
  const Topology& topology = paths_.topology();
  const CollectivePlan plan = plan_of(collective, algorithm, Bytes(1), group, group.id);
  own.uses = link_uses(plan, accelerators_of(group.members), topology, sum_);
  own.load = load_of(own.uses, Bytes(1), topology);
  return own;
}

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
      for (const Flow& flow : tracks[t][r].flows)
        path.largest_flow = std::max(path.largest_flow, flow.share);
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
  CollectiveChoice& choice = choices_[{collective.family, collective.kind, collective.bytes.si(),
                                       part.method.algorithm, part.method.figures, members,
                                       collective.exchange.has_value()}];
  choice.kind = collective.kind;
  choice.family = schedule_.families[collective.family.value()].name();
  choice.bytes = collective.bytes;
  choice.group_size = members;
  choice.algorithm = part.method.algorithm;
  if (part.method.figures != nullptr) choice.protocol = part.method.figures->protocol;
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

// --- the play
// ------------------------------------------------------------------------------------------------------

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

}  // namespace syncline
