#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>

#include "sim/topology/measures.hpp"
#include "tests/topology/specs.hpp"

namespace syncline {
using namespace literals;
namespace {

std::string refusal(const TopologySpec& spec) {
  try {
    static_cast<void>(build_topology(spec));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "built";
}

int switches_of_level(const Topology& topology, int level) {
  int count = 0;
  for (const Vertex& vertex : topology.vertices()) count += vertex.level == level;
  return count;
}

/// Cables between a switch of this level and what is below it.
int cables_below(const Topology& topology, int level) {
  int count = 0;
  for (const Link& link : topology.links()) {
    count += topology.vertex(link.from).level == level && topology.vertex(link.to).level < level;
  }
  return count;
}

}  // namespace

TEST_CASE("a fabric has the switches and cables that its description asks for") {
  struct Row {
    std::string name;
    TopologySpec spec;
    int switches, cables;
  };
  using Kind = ScaleUpSpec::Kind;
  const std::vector<Row> rows = {
      {"one accelerator alone", nodes_of(1, 1), 0, 0},
      {"one node with a switch", nodes_of(8, 8), 1, 8},
      {"one node, full mesh", nodes_of(4, 4, Kind::FullMesh), 0, 6},          // 4·3/2
      {"one node, one NIC for all", with_nics(nodes_of(4, 4), 1), 1, 4 + 4},  // NVLink, PCIe
      {"one switch holds 64 NICs", fat_tree(64, 8, {}), 8 + 1, 64 + 64 + 64},
      // 4 leaves of 32; 4·32 uplinks fit 2 spines of 64 ports, 16 cables from each leaf to each
      {"two levels, parallel cables", fat_tree(128, 1, {}), 4 + 2, 128 + 128 + 128},
      // k-ary tree, k = 4: 4³/4 hosts, 5·4²/4 switches
      {"three levels, radix 4", fat_tree(16, 1, {.levels = 3, .radix = 4}), 20, 16 + 3 * 16},
      // 48 down, 16 up: 2 leaves, 1 spine with 16 cables to each
      {"3:1 of 64 ports", fat_tree(96, 1, {.oversubscription = {3}}), 2 + 1, 96 + 96 + 32},
      // 42 down, 21 up, 1 port unused: 5 leaves; 3 spines with 7 cables from each leaf (7 divides 21, 5·7 ≤
      // 64)
      {"2:1 of 64 ports", fat_tree(210, 1, {.oversubscription = {2}}), 5 + 3, 210 + 210 + 5 * 21},
      // 16 nodes: 8 rail leaves with 16 NICs each and 32 uplinks, 8 cables to each of 4 spines
      {"rail-optimised", fat_tree(128, 8, {.rails = true}), 16 + 8 + 4, 128 + 128 + 128 + 256},
      // 64 nodes: two groups of 8 rail leaves, 32 NICs each
      {"rail-optimised, two groups", fat_tree(512, 8, {.rails = true}), 64 + 16 + 8, 4 * 512},
      {"torus", torus(64, {4, 4, 4}), 0, 3 * 64},
      {"torus with dimensions of 2: one cable", torus(8, {2, 2, 2}), 0, 12},  // 3·4
      {"torus with a dimension of 1: no cable", torus(3, {1, 3}), 0, 3},
      {"torus wrapped in one dimension", torus(12, {4, 3}, {false, true}), 0, 3 * 3 + 12},
      {"four dimensions", torus(81, {3, 3, 3, 3}), 0, 4 * 81},
      {"ideal switch", all_to_all(6, Ideal), 1, 6},
      {"full mesh", all_to_all(6, Mesh), 0, 15},
      {"scale-up x full mesh of NICs", with_nics(all_to_all(16, Mesh, 4), 1), 4, 16 + 16 + 6},
      {"scale-up x ideal switch of accelerators", all_to_all(16, Ideal, 4), 4 + 1, 16 + 16},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name.c_str()) {
      const Topology topology = build_topology(row.spec);
      const Measures measures = measure(topology);
      CHECK(measures.accelerators == row.spec.accelerators);
      CHECK(measures.nodes == row.spec.accelerators / row.spec.accelerators_per_node);
      CHECK(measures.switches == row.switches);
      CHECK(measures.cables == row.cables);
      CHECK(is_connected(topology));
      CHECK_FALSE(topology.router().description().empty());
    }
  }
}

TEST_CASE("a tree has as few levels as hold all NICs, and no switch has more cables than ports") {
  struct Row {
    std::string name;
    int accelerators, per_node;
    TreeOptions options;
    std::vector<int> switches;  // by level
  };
  const std::vector<Row> rows = {
      {"2048 NICs: 64 leaves of 32, all ports used", 2048, 8, {}, {64, 32}},
      {"2049 need a third level",
       2049,
       1,
       {},
       {65, 3 * 32, 64}},                                 // 3 pods of 32 spines; 16 cables to each of 2·32
      {"16384: 16 pods", 16384, 8, {}, {512, 512, 256}},  // 16384/64 cores with 64 ports
      {"16384 by rails", 16384, 8, {.rails = true}, {512, 512, 256}},
      {"oversubscribed in the middle", 512, 1, {.radix = 16, .oversubscription = {1, 3}}, {64, 48, 16}},
      {"more levels than needed", 128, 1, {.levels = 3}, {4, 4, 4}},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name.c_str()) {
      const Topology topology = build_topology(fat_tree(row.accelerators, row.per_node, row.options));
      std::map<std::uint32_t, int> cables;
      for (const Link& link : topology.links()) {
        if (topology.vertex(link.from).level > 0) ++cables[link.from.value()];
      }
      for (const auto& [vertex, count] : cables) REQUIRE(count <= row.options.radix);
      for (std::size_t l = 0; l < row.switches.size(); ++l) {
        CAPTURE(l + 1);
        CHECK(switches_of_level(topology, static_cast<int>(l) + 1) == row.switches[l]);
      }
      CHECK(switches_of_level(topology, static_cast<int>(row.switches.size()) + 1) == 0);
      CHECK(cables_below(topology, 1) == row.accelerators);
    }
  }
}

