// What a collective is predicted to take, by hand and by its properties.
#include "sim/collective/cost.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/device/cluster.hpp"

namespace syncline {
namespace {

using namespace literals;

/// Nodes of 8 behind a switch of 400 GB/s, and a NIC of 50 GB/s each.
Topology nodes_of_eight(int nodes) {
  TopologySpec spec;
  spec.name = "eights";
  spec.accelerators = 8 * nodes;
  spec.accelerators_per_node = 8;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {400_GBps, 1.0, 1_us}};
  spec.nic = NicSpec{8, {100_GBps, 1.0, 1_us}};
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::IdealSwitch, {50_GBps, 1.0, 1_us}};
  return build_topology(spec);
}

Load load_of_plan(const CollectivePlan& plan, const Topology& topology) {
  return load_of(link_uses(plan, placement_in_order(topology.accelerators().size()), topology), 1_B,
                 topology);
}
CollectivePlan ring_plan(CollectiveKind kind, Bytes bytes, const Topology& topology) {
  return plan_collective(kind, Algorithm::Ring, bytes,
                         ring_orders(placement_in_order(topology.accelerators().size()), topology));
}

TEST_CASE("hops that follow one another are counted by hand") {
  struct Row {
    const char* name;
    CollectiveKind kind;
    Algorithm algorithm;
    Spread spread;
    double inside, between;
  };
  using enum CollectiveKind;
  using enum Algorithm;
  for (const Row& row : {
           Row{"ring all-reduce of a node", AllReduce, Ring, {8, 1}, 14, 0},  // 2 · 7
           {"ring all-gather of a node", AllGather, Ring, {8, 1}, 7, 0},
           {"ring all-reduce on 2 nodes of 8",
            AllReduce,
            Ring,
            {16, 2},
            26.25,
            3.75},  // 30 steps, 2 of 16 between
           {"ring reduce-scatter on 4 nodes of 1", ReduceScatter, Ring, {4, 4}, 0, 3},
           {"tree on 10 nodes of 8", AllReduce, Tree, {80, 10}, 14, 8},  // 2 · 7; 2 · ⌈log2 10⌉
           {"in the network, one node", AllReduce, InNetwork, {8, 1}, 2, 0},
           {"in the network, 16 nodes", AllReduce, InNetwork, {128, 16}, 2, 8},
           {"all-to-all on 2 nodes of 8", AllToAll, Direct, {16, 2}, 7, 8},
           {"broadcast along a chain of 8", Broadcast, Ring, {8, 1}, 7, 0},
           {"gather from 7 others", Gather, Direct, {8, 1}, 7, 0},
           {"shift inside", Shift, Ring, {4, 1}, 1, 0},
           {"shift across", Shift, Ring, {4, 2}, 0, 1},
       }) {
    CAPTURE(row.name);
    const Hops hops = hops_of(row.kind, row.algorithm, row.spread);
    CHECK(hops.inside == doctest::Approx(row.inside));
    CHECK(hops.between == doctest::Approx(row.between));
  }
}

TEST_CASE("the load of rings and trees on nodes of eight, by hand") {
  const Topology one = nodes_of_eight(1), two = nodes_of_eight(2);
  // Ring all-reduce of 8 GB among 8: 2 · 7/8 · 8 GB = 14 GB over links of 400 GB/s.
  const Load inside = load_of_plan(ring_plan(CollectiveKind::AllReduce, 8_GB, one), one);
  CHECK(inside.inside.si() == doctest::Approx(14.0 / 400));
  CHECK(inside.between == Seconds(0));
  CHECK(inside.out_of_node == Bytes(0));
  // Among 16 on two nodes, 8 channels: 2 · 15/16 · 8 GB leave each node over 8 NICs of 50 GB/s.
  const Load across = load_of_plan(ring_plan(CollectiveKind::AllReduce, 8_GB, two), two);
  CHECK(across.out_of_node.si() == doctest::Approx(15e9));
  CHECK(across.between.si() == doctest::Approx(15.0 / 8 / 50));
  // The trees of two nodes carry 8 GB each way.
  CollectivePlan tree;
  tree.bytes = 8_GB;
  std::vector<std::uint32_t> node_of;
  for (std::uint32_t i = 0; i < 16; ++i) node_of.push_back(i / 8);
  tree.flows = std::make_shared<const std::vector<Flow>>(
      tree_flows(CollectiveKind::AllReduce, ring_orders(placement_in_order(16), two), node_of));
  const Load by_tree = load_of_plan(tree, two);
  CHECK(by_tree.out_of_node.si() == doctest::Approx(8e9));
  CHECK(by_tree.between.si() == doctest::Approx(8.0 / 8 / 50));
}

TEST_CASE("a predicted time is the call, its hops and the fullest link at the protocol's share") {
  const ProtocolFigures figures{"Simple", 10_us, 1_us, 5_us, 0.5, 0.8};
  // 10 + 4 · 1 + 2 · 5 us; 100 us / 0.5 inside, 120 us / 0.8 between: the former is longer.
  const Load load{100_us, 120_us, Bytes(0)};
  CHECK(predicted_time(figures, {4, 2}, load, std::nullopt).si() == doctest::Approx(224e-6));
  // 30 MB out of a node that moves 100 GB/s: 300 us.
  CHECK(predicted_time(figures, {4, 2}, {100_us, 120_us, 30_MB}, 100_GBps).si() == doctest::Approx(324e-6));
}

