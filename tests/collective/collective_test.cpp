#include "sim/collective/collective.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

namespace syncline {
namespace {

using namespace literals;
using Rings = std::vector<std::vector<std::uint32_t>>;

Rings counting_rings(std::size_t n, std::size_t channels = 1) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  return Rings(channels, order);
}

TEST_CASE("every algorithm moves the bytes that its kind asks for") {
  // By hand, in units of S/n per member: ring and direct all-gather and reduce-scatter send n−1 each, all-reduce twice
  // that; direct all-to-all n−1; ring all-to-all (n−1) + (n−2) + ... + 1 = n(n−1)/2. Broadcast sends S over n−1 hops.
  struct Row {
    const char* name;
    CollectiveKind kind;
    Algorithm algorithm;
    double units;  // of S, for n = 8
  };
  using enum CollectiveKind;
  for (const Row& row : {Row{"ring all-reduce", AllReduce, Algorithm::Ring, 14},
                         {"ring all-gather", AllGather, Algorithm::Ring, 7},
                         {"ring reduce-scatter", ReduceScatter, Algorithm::Ring, 7},
                         {"chain broadcast", Broadcast, Algorithm::Ring, 7},
                         {"ring all-to-all", AllToAll, Algorithm::Ring, 28},
                         {"direct all-reduce", AllReduce, Algorithm::Direct, 14},
                         {"direct all-gather", AllGather, Algorithm::Direct, 7},
                         {"direct reduce-scatter", ReduceScatter, Algorithm::Direct, 7},
                         {"direct broadcast", Broadcast, Algorithm::Direct, 7},
                         {"direct all-to-all", AllToAll, Algorithm::Direct, 7}}) {
    CAPTURE(row.name);
    for (const std::size_t channels : {1U, 2U, 8U}) {
      const CollectivePlan plan =
          plan_collective(row.kind, row.algorithm, 80_MB, counting_rings(8, channels));
      CHECK(bytes_sent(plan, 8).si() == doctest::Approx(row.units * 80e6).epsilon(1e-12));
    }
  }
}

TEST_CASE("a broadcast's chain begins at the root wherever the ring begins") {
  const Rings rings{{3, 1, 0, 2}};
  const CollectivePlan plan = plan_collective(CollectiveKind::Broadcast, Algorithm::Ring, 4_MiB, rings);
  CHECK(plan.lanes[0].order == std::vector<std::uint32_t>{0, 2, 3, 1});
  CHECK(plan.lanes[0].steps == 8);  // 4 MiB in pieces of 512 KiB
}

TEST_CASE("a plan needs an algorithm and two members") {
  CHECK_THROWS_AS(
      static_cast<void>(plan_collective(CollectiveKind::AllReduce, Algorithm::Auto, 1_MB, counting_rings(4))),
      std::logic_error);
  CHECK_THROWS_AS(
      static_cast<void>(plan_collective(CollectiveKind::AllReduce, Algorithm::Ring, 1_MB, counting_rings(1))),
      std::logic_error);
}

TopologySpec cluster_of_nodes(int nodes, int per_node, int nics) {
  TopologySpec spec;
  spec.name = "nodes";
  spec.accelerators = nodes * per_node;
  spec.accelerators_per_node = per_node;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {400_GBps, 1.0, 1_us}};
  spec.nic = NicSpec{nics, {64_GBps, 1.0, 1_us}};
  spec.scale_out = FatTreeSpec{0, 64, {}, false, {50_GBps, 1.0, 1_us}};
  return spec;
}

std::vector<AcceleratorId> all_of(const Topology& topology) {
  std::vector<AcceleratorId> members;
  for (std::size_t i = 0; i < topology.accelerators().size(); ++i) members.emplace_back(i);
  return members;
}

void check_permutations(const Rings& rings, std::size_t n) {
  for (std::vector<std::uint32_t> ring : rings) {
    std::sort(ring.begin(), ring.end());
    CHECK(ring == counting_rings(n).front());
  }
}

