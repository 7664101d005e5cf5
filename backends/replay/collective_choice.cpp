// How a collective is carried out: by which algorithm, and with whose figures.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "backends/replay/collective_player.hpp"
#include "backends/replay/replay.hpp"
#include "backends/replay/token.hpp"
#include "sim/core/error.hpp"
#include "sim/network/fluid.hpp"

namespace syncline {
namespace {

constexpr double LongestRehearsal = 100000;  // sends: a tenth of a second

constexpr double Rounding = 1e-9;  // predicted times nearer than this, as a share, are equal

}  // namespace

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
  if (collective.library) return {library_algorithm(collective, group), nullptr};
  if (const CollectiveFigures* figures = paths_.topology().collectives()) {
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

// Libraries of dispatch and combine relay what an exchange has for nodes, and else send to whom it is for.
Algorithm CollectivePlayer::library_algorithm(const Collective& collective, const Group& group) const {
  if (collective.algorithm != Algorithm::Auto) return collective.algorithm;
  const bool relayed = collective.exchange && !exchange_of(collective, group.id).to_nodes.empty();
  return relayed ? Algorithm::TwoHop : Algorithm::Direct;
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

}  // namespace syncline
