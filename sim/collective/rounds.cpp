#include "sim/collective/rounds.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

using Positions = std::vector<std::uint32_t>;
using enum CollectiveKind;

bool has_reduction(CollectiveKind kind) {
  return kind == AllReduce || kind == ReduceScatter;
}
bool has_gather(CollectiveKind kind) {
  return kind == AllReduce || kind == AllGather;
}

void append(Track& track, const Track& more) {
  track.insert(track.end(), more.begin(), more.end());
}

// --- recursive halving and doubling, binomial trees ---

/// Recursive halving among those who stand for `weight` of n parts each: all that the partner's half is for goes to the
/// partner, who is half as far away every round.
Track halving(const Positions& who, const std::vector<double>& weight) {
  const auto n = static_cast<std::uint32_t>(who.size());
  Track track;
  for (std::uint32_t distance = n / 2; distance > 0; distance /= 2) {
    Round round;
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t partner = i ^ distance, half = partner / distance * distance;
      const double share = std::accumulate(weight.begin() + half, weight.begin() + half + distance, 0.0);
      round.flows.push_back({who[i], who[partner], share});
    }
    track.push_back(std::move(round));
  }
  return track;
}

/// Every second of the first 2 · rest members hands over to its neighbour, so that a power of two is left.
Track recursive(CollectiveKind kind, std::uint32_t n) {
  const std::uint32_t power = std::bit_floor(n), rest = n - power;
  Positions who;
  std::vector<double> weight;
  for (std::uint32_t i = 0; i < power; ++i) {
    who.push_back(i < rest ? 2 * i + 1 : i + rest);
    weight.push_back(kind == AllReduce ? 1.0 / power : i < rest ? 2.0 / n : 1.0 / n);
  }
  const auto fold = [rest](double share) {
    Round round;
    for (std::uint32_t i = 0; i < rest; ++i) round.flows.push_back({2 * i, 2 * i + 1, share});
    return Track(rest > 0 ? 1 : 0, round);
  };
  const double part = 1.0 / n;
  Track track = fold(kind == AllGather ? part : 1.0);
  if (has_reduction(kind)) append(track, halving(who, weight));
  if (has_gather(kind)) append(track, reversed(halving(who, weight)));
  append(track, reversed(fold(kind == AllReduce ? 1.0 : kind == AllGather ? 1.0 - part : part)));
  return track;
}

/// From the first member: those who have it pass it on to those 2^r places away, the farthest first.
/// @param parts  each passes on what is for others only (scatter), not all (broadcast)
Track binomial(std::uint32_t n, bool parts) {
  Track track;
  for (std::uint32_t distance = std::bit_ceil(n) / 2; distance > 0; distance /= 2) {
    Round round;
    for (std::uint32_t i = 0; i + distance < n; i += 2 * distance) {
      const std::uint32_t behind =
          std::min(distance, n - i - distance);  // members reached by way of the receiver
      round.flows.push_back({i, i + distance, parts ? static_cast<double>(behind) / n : 1.0});
    }
    track.push_back(std::move(round));
  }
  return track;
}

// --- pairwise and two-hop all-to-all ---

Track pairwise(std::uint32_t n) {
  Track track;
  for (std::uint32_t shift = 1; shift < n; ++shift) {
    Round round;
    for (std::uint32_t i = 0; i < n; ++i) round.flows.push_back({i, (i + shift) % n, 1.0 / n});
    track.push_back(std::move(round));
  }
  return track;
}

Track two_hop(const Layout& layout) {
  const auto n = static_cast<double>(layout.members), k = static_cast<double>(layout.nodes.size());
  const double g = n / k;
  Round across, inside;
  for (const Positions& from : layout.nodes)
    for (const Positions& to : layout.nodes)
      for (std::size_t i = 0; &from != &to && i < from.size(); ++i)
        across.flows.push_back({from[i], to[i], g / n});
  for (const Positions& node : layout.nodes)
    for (const std::uint32_t from : node)
      for (const std::uint32_t to : node)
        if (from != to) inside.flows.push_back({from, to, k / n});
  Track track;
  if (!across.flows.empty()) track.push_back(std::move(across));
  if (!inside.flows.empty()) track.push_back(std::move(inside));
  return track;
}