TEST_CASE("rings visit node after node, and each enters and leaves by a NIC of its own") {
  const Topology topology = build_topology(cluster_of_nodes(4, 8, 8));
  const Rings rings = ring_orders(all_of(topology), topology);
  REQUIRE(rings.size() == 8);
  check_permutations(rings, 32);
  std::set<std::uint32_t> entries;
  for (const auto& ring : rings) {
    for (std::size_t i = 0; i < 32; ++i) CHECK(ring[i] / 8 == i / 8);  // node by node
    entries.insert(ring[8] % 8);                                       // first member in node 1
  }
  CHECK(entries.size() == 8);
}

TEST_CASE("as many rings as the members of a node have NICs between them") {
  struct Row {
    const char* name;
    int per_node, nics;
    std::vector<std::uint32_t> local;  // members on each node
    std::size_t rings;
  };
  for (const Row& row : {Row{"all eight, eight NICs", 8, 8, {0, 1, 2, 3, 4, 5, 6, 7}, 8},
                         {"all eight, four NICs", 8, 4, {0, 1, 2, 3, 4, 5, 6, 7}, 4},
                         {"one a node", 8, 8, {3}, 1},
                         {"two a node", 8, 8, {0, 1}, 2},
                         {"two on one NIC", 8, 4, {0, 1}, 1},
                         {"five on three NICs", 8, 4, {0, 1, 2, 3, 4}, 3}}) {
    CAPTURE(row.name);
    const Topology topology = build_topology(cluster_of_nodes(3, row.per_node, row.nics));
    std::vector<AcceleratorId> members;
    for (unsigned node = 0; node < 3; ++node)
      for (const std::uint32_t local : row.local) members.emplace_back(node * 8 + local);
    const Rings rings = ring_orders(members, topology);
    CHECK(rings.size() == row.rings);
    check_permutations(rings, members.size());
    std::set<std::uint32_t> entries;  // each ring enters the second node by another NIC
    for (const auto& ring : rings)
      entries.insert(members[ring[row.local.size()]].value() % 8 * static_cast<std::uint32_t>(row.nics) / 8);
    CHECK(entries.size() == row.rings);
  }
}

TEST_CASE("inside one node a switch needs one ring") {
  const Topology topology = build_topology(cluster_of_nodes(1, 8, 8));
  CHECK(ring_orders(all_of(topology), topology).size() == 1);
}

TEST_CASE("a row of a torus is a ring both ways, a plane is walked along both its dimensions") {
  TopologySpec spec;
  spec.name = "slices";
  spec.accelerators = 64;
  spec.accelerators_per_node = 32;  // two slices of 8 x 4
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Torus, {45_GBps, 1.0, 1_us}, {8, 4}};
  spec.nic = NicSpec{4, {64_GBps, 1.0, 1_us}};
  spec.scale_out = FatTreeSpec{0, 64, {}, false, {50_GBps, 1.0, 1_us}};
  const Topology topology = build_topology(spec);
  const struct {
    const char* name;
    std::uint32_t first, stride, count;
    std::size_t rings;
  } rows[] = {{"a row of the second slice", 40, 1, 8, 2}, {"a column", 33, 8, 4, 2}};
  for (const auto& row : rows) {
    CAPTURE(row.name);
    std::vector<AcceleratorId> members;
    for (std::uint32_t i = 0; i < row.count; ++i) members.emplace_back(row.first + i * row.stride);
    const Rings rings = ring_orders(members, topology);
    REQUIRE(rings.size() == row.rings);
    check_permutations(rings, row.count);
    for (const auto& ring : rings)
      for (std::size_t i = 0; i < ring.size(); ++i)  // every hop is one link
        CHECK(topology.route(members[ring[i]], members[ring[(i + 1) % ring.size()]]).size() == 1);
    CHECK(rings[0][1] != rings[1][1]);
  }
  std::vector<AcceleratorId> slice;
  for (std::uint32_t i = 32; i < 64; ++i) slice.emplace_back(i);
  const Rings whole = ring_orders(slice, topology);
  CHECK(whole.size() > 2);
  check_permutations(whole, 32);
  for (const auto& ring : whole)
    for (std::size_t i = 0; i < ring.size(); ++i)
      CHECK(topology.route(slice[ring[i]], slice[ring[(i + 1) % ring.size()]]).size() == 1);
  CHECK(ring_orders(all_of(topology), topology).size() == 4);  // across slices: a ring a NIC
}

