// All-reduce by trees and in the network: who streams what to whom.
#include <doctest/doctest.h>

#include <map>
#include <numeric>

#include "sim/collective/collective.hpp"

namespace syncline {
namespace {

using Ring = std::vector<std::uint32_t>;

/// `nodes` of `per_node` members in order; a ring for each of the first `channels` members of a node.
struct Group {
  std::vector<Ring> rings;
  std::vector<std::uint32_t> node_of;
};
Group group(std::uint32_t nodes, std::uint32_t per_node, std::uint32_t channels) {
  Group made;
  for (std::uint32_t c = 0; c < channels; ++c) {
    Ring& ring = made.rings.emplace_back();
    for (std::uint32_t node = 0; node < nodes; ++node)
      for (std::uint32_t i = 0; i < per_node; ++i) ring.push_back(node * per_node + (c + i) % per_node);
  }
  for (std::uint32_t i = 0; i < nodes * per_node; ++i) made.node_of.push_back(i / per_node);
  return made;
}

struct Traffic {
  std::vector<double> out, in;  // by member, of S
};
Traffic traffic(const std::vector<Flow>& flows, std::size_t members) {
  Traffic sum{std::vector<double>(members), std::vector<double>(members)};
  for (const Flow& flow : flows) {
    sum.out[flow.from] += flow.share;
    sum.in[flow.to] += flow.share;
  }
  return sum;
}

TEST_CASE("both trees of four nodes, by hand") {
  // Tree 1: 0 over 2 over 1 and 3. Tree 2, mirrored: 3 over 1 over 0 and 2. Each carries half, up and down.
  const Group four = group(4, 1, 1);
  const std::vector<Flow> flows = tree_flows(CollectiveKind::AllReduce, four.rings, four.node_of);
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> share;
  for (const Flow& flow : flows) share[{flow.from, flow.to}] += flow.share;
  const std::map<std::pair<std::uint32_t, std::uint32_t>, double> expected = {
      {{0, 2}, 0.5}, {{2, 0}, 0.5}, {{1, 2}, 1.0}, {{2, 1}, 1.0}, {{3, 2}, 0.5},
      {{2, 3}, 0.5}, {{1, 3}, 0.5}, {{3, 1}, 0.5}, {{0, 1}, 0.5}, {{1, 0}, 0.5}};
  CHECK(share == expected);
}

TEST_CASE("in a double tree no node sends or receives more than 2 S") {
  // An inner node of one tree (two children, one parent: 3 · S/2) is a leaf of the other (S/2): 2 S each way. A root has
  // one child only, and where the count is no power of two some have fewer below them.
  for (const std::uint32_t nodes : {2U, 3U, 4U, 5U, 8U, 10U, 16U, 33U, 128U}) {
    CAPTURE(nodes);
    const Group spread = group(nodes, 1, 1);
    const std::vector<Flow> flows = tree_flows(CollectiveKind::AllReduce, spread.rings, spread.node_of);
    const Traffic sum = traffic(flows, nodes);
    CHECK(flows.size() == 4 * (nodes - 1));
    CHECK(std::accumulate(sum.out.begin(), sum.out.end(), 0.0) == doctest::Approx(2.0 * (nodes - 1)));
    for (std::uint32_t i = 0; i < nodes; ++i) {
      CHECK(sum.out[i] == sum.in[i]);
      CHECK(sum.out[i] >= 0.5);
      CHECK(sum.out[i] <= 2.0);
    }
  }
}

TEST_CASE("a double tree joins all nodes") {
  for (const std::uint32_t nodes : {2U, 3U, 7U, 8U, 10U, 100U, 1000U}) {
    CAPTURE(nodes);
    const Group spread = group(nodes, 1, 1);
    std::vector<std::uint32_t> root(nodes);  // union of what the flows join
    std::iota(root.begin(), root.end(), 0U);
    const auto find = [&root](std::uint32_t i) {
      while (root[i] != i) i = root[i];
      return i;
    };
    for (const Flow& flow : tree_flows(CollectiveKind::AllReduce, spread.rings, spread.node_of))
      root[find(flow.from)] = find(flow.to);
    for (std::uint32_t i = 0; i < nodes; ++i) CHECK(find(i) == find(0));
  }
}

TEST_CASE("inside nodes a tree is a chain, whatever the channels") {
  for (const std::uint32_t channels : {1U, 2U, 8U}) {
    CAPTURE(channels);
    const Group two = group(2, 8, channels);
    double inside = 0, between = 0;
    for (const Flow& flow : tree_flows(CollectiveKind::AllReduce, two.rings, two.node_of))
      (two.node_of[flow.from] == two.node_of[flow.to] ? inside : between) += flow.share;
    CHECK(inside == doctest::Approx(2 * 7 * 2));  // two nodes, 7 hops, both ways, S in all channels together
    CHECK(between == doctest::Approx(2));         // S each way
  }
}

TEST_CASE("reduced in the network, a member sends its buffer and its part of the sum") {
  const Group one = group(1, 8, 1);
  const Traffic sum = traffic(in_network_flows(one.rings, one.node_of), 8);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(sum.out[i] == doctest::Approx(1.125));  // 1 + 1/8
    CHECK(sum.in[i] == doctest::Approx(1.125));
  }
  // Across two nodes S goes each way as well, spread over the channels.
  const Group two = group(2, 8, 8);
  double between = 0;
  for (const Flow& flow : in_network_flows(two.rings, two.node_of))
    if (two.node_of[flow.from] != two.node_of[flow.to]) between += flow.share;
  CHECK(between == doctest::Approx(2));
}

}  // namespace
}  // namespace syncline
