#include "sim/collective/link_cost.hpp"

#include <algorithm>
#include <limits>

#include "sim/collective/cost.hpp"

namespace syncline {
namespace {

constexpr double Rounding = 1e-9;

/// Follows ways, and adds up what they load.
class Pricer {
 public:
  Pricer(std::span<const AcceleratorId> members, const Topology& topology, BundleSum& sum)
      : members_(members), topology_(topology), sum_(sum) {}

  /// The latency of the way.
  Seconds add(std::uint32_t from, std::uint32_t to, double bytes) {
    follow(from, to);
    sum_.add(way_, bytes);
    return topology_.latency(std::span<const LinkUse>(way_));
  }
  /// Seconds that what has been added takes at the fullest link; begins anew.
  double take() { return topology_.seconds_per_byte(sum_.take()); }
  /// The same, and puts it with `all`.
  double take(std::vector<LinkUse>& all) {
    const std::vector<LinkUse> uses = sum_.take();
    all.insert(all.end(), uses.begin(), uses.end());
    return topology_.seconds_per_byte(uses);
  }
  void add(std::span<const LinkUse> uses) { sum_.add(uses, 1); }
  /// A way and its latency, for chains.
  ChainCost::Hop hop(std::uint32_t from, std::uint32_t to) {
    follow(from, to);
    ChainCost::Hop hop{topology_.latency(std::span<const LinkUse>(way_)), way_};
    for (LinkUse& use : hop.uses) use.coefficient /= topology_.link(use.link).bandwidth.si();
    return hop;
  }

 private:
  void follow(std::uint32_t from, std::uint32_t to) {
    way_.clear();
    topology_.router().load(members_[from], members_[to], way_);
  }

  std::span<const AcceleratorId> members_;
  const Topology& topology_;
  BundleSum& sum_;
  std::vector<LinkUse> way_;
};

LinkCost cost_of_rings(const CollectivePlan& plan, Pricer& pricer) {
  Seconds longest;
  for (const Lane& lane : plan.lanes)
    for (std::size_t i = 0; i < lane.senders(); ++i)
      longest = std::max(longest, pricer.add(lane.order[i], lane.order[(i + 1) % lane.order.size()],
                                             lane.bytes_per_sender().si()));
  return {{{{longest * static_cast<double>(plan.lanes.front().steps), pricer.take()}}}};
}

LinkCost cost_of_chains(const CollectivePlan& plan, Pricer& pricer) {
  std::vector<std::vector<ChainCost::Hop>> chains;
  for (const Lane& lane : plan.lanes) {
    std::vector<ChainCost::Hop>& hops = chains.emplace_back();
    for (std::size_t i = 0; i < lane.senders(); ++i)
      hops.push_back(pricer.hop(lane.order[i], lane.order[i + 1]));
  }
  return {{}, ChainCost(std::move(chains))};
}

/// Phases one after another, each of them between its longest latency or its fullest link, and both.
class PhaseRange {
 public:
  /// @param usual  latency that the estimate of the phase has: it is exact where that is the longest
  void add(LinearCost longest, Seconds usual, double sends) {
    exact_ = exact_ && usual >= longest.latency * (1 - Rounding);
    sum_.latency += longest.latency;
    sum_.seconds_per_byte += longest.seconds_per_byte;
    sends_ += sends;
  }
  [[nodiscard]] std::optional<LinkCost::Range> range() const {
    if (exact_) return std::nullopt;
    return LinkCost::Range{{{sum_.latency, 0}, {Seconds(0), sum_.seconds_per_byte}}, sum_, sends_};
  }