TEST_CASE("what a protocol puts on the links is its bytes and flags, and fits its own pace") {
  ProtocolFigures figures{"LL", 0_us, 0_us, 0_us, 0.8, 0.25};
  CHECK(wire_of(figures).inside == 1);
  figures.wire = 2;  // at 0.8 of a link there is room for 1.25, at 0.25 for 4
  CHECK(wire_of(figures).inside == doctest::Approx(1.25));
  CHECK(wire_of(figures).between == doctest::Approx(2));
  // 100 us / 0.8 inside, 40 us / 0.25 between, whatever is on the links.
  CHECK(bytes_time(figures, {}, {100_us, 40_us, Bytes(0)}, std::nullopt).si() == doctest::Approx(160e-6));
}

TEST_CASE("a rank's own block takes its share of the time of those that it sends") {
  ProtocolFigures figures{"Simple", 0_us, 0_us, 0_us, 1.0, 1.0};
  figures.own_block = 0.5;
  // 7 blocks of 10 us are sent, or 14 in an all-reduce, and one is copied in 5 us.
  for (const auto& [kind, blocks] :
       {std::pair{CollectiveKind::AllGather, 7}, {CollectiveKind::AllReduce, 14}}) {
    const Load load{10_us * blocks, Seconds(0), Bytes(0)};
    const Hops hops = hops_of(kind, Algorithm::Ring, {8, 1});
    CHECK(predicted_time(figures, hops, load, std::nullopt).si() ==
          doctest::Approx((10 * blocks + 5) * 1e-6));
  }
  // In a broadcast everybody moves the whole.
  CHECK(hops_of(CollectiveKind::Broadcast, Algorithm::Ring, {8, 1}).own_blocks == 0);
}

TEST_CASE("libraries broadcast and reduce along rings, scatter and gather directly") {
  CollectiveFigures figures;
  figures.ring = figures.tree = figures.direct = {{"Simple", 1_us, 1_us, 1_us, 1, 1}};
  using enum CollectiveKind;
  for (const CollectiveKind kind : {Broadcast, Reduce}) {
    CHECK(algorithms_for(figures, kind, {16, 2}) == std::vector{Algorithm::Ring});
    CHECK(&protocols_of(figures, kind, Algorithm::Ring) == &figures.ring);
    CHECK(protocols_of(figures, kind, Algorithm::Tree).empty());
  }
  for (const CollectiveKind kind : {Scatter, Gather}) {
    CHECK(algorithms_for(figures, kind, {16, 2}) == std::vector{Algorithm::Direct});
    CHECK(&protocols_of(figures, kind, Algorithm::Direct) == &figures.direct);
  }
}

TEST_CASE("what the limit of a node adds is put on the links between nodes") {
  const ProtocolFigures figures{"Simple", 0_us, 0_us, 0_us, 1.0, 1.0};
  const Load load{10_us, 20_us, 3_MB};
  CHECK(stretch_of(figures, {}, load, std::nullopt).between == doctest::Approx(1));
  CHECK(stretch_of(figures, {}, load, 100_GBps).between == doctest::Approx(1.5));  // 30 us instead of 20
  CHECK(stretch_of(figures, {}, load, 1000_GBps).between == doctest::Approx(1));
}

TEST_CASE("small messages go by the protocol of low latency, large ones by that of high bandwidth") {
  const std::vector<ProtocolFigures> protocols = {{"LL", 5_us, 1_us, 1_us, 0.2, 0.2},
                                                  {"Simple", 20_us, 5_us, 5_us, 1, 1}};
  const Topology node = nodes_of_eight(1);
  const Load per_byte = load_of_plan(ring_plan(CollectiveKind::AllReduce, 1_B, node), node);
  const Hops hops = hops_of(CollectiveKind::AllReduce, Algorithm::Ring, {8, 1});
  // LL: 19 us + 5 · S · 1.75 / 400 GB/s; Simple: 90 us + S · 1.75 / 400 GB/s. Equal at 71 us = 4 · S · 1.75 / 400 GB/s.
  const double crossing = 71e-6 * 400e9 / 1.75 / 4;
  double before = 0;
  for (double size = 8; size < 1e10; size *= 1.1) {
    CAPTURE(size);
    const Load load{per_byte.inside * size, per_byte.between * size, per_byte.out_of_node * size};
    const double low = predicted_time(protocols[0], hops, load, std::nullopt).si();
    const double high = predicted_time(protocols[1], hops, load, std::nullopt).si();
    if (std::abs(size / crossing - 1) > 0.01) CHECK((low < high) == (size < crossing));
    CHECK(std::min(low, high) >= before);  // and a larger message never takes less
    before = std::min(low, high);
  }
}

TEST_CASE("auto has trees across nodes and the network's reduction where more than one member is on a node") {
  CollectiveFigures figures;
  figures.ring = figures.tree = figures.in_network = {{"Simple", 1_us, 1_us, 1_us, 1, 1}};
  using enum CollectiveKind;
  using enum Algorithm;
  using List = std::vector<Algorithm>;
  CHECK(algorithms_for(figures, AllReduce, {8, 1}) == List{Ring, InNetwork});
  CHECK(algorithms_for(figures, AllReduce, {16, 2}) == List{Ring, Tree, InNetwork});
  CHECK(algorithms_for(figures, AllReduce, {4, 4}) == List{Ring, Tree});
  CHECK(algorithms_for(figures, AllGather, {16, 2}) == List{Ring});
  CHECK(algorithms_for(figures, AllToAll, {16, 2}) == List{Direct});
  figures.tree.clear();
  CHECK(algorithms_for(figures, AllReduce, {4, 4}) == List{Ring});
}

}  // namespace
}  // namespace syncline