TEST_CASE("a torus without a shape comes as near to a cube as its size allows") {
  struct Row {
    int accelerators, dimensions;
    std::vector<int> shape;
  };
  const std::vector<Row> rows = {
      {64, 3, {4, 4, 4}}, {128, 3, {4, 4, 8}},    {16384, 3, {16, 32, 32}},
      {7, 3, {1, 1, 7}},  {1, 3, {1, 1, 1}},      {36, 2, {6, 6}},
      {12, 1, {12}},      {256, 4, {4, 4, 4, 4}}, {96, 3, {4, 4, 6}},
  };
  for (const Row& row : rows) {
    TopologySpec spec = torus(row.accelerators, {});
    std::get<TorusSpec>(spec.scale_out).dimensions = row.dimensions;
    CHECK(build_topology(spec).shape().torus == row.shape);
  }
}

TEST_CASE("the shape of a torus is told only where every vertex is one accelerator") {
  TopologySpec spec = torus(8, {2, 4});
  CHECK(build_topology(spec).shape().torus == std::vector<int>{2, 4});
  CHECK(build_topology(spec).shape().torus_wrap == std::vector<bool>{true, true});
  spec = nodes_of(32, 4);
  spec.nic = NicSpec{1, HostBus};
  spec.scale_out = TorusSpec{{2, 4}, {}, 3, Cable};
  CHECK(build_topology(spec).shape().torus.empty());
}

TEST_CASE("links carry usable and nominal bandwidth, latency and kind") {
  TopologySpec spec = fat_tree(4, 2, {});
  spec.scale_up->link.efficiency = 0.8;
  const Topology topology = build_topology(spec);
  const Link& scale_up = topology.link(topology.route(AcceleratorId(0), AcceleratorId(1)).front());
  CHECK(scale_up.kind == LinkKind::ScaleUp);
  CHECK(scale_up.bandwidth / 1_GBps == doctest::Approx(80));
  CHECK(scale_up.nominal == 100_GBps);
  const std::vector<LinkId> across = topology.route(AcceleratorId(0), AcceleratorId(2));
  CHECK(topology.link(across[0]).kind == LinkKind::HostBus);
  CHECK(topology.link(across[1]).kind == LinkKind::ScaleOut);
  CHECK(topology.latency(across) / 1_us == doctest::Approx(2 * 2 + 2 * 4));
}