TEST_CASE("in a full mesh no two rings share a link") {
  for (const int n : {3, 4, 7, 8, 12}) {
    CAPTURE(n);
    TopologySpec spec;
    spec.name = "mesh";
    spec.accelerators = spec.accelerators_per_node = n;
    spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::FullMesh, {64_GBps, 1.0, 1_us}};
    const Topology topology = build_topology(spec);
    const Rings rings = ring_orders(all_of(topology), topology);
    check_permutations(rings, static_cast<std::size_t>(n));
    std::set<std::uint32_t> links;
    for (const auto& ring : rings)
      for (std::size_t i = 0; i < ring.size(); ++i)
        for (const LinkId link :
             topology.route(AcceleratorId(ring[i]), AcceleratorId(ring[(i + 1) % ring.size()])))
          CHECK(links.insert(link.value()).second);
  }
  // strides prime to 8: 1, 3, 5, 7
}

Topology torus(const std::vector<int>& shape) {
  TopologySpec spec;
  spec.name = "torus";
  spec.accelerators = std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>());
  spec.scale_out = TorusSpec{shape, {}, static_cast<int>(shape.size()), {100_GBps, 1.0, 1_us}};
  return build_topology(spec);
}

TEST_CASE(
    "on a torus every ring steps from neighbour to neighbour, as many one way as the other in each "
    "dimension") {
  for (const std::vector<int>& shape :
       {std::vector<int>{4, 4, 4}, {2, 4, 8}, {8, 8}, {16}, {4, 1, 4}, {3, 3, 3}, {2, 2, 2}, {6, 4}}) {
    const Topology topology = torus(shape);
    const std::size_t n = topology.accelerators().size();
    const Rings rings = ring_orders(all_of(topology), topology);
    const auto dimensions = std::count_if(shape.begin(), shape.end(), [](int extent) { return extent > 1; });
    CHECK(rings.size() % static_cast<std::size_t>(2 * dimensions) == 0);
    check_permutations(rings, n);
    for (const auto& ring : rings)
      for (std::size_t i = 0; i < n; ++i)
        CHECK(topology.route(AcceleratorId(ring[i]), AcceleratorId(ring[(i + 1) % n])).size() == 1);
  }
}

TEST_CASE("the rings on a torus load its links nearly alike") {
  struct Row {
    std::vector<int> shape;
    double most;  // load of the fullest link over the mean
  };
  for (const Row& row :
       {Row{{8, 8}, 1.0}, {{3, 3, 3}, 1.0}, {{4, 4, 4}, 1.25}, {{8, 8, 8}, 1.125}, {{4, 4, 8}, 1.25}}) {
    const Topology topology = torus(row.shape);
    const Rings rings = ring_orders(all_of(topology), topology);
    std::vector<int> load(topology.links().size(), 0);
    for (const auto& ring : rings)
      for (std::size_t i = 0; i < ring.size(); ++i)
        for (const LinkId link :
             topology.route(AcceleratorId(ring[i]), AcceleratorId(ring[(i + 1) % ring.size()])))
          ++load[link.value()];
    const double mean = std::accumulate(load.begin(), load.end(), 0.0) / static_cast<double>(load.size());
    CHECK(*std::max_element(load.begin(), load.end()) == doctest::Approx(row.most * mean));
  }
}

}  // namespace
}  // namespace syncline