 private:
  bool exact_ = true;
  LinearCost sum_;
  double sends_ = 0;
};

LinkCost cost_of_bursts(const CollectivePlan& plan, std::size_t members, Pricer& pricer) {
  LinkCost cost;
  PhaseRange range;
  const double others = static_cast<double>(members - 1);
  for (const Burst& burst : plan.phases) {
    const std::size_t sources = burst.pattern == Burst::Pattern::AllPairs ? members : 1;
    LinearCost mean, longest;  // of the source that has most of it
    for (std::uint32_t i = 0; i < sources; ++i) {
      Seconds sum;
      for (std::uint32_t j = 0; j < members; ++j) {
        if (i == j) continue;
        const Seconds latency = pricer.add(i, j, burst.bytes.si());
        sum += latency;
        longest.latency = std::max(longest.latency, latency);
      }
      mean.latency = std::max(mean.latency, sum / others);
    }
    mean.seconds_per_byte = pricer.take();
    longest.seconds_per_byte = mean.seconds_per_byte / others;
    cost.phases.push_back({mean, longest});
    range.add({longest.latency, mean.seconds_per_byte}, mean.latency, static_cast<double>(sources) * others);
  }
  cost.range = range.range();
  return cost;
}

LinkCost cost_of_flows(CollectiveKind kind, const CollectivePlan& plan, const GroupShape& shape,
                       Pricer& pricer) {
  Seconds inside, between;
  for (const Flow& flow : *plan.flows) {
    Seconds& longest = shape.node_of[flow.from] == shape.node_of[flow.to] ? inside : between;
    longest = std::max(longest, pricer.add(flow.from, flow.to, flow.share));
  }
  const Hops hops = hops_of(kind, plan.algorithm, {shape.layout.members, shape.layout.nodes.size()});
  return {{{{inside * hops.inside + between * hops.between, pricer.take()}}}};
}

/// Rounds of equal number take as many steps in all tracks.
bool in_step(const std::vector<Track>& tracks) {
  const auto same = [&](const Track& track) {
    return std::ranges::equal(track, tracks.front(), {}, &Round::repeat, &Round::repeat);
  };
  return std::ranges::all_of(tracks, same);
}

/// Of tracks whose rounds drift apart.
LinkCost cost_of_drifting(const std::vector<Track>& tracks, Pricer& pricer) {
  LinkCost::Range range;
  std::vector<LinkUse> all;
  for (const Track& track : tracks) {
    LinearCost& alone = range.least.emplace_back();
    for (const Round& round : track) {
      Seconds longest;
      for (const Flow& flow : round.flows)
        longest = std::max(longest, pricer.add(flow.from, flow.to, flow.share));
      alone.latency += longest * static_cast<double>(round.repeat);
      alone.seconds_per_byte += pricer.take(all);
      range.sends += static_cast<double>(round.flows.size());
    }
    range.most.latency += alone.latency;
    range.most.seconds_per_byte += alone.seconds_per_byte;
  }
  pricer.add(all);
  range.least.push_back({Seconds(0), pricer.take()});  // of the fullest link
  return {{range.least}, {}, range};
}

LinkCost cost_of_rounds(const CollectivePlan& plan, Pricer& pricer) {
  if (!in_step(*plan.tracks)) return cost_of_drifting(*plan.tracks, pricer);
  LinkCost cost;
  PhaseRange range;
  for (std::size_t r = 0; r < plan.tracks->front().size(); ++r) {
    Seconds longest, shortest(std::numeric_limits<double>::infinity());
    double sends = 0;
    for (const Track& track : *plan.tracks) {
      for (const Flow& flow : track[r].flows) {
        const Seconds latency =
            pricer.add(flow.from, flow.to, flow.share) * static_cast<double>(track[r].repeat);
        longest = std::max(longest, latency);
        shortest = std::min(shortest, latency);
      }
      sends += static_cast<double>(track[r].flows.size());
    }
    const LinearCost round{longest, pricer.take()};
    cost.phases.push_back({round});
    range.add(round, shortest, sends);
  }
  cost.range = range.range();
  return cost;
}

Seconds longest_of(const std::vector<LinearCost>& costs, Bytes bytes) {
  Seconds longest;
  for (const LinearCost& one : costs) longest = std::max(longest, one.of(bytes));
  return longest;
}

}  // namespace

ChainCost::ChainCost(std::vector<std::vector<Hop>> chains) : chains_(std::move(chains)) {
  for (const std::vector<Hop>& hops : chains_)
    for (const Hop& hop : hops)
      for (const LinkUse& use : hop.uses) links_ = std::max(links_, use.link.value() + 1);
  std::vector<double> taken(links_, 0);
  for (const std::vector<Hop>& hops : chains_)
    for (const Hop& hop : hops)
      for (const LinkUse& use : hop.uses)
        taken[use.link.value()] += use.coefficient / static_cast<double>(chains_.size());
  if (!taken.empty()) seconds_per_byte_ = std::ranges::max(taken);
}

double ChainCost::sends(Bytes bytes) const {
  const auto chains = static_cast<double>(chains_.size());
  return chains * static_cast<double>(chains_.front().size()) * chain_pieces(bytes / chains);
}

CostBounds ChainCost::bounds(Bytes bytes) const {
  const Bytes part = bytes / static_cast<double>(chains_.size());
  const auto pieces = static_cast<std::size_t>(chain_pieces(part));
  const double piece = part.si() / static_cast<double>(pieces), followers = static_cast<double>(pieces - 1);
  struct Pace {
    Seconds first, slowest;
    void add(Seconds hop) {
      first += hop;
      slowest = std::max(slowest, hop);
    }
    [[nodiscard]] Seconds whole(double others) const { return first + slowest * others; }
  };
  std::vector<Pace> alone(chains_.size()), together(chains_.size());
  std::vector<double> taken(links_, 0);  // of each link, by the pieces on it, for a byte of each
  for (std::size_t step = 0; step < chains_.front().size(); ++step) {
    for (const std::vector<Hop>& hops : chains_) {
      for (const LinkUse& use : hops[step].uses) taken[use.link.value()] += use.coefficient;
      if (step < pieces) continue;
      for (const LinkUse& use : hops[step - pieces].uses) taken[use.link.value()] -= use.coefficient;
    }
    for (std::size_t c = 0; c < chains_.size(); ++c) {
      const Hop& hop = chains_[c][step];
      double own = 0, shared = 0;
      for (const LinkUse& use : hop.uses) {
        own = std::max(own, use.coefficient);
        shared = std::max(shared, taken[use.link.value()]);
      }
      alone[c].add(hop.latency + Seconds(piece * own));
      together[c].add(hop.latency + Seconds(piece * shared));
    }
  }
  CostBounds bounds{Seconds(bytes.si() * seconds_per_byte_), Seconds(0)};
  Pace all;
  for (std::size_t c = 0; c < chains_.size(); ++c) {
    bounds.least = std::max(bounds.least, alone[c].whole(followers));
    all = {std::max(all.first, together[c].first), std::max(all.slowest, together[c].slowest)};
  }
  bounds.most = all.whole(followers);
  return bounds;
}

CostBounds LinkCost::bounds(Bytes bytes) const {
  if (chains) return chains->bounds(bytes);
  if (range) return {longest_of(range->least, bytes), range->most.of(bytes)};
  return {time(bytes), time(bytes)};
}

double LinkCost::sends(Bytes bytes) const {
  if (chains) return chains->sends(bytes);
  return range ? range->sends : 0;
}

Seconds LinkCost::time(Bytes bytes) const {
  if (chains) {
    const CostBounds ends = chains->bounds(bytes);
    return (ends.least + ends.most) / 2.0;
  }
  Seconds total;
  for (const std::vector<LinearCost>& phase : phases) total += longest_of(phase, bytes);
  return total;
}

LinkCost link_cost(CollectiveKind kind, const CollectivePlan& plan, const GroupShape& shape,
                   std::span<const AcceleratorId> members, const Topology& topology, BundleSum& sum) {
  Pricer pricer(members, topology, sum);
  if (plan.tracks) return cost_of_rounds(plan, pricer);
  if (plan.flows) return cost_of_flows(kind, plan, shape, pricer);
  if (!plan.phases.empty()) return cost_of_bursts(plan, members.size(), pricer);
  return plan.lanes.front().closed ? cost_of_rings(plan, pricer) : cost_of_chains(plan, pricer);
}

}  // namespace syncline