TEST_CASE("links are named by their ends, parallel cables by number too") {
  const Topology topology = build_topology(fat_tree(128, 8, {}));
  CHECK(topology.link_name(LinkId(0)) == "node0.gpu0 → node0.switch");
  CHECK(topology.link_name(LinkId(1)) == "node0.switch → node0.gpu0");
  // 16 cables from every leaf to each of two spines
  std::map<std::string, int> names;
  for (std::size_t i = 0; i < topology.links().size(); ++i) ++names[topology.link_name(LinkId(i))];
  CHECK(names.size() == topology.links().size());
  CHECK(names.count("leaf2 → spine1 #0") == 1);
  CHECK(names.count("leaf2 → spine1 #15") == 1);
  CHECK(names.count("spine1 → leaf2 #15") == 1);
  CHECK(names.count("leaf2 → spine1 #16") == 0);
}

TEST_CASE("accelerators are numbered node by node, each on its share of the node's NICs") {
  const Topology topology = build_topology(fat_tree(16, 8, {.nics = 2}));
  CHECK(topology.node_of(AcceleratorId(7)) == 0);
  CHECK(topology.node_of(AcceleratorId(8)) == 1);
  const auto nic_of = [&](std::size_t accelerator) {  // where its route to the other node first arrives
    const auto route = topology.route(AcceleratorId(accelerator), AcceleratorId(accelerator ^ 8));
    return topology.vertex(topology.link(route.front()).to).name;
  };
  CHECK(nic_of(0) == "node0.nic0");
  CHECK(nic_of(3) == "node0.nic0");
  CHECK(nic_of(4) == "node0.nic1");
  CHECK(nic_of(15) == "node1.nic1");
}

