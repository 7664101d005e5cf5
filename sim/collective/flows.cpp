#include <algorithm>
#include <optional>

#include "sim/collective/collective.hpp"

namespace syncline {
namespace {

using Ring = std::vector<std::uint32_t>;
constexpr std::uint32_t NoParent = ~0U;

// Parent of node r of k in a binary tree whose leaves are the odd numbers and whose root, with one child, is 0: the next
// multiple of twice r's lowest bit that has this bit's double, or the one below where that is beyond the end.
std::uint32_t parent_in_tree(std::uint32_t r, std::uint32_t k) {
  if (r == 0) return NoParent;
  const std::uint32_t bit = r & -r;
  const std::uint32_t above = (r ^ bit) | bit << 1;
  return above < k ? above : r ^ bit;
}

// The other tree, in which the even numbers are leaves: mirrored for an even count, moved on by one for an odd.
std::uint32_t parent_in_other_tree(std::uint32_t r, std::uint32_t k) {
  const bool even = k % 2 == 0;
  const std::uint32_t parent = parent_in_tree(even ? k - 1 - r : (r + k - 1) % k, k);
  if (parent == NoParent) return NoParent;
  return even ? k - 1 - parent : (parent + 1) % k;
}

/// The members of a ring, node by node.
std::vector<Ring> runs_of(const Ring& ring, std::span<const std::uint32_t> node_of) {
  std::vector<Ring> runs;
  for (const std::uint32_t member : ring) {
    if (runs.empty() || node_of[runs.back().front()] != node_of[member]) runs.emplace_back();
    runs.back().push_back(member);
  }
  return runs;
}

/// Which way data goes over the edges of a tree: all-reduce both, broadcast down, reduce up.
struct Ways {
  bool down = true, up = true;

  void add(std::uint32_t parent, std::uint32_t child, double share, std::vector<Flow>& flows) const {
    if (up) flows.push_back({child, parent, share});
    if (down) flows.push_back({parent, child, share});
  }
};

/// Half of `share` through each of the trees between the nodes' first members; from `root` to the first of each, if given.
void add_trees(std::span<const Ring> runs, double share, Ways ways, std::vector<Flow>& flows,
               std::optional<std::uint32_t> root = std::nullopt) {
  const auto k = static_cast<std::uint32_t>(runs.size());
  for (std::uint32_t r = 0; r < k; ++r) {
    for (const std::uint32_t parent : {parent_in_tree(r, k), parent_in_other_tree(r, k)}) {
      if (parent != NoParent)
        ways.add(runs[parent].front(), runs[r].front(), share / 2, flows);
      else if (root)
        ways.add(*root, runs[r].front(), share / 2, flows);
    }
  }
}

void add_chains(std::span<const Ring> runs, double share, Ways ways, std::vector<Flow>& flows) {
  for (const Ring& run : runs)
    for (std::size_t i = 0; i + 1 < run.size(); ++i) ways.add(run[i], run[i + 1], share, flows);
}

/// The root's node first, and in it the root.
void put_first(std::uint32_t root, std::vector<Ring>& runs) {
  const auto holds = [root](const Ring& run) { return std::ranges::find(run, root) != run.end(); };
  std::rotate(runs.begin(), std::ranges::find_if(runs, holds), runs.end());
  std::rotate(runs.front().begin(), std::ranges::find(runs.front(), root), runs.front().end());
}

}  // namespace

std::vector<Flow> tree_flows(CollectiveKind kind, std::span<const Ring> rings,
                             std::span<const std::uint32_t> node_of) {
  std::vector<Flow> flows;
  const double share = 1 / static_cast<double>(rings.size());
  for (const Ring& ring : rings) {
    std::vector<Ring> runs = runs_of(ring, node_of);
    if (kind == CollectiveKind::AllReduce) {
      add_chains(runs, share, {}, flows);
      add_trees(runs, share, {}, flows);
      continue;
    }
    const Ways ways{kind == CollectiveKind::Broadcast, kind == CollectiveKind::Reduce};
    put_first(0, runs);
    add_chains(runs, share, ways, flows);
    add_trees(std::span(runs).subspan(1), share, ways, flows, 0U);
  }
  return flows;
}

std::vector<Flow> in_network_flows(std::span<const Ring> rings, std::span<const std::uint32_t> node_of) {
  std::vector<Flow> flows;
  // The switch is not a member: what goes up to it and comes down stands as one flow to the next member.
  for (const Ring& run : runs_of(rings.front(), node_of)) {
    const std::size_t g = run.size();
    for (std::size_t i = 0; g > 1 && i < g; ++i)
      flows.push_back({run[i], run[(i + 1) % g], 1 + 1 / static_cast<double>(g)});
  }
  for (const Ring& ring : rings)
    add_trees(runs_of(ring, node_of), 1 / static_cast<double>(rings.size()), {}, flows);
  return flows;
}

}  // namespace syncline