// --- rings of rings ---

/// Every list a ring in which each member passes on `share` of S, in as many steps as there are others.
Round rings(const std::vector<Positions>& lists, double share, bool backwards = false) {
  Round round;
  const std::size_t n = lists.front().size();
  round.repeat = static_cast<int>(n - 1);
  for (const Positions& list : lists)
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t here = list[i], next = list[(i + 1) % n];
      round.flows.push_back(backwards ? Flow{next, here, share} : Flow{here, next, share});
    }
  return round;
}

/// One reduce-scatter after another, each of what the one before left; `levels` list the rings of each.
Track scatter_by(const std::vector<std::vector<Positions>>& levels, double part, bool backwards) {
  Track track;
  for (const std::vector<Positions>& level : levels) {
    const auto n = static_cast<double>(level.front().size());
    if (n > 1) track.push_back(rings(level, part * (n - 1) / n, backwards));
    part /= n;
  }
  return track;
}

Track reduce_and_gather(CollectiveKind kind, const std::vector<std::vector<Positions>>& levels, double part,
                        bool backwards) {
  Track track;
  if (has_reduction(kind)) track = scatter_by(levels, part, backwards);
  if (has_gather(kind)) append(track, reversed(scatter_by(levels, part, !backwards)));
  return track;
}

/// The members of equal index on every node.
std::vector<Positions> across_nodes(const Layout& layout) {
  std::vector<Positions> across(layout.nodes.front().size());
  for (const Positions& node : layout.nodes)
    for (std::size_t i = 0; i < node.size(); ++i) across[i].push_back(node[i]);
  return across;
}

/// A part to each on the first member's node, from there to their peers on other nodes, and together again inside.
Track hierarchical_broadcast(const Layout& layout) {
  const std::vector<Positions> across = across_nodes(layout);
  const double part = 1 / static_cast<double>(across.size());
  Round apart;
  for (std::size_t i = 1; i < across.size(); ++i) apart.flows.push_back({0, layout.nodes.front()[i], part});
  Track track(apart.flows.empty() ? 0 : 1, apart);
  for (Round round : binomial(static_cast<std::uint32_t>(layout.nodes.size()), false)) {
    Round all;
    for (const Positions& peers : across)
      for (const Flow& flow : round.flows) all.flows.push_back({peers[flow.from], peers[flow.to], part});
    track.push_back(std::move(all));
  }
  if (across.size() > 1) track.push_back(rings(layout.nodes, 1 - part));
  return track;
}

Track hierarchical(CollectiveKind kind, const Layout& layout) {
  if (kind == AllToAll) return two_hop(layout);
  if (kind == Broadcast) return hierarchical_broadcast(layout);
  return reduce_and_gather(kind, {layout.nodes, across_nodes(layout)}, 1.0, false);
}

/// The lines of a box along one of its dimensions.
std::vector<Positions> lines(const TorusBox& box, std::size_t dimension) {
  std::uint32_t stride = 1;
  for (std::size_t d = 0; d < dimension; ++d) stride *= box.extent[d];
  const std::uint32_t size = box.extent[dimension];
  std::vector<Positions> all;
  for (std::uint32_t start = 0; start < box.count(); ++start) {
    if (start / stride % size != 0) continue;
    Positions& line = all.emplace_back();
    for (std::uint32_t x = 0; x < size; ++x) line.push_back(box.position_of[start + x * stride]);
  }
  return all;
}