TEST_CASE("what cannot be built is refused with the reason") {
  constexpr double NaN = std::numeric_limits<double>::quiet_NaN(),
                   Infinity = std::numeric_limits<double>::infinity();
  struct Row {
    TopologySpec spec;
    std::function<void(TopologySpec&)> spoil;
    std::string reason;
  };
  const auto none = [](TopologySpec&) {};
  const auto tree = [](auto change) {
    return [change](TopologySpec& spec) { change(std::get<FatTreeSpec>(spec.scale_out)); };
  };
  const TopologySpec good = fat_tree(128, 8, {});
  const std::vector<Row> rows = {
      {good, [](auto& s) { s.accelerators = 0; }, "accelerators must be at least 1, not 0"},
      {good, [](auto& s) { s.accelerators = -8; }, "accelerators must be at least 1, not -8"},
      {good, [](auto& s) { s.accelerators = 1'000'000'000; },
       "accelerators must be at most 262144, not 1000000000"},
      {good, [](auto& s) { s.accelerators_per_node = 0; }, "accelerators-per-node must be at least 1, not 0"},
      {good, [](auto& s) { s.accelerators = 100; },
       "accelerators-per-node (8) does not divide accelerators (100)"},
      {good, [](auto& s) { s.nic->per_node = 3; }, "nic.per-node (3) must divide accelerators-per-node (8)"},
      {good, [](auto& s) { s.nic->per_node = 0; }, "nic.per-node (0) must divide accelerators-per-node (8)"},
      {good, [](auto& s) { s.nic->per_node = 16; },
       "nic.per-node (16) must divide accelerators-per-node (8)"},
      {good, [](auto& s) { s.nic.reset(); }, "a fat-tree connects NICs, and nodes have none; add nic"},
      {good, [](auto& s) { s.scale_up->link.efficiency = 1.01; },
       "scale-up.link.efficiency must be above 0 and at most 1, not 1.01"},
      {good, [](auto& s) { s.scale_up->link.efficiency = 0; },
       "scale-up.link.efficiency must be above 0 and at most 1, not 0"},
      {good, [=](auto& s) { s.nic->host_bus.bandwidth = BytesPerSecond(NaN); },
       "nic.host-bus.bandwidth must be above 0, not nan B/s"},
      {good, [](auto& s) { s.nic->host_bus.latency = Seconds(-1); },
       "nic.host-bus.latency must be 0 or more, not -1 s"},
      {good, tree([=](auto& t) { t.link.bandwidth = BytesPerSecond(Infinity); }),
       "scale-out.link.bandwidth must be above 0, not inf B/s"},
      {good, tree([](auto& t) { t.radix = 1; }), "scale-out.radix must be at least 2, not 1"},
      {good, tree([](auto& t) { t.levels = -1; }),
       "scale-out.levels must be 0 (as few as needed) or more, not -1"},
      {good, tree([](auto& t) { t.levels = 99; }), "scale-out.levels must be at most 16, not 99"},
      {good, tree([](auto& t) { t.levels = 1; }),
       "a fat-tree of 1 levels and radix 64 is too small for 128 NICs; try levels: 2 (or 0: as few as "
       "needed)"},
      {good, tree([](auto& t) { t.radix = 3; }),  // one port up, one down: leaves never get fewer
       "a fat-tree of switches of radix 3 cannot be made large enough for 128 NICs; try a larger radix"},
      {good, tree([](auto& t) { t.oversubscription = {0}; }),
       "scale-out.oversubscription must be above 0, not 0"},
      {good, tree([](auto& t) {
         t.oversubscription = {1, -4};
       }),
       "scale-out.oversubscription must be above 0, not -4"},
      {good, tree([=](auto& t) { t.oversubscription = {NaN}; }),
       "scale-out.oversubscription must be above 0, not nan"},
      {good, tree([](auto& t) { t.oversubscription = {3.14159}; }),
       "scale-out.oversubscription 3.14159 of level 1 is no ratio of whole ports of a switch of radix 64; "
       "near it is "
       "49:15 = 3.267"},
      {good, tree([](auto& t) { t.oversubscription = {1000}; }),
       "scale-out.oversubscription 1000 of level 1 is no ratio of whole ports of a switch of radix 64; near "
       "it is "
       "63:1 = 63"},
      {nodes_of(16, 8), none,
       "2 nodes and no scale-out would be disconnected; add scale-out, or make it one node with "
       "accelerators-per-node: 16"},
      {nodes_of(8, 8), [](auto& s) { s.scale_up.reset(); },
       "the 8 accelerators of the node would be disconnected: no scale-up, no scale-out, and no NIC that all "
       "share; "
       "add scale-up"},
      {with_nics(nodes_of(8, 8), 2), [](auto& s) { s.scale_up.reset(); },
       "the 8 accelerators of the node would be disconnected: no scale-up, no scale-out, and no NIC that all "
       "share; "
       "add scale-up"},
      {torus(64, {4, 4, 5}), none, "a torus of shape [4, 4, 5] holds 80 vertices, but there are 64 to place"},
      {torus(64, {0, 64}), none, "a torus of shape [0, 64]: sizes must be at least 1"},
      {torus(64, {1 << 20, 1 << 20}), none,
       "a torus of shape [1048576, 1048576] holds at least 2147483647 vertices, but there are 64 to place"},
      {torus(64, {8, 8}, {true}), none, "scale-out.wrap has 1 entries for 2 dimensions"},
      {torus(64, {}), [](auto& s) { std::get<TorusSpec>(s.scale_out).dimensions = 0; },
       "a torus has 1 to 8 dimensions, not 0"},
      {all_to_all(4096, Mesh), none,
       "a full-mesh of 4096 endpoints would have 16773120 links, more than the 4194304 that are built; try "
       "fabric: "
       "ideal-switch"},
      {nodes_of(16384, 16384, ScaleUpSpec::Kind::FullMesh), none,
       "full-mesh nodes of 16384 would have 268419072 links in all, more than the 4194304 that are built; "
       "try "
       "scale-up.kind: switch"},
  };
  for (const Row& row : rows) {
    TopologySpec spec = row.spec;
    REQUIRE((row.spec.accelerators != 128 || refusal(spec) == "built"));  // what is spoilt was good
    row.spoil(spec);
    CHECK(refusal(spec) == row.reason);
  }
}

TEST_CASE("a node without scale-up is connected by the NIC that all share, or by the fabric") {
  TopologySpec shared = with_nics(nodes_of(4, 4), 1);
  shared.scale_up.reset();
  CHECK(build_topology(shared).route(AcceleratorId(0), AcceleratorId(3)).size() == 2);
  TopologySpec fabric = fat_tree(8, 4, {});
  fabric.scale_up.reset();
  CHECK(build_topology(fabric).route(AcceleratorId(0), AcceleratorId(3)).size() == 4);
}

}  // namespace syncline