std::vector<Track> bucket(CollectiveKind kind, const TorusBox& box) {
  std::vector<std::vector<Positions>> levels;
  for (std::size_t d = 0; d < box.extent.size(); ++d)
    if (box.extent[d] > 1) levels.push_back(lines(box, d));
  std::vector<Track> tracks;
  const double part = 0.5 / static_cast<double>(levels.size());
  for (std::size_t first = 0; first < levels.size(); ++first) {
    for (const bool backwards : {false, true})
      tracks.push_back(reduce_and_gather(kind, levels, part, backwards));
    std::rotate(levels.begin(), levels.begin() + 1, levels.end());
  }
  return tracks;
}

}  // namespace

Track reversed(const Track& track) {
  Track back(track.rbegin(), track.rend());
  for (Round& round : back)
    for (Flow& flow : round.flows) std::swap(flow.from, flow.to);
  return back;
}

std::uint32_t TorusBox::count() const {
  return std::accumulate(extent.begin(), extent.end(), 1U, std::multiplies<>());
}

std::vector<Positions> positions_by_node(std::span<const AcceleratorId> members, const Topology& topology) {
  std::vector<Positions> nodes;
  std::map<std::uint32_t, std::size_t> index;
  for (std::uint32_t position = 0; position < members.size(); ++position) {
    const auto [entry, added] = index.try_emplace(topology.node_of(members[position]), nodes.size());
    if (added) nodes.emplace_back();
    nodes[entry->second].push_back(position);
  }
  return nodes;
}

Layout layout_of(std::span<const AcceleratorId> members, const Topology& topology) {
  return {members.size(), positions_by_node(members, topology), torus_box(members, topology)};
}

bool Layout::equal_nodes() const {
  return std::ranges::all_of(nodes,
                             [this](const Positions& node) { return node.size() == nodes.front().size(); });
}

bool Layout::like(const Layout& other) const {
  const auto sizes_match = [](const Positions& a, const Positions& b) { return a.size() == b.size(); };
  return members == other.members && std::ranges::equal(nodes, other.nodes, sizes_match) &&
         box.has_value() == other.box.has_value() && (!box || box->extent == other.box->extent);
}

bool goes_in_rounds(CollectiveKind kind, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::Recursive:
    case Algorithm::Pairwise:
    case Algorithm::Hierarchical:
    case Algorithm::Bucket:
    case Algorithm::TwoHop: return true;
    case Algorithm::Auto:
    case Algorithm::Ring:
    case Algorithm::Direct:
    case Algorithm::Tree:
    case Algorithm::InNetwork: break;
  }
  return algorithm == Algorithm::Direct && (kind == Scatter || kind == Gather || kind == Reduce);
}

std::vector<Track> rounds_of(CollectiveKind kind, Algorithm algorithm, const Layout& layout) {
  const auto n = static_cast<std::uint32_t>(layout.members);
  if (algorithm == Algorithm::Bucket) return bucket(kind, *layout.box);
  if (algorithm == Algorithm::Hierarchical) return {hierarchical(kind, layout)};
  if (algorithm == Algorithm::Pairwise) return {pairwise(n)};
  if (algorithm == Algorithm::TwoHop) return {two_hop(layout)};
  if (algorithm == Algorithm::Direct) {
    Round round;  // of scatter; backwards: gather, or with all of it reduce
    for (std::uint32_t i = 1; i < n; ++i) round.flows.push_back({0, i, kind == Reduce ? 1.0 : 1.0 / n});
    return {kind == Scatter ? Track{round} : reversed({round})};
  }
  SYNCLINE_CHECK(algorithm == Algorithm::Recursive, "an algorithm without rounds");
  switch (kind) {
    case Broadcast: return {binomial(n, false)};
    case Reduce: return {reversed(binomial(n, false))};
    case Scatter: return {binomial(n, true)};
    case Gather: return {reversed(binomial(n, true))};
    default: return {recursive(kind, n)};
  }
}

}  // namespace syncline
