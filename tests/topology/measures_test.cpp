#include "sim/topology/measures.hpp"

#include <doctest/doctest.h>

#include <string>
#include <tuple>

#include "tests/topology/specs.hpp"

namespace syncline {
using namespace literals;

TEST_CASE("diameter, latency, bisection and injection are those of the closed forms") {
  struct Row {
    std::string name;
    TopologySpec spec;
    int diameter;      // links
    double latency;    // us
    double bisection;  // GB/s, one way
    double injection;  // GB/s
  };
  using Kind = ScaleUpSpec::Kind;
  const std::vector<Row> rows = {
      {"one accelerator alone", nodes_of(1, 1), 0, 0, 0, 0},
      {"one node with a switch: n/2 links", nodes_of(8, 8), 2, 2, 4 * 100, 0},
      {"one node, full mesh: (n/2)² links", nodes_of(6, 6, Kind::FullMesh), 1, 1, 9 * 100, 0},
      {"one switch: n/2 NICs", fat_tree(64, 8, {}), 4, 2 * 2 + 2 * 4, 32 * 10, 10},
      {"two levels", fat_tree(128, 8, {}), 6, 2 * 2 + 4 * 4, 64 * 10, 10},
      {"two levels, two NICs for eight", fat_tree(512, 8, {.nics = 2}), 6, 2 * 2 + 4 * 4, 64 * 10, 2.5},
      {"three levels", fat_tree(128, 1, {.radix = 8}), 8, 2 * 2 + 6 * 4, 64 * 10, 10},
      // 4 leaves of 32 with 8 cables up; half the leaves have 16
      {"4:1: a quarter", fat_tree(128, 8, {.radix = 40, .oversubscription = {4}}), 6, 20, 16 * 10, 10},
      // one leaf of 48 and one of 16: of the lower 32, 16 reach their like on the first leaf, the others 12
      // cables
      {"4:1, one leaf part full", fat_tree(64, 8, {.levels = 2, .oversubscription = {4}}), 6, 20,
       (16 + 12) * 10, 10},
      // pods of 8 spines · 12 ports: 12 leaves of 8 down, 8 up each; spines 12 down, 4 up: 96 NICs, 32 up a
      // pod
      {"3:1 in the middle: a third", fat_tree(192, 1, {.radix = 16, .oversubscription = {1, 3}}), 8, 28,
       32 * 10, 10},
      {"both levels: 2:1 of 3:1", fat_tree(144, 1, {.radix = 12, .oversubscription = {2, 3}}), 8, 28, 12 * 10,
       10},
      // to the own rail 4 links; to another one 6, with less latency through the node than through a spine
      {"rails, one group", fat_tree(128, 8, {.rails = true}), 6, 2 * 1 + 2 * 2 + 2 * 4, 64 * 10, 10},
      {"rails, two groups", fat_tree(512, 8, {.rails = true}), 6, 2 * 2 + 4 * 4, 256 * 10, 10},
      {"host bus narrower than its NIC",
       [] {
         TopologySpec spec = fat_tree(64, 8, {});
         spec.nic->host_bus.bandwidth = BytesPerSecond(5e9);
         return spec;
       }(),
       4, 12, 32 * 5, 5},
      {"ring of 8: two cables", torus(8, {8}), 4, 4 * 4, 2 * 10, 20},
      {"torus 4x4x4: 2·n/longest", torus(64, {4, 4, 4}), 6, 24, 2 * 16 * 10, 60},
      {"torus 4x4x8", torus(128, {4, 4, 8}), 8, 32, 2 * 16 * 10, 60},
      {"torus 2x2x2: n/2 single cables", torus(8, {2, 2, 2}), 3, 12, 4 * 10, 30},
      {"mesh 4x4: one cable a line", torus(16, {4, 4}, {false, false}), 6, 24, 4 * 10, 20},
      {"longest dimension not wrapped", torus(32, {4, 8}, {true, false}), 2 + 7, 36, 4 * 10, 30},
      {"longest first", torus(128, {8, 4, 4}), 8, 32, 2 * 16 * 10, 60},
      {"ideal switch: n/2 links", all_to_all(10, Ideal), 2, 8, 5 * 10, 10},
      {"full mesh: (n/2)² links", all_to_all(10, Mesh), 1, 4, 25 * 10, 90},
      {"scale-up x full mesh of NICs", with_nics(all_to_all(16, Mesh, 4), 1), 3, 8, 4 * 10, 7.5},
      {"three nodes: one against two", with_nics(all_to_all(12, Ideal, 4), 4), 4, 12, 4 * 10, 10},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name.c_str()) {
      const Measures measures = measure(build_topology(row.spec));
      CHECK(measures.diameter == row.diameter);
      CHECK(measures.largest_latency / 1_us == doctest::Approx(row.latency));
      CHECK(measures.bisection / 1_GBps == doctest::Approx(row.bisection).epsilon(1e-9));
      CHECK(measures.injection / 1_GBps == doctest::Approx(row.injection).epsilon(1e-9));
    }
  }
}

TEST_CASE("oversubscription is measured by level, of the worst switch") {
  struct Row {
    std::string name;
    TopologySpec spec;
    std::vector<double> ratios;  // by level from the leaves
  };
  const std::vector<Row> rows = {
      {"one switch has no uplinks", fat_tree(64, 8, {}), {}},
      {"non-blocking", fat_tree(2048, 8, {}), {1}},
      {"3:1", fat_tree(96, 1, {.oversubscription = {3}}), {3}},
      {"2:1, a port unused", fat_tree(126, 1, {.oversubscription = {2}}), {2}},
      {"1:1 below 3:1", fat_tree(192, 1, {.radix = 16, .oversubscription = {1, 3}}), {1, 3}},
      {"spare uplinks: 16 NICs of 32", fat_tree(128, 8, {.rails = true}), {0.5}},
      {"the full leaf counts, not the part full one", fat_tree(72, 8, {}), {1}},
      {"no tree", torus(8, {2, 2, 2}), {}},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name.c_str()) {
      const Measures measures = measure(build_topology(row.spec));
      REQUIRE(measures.oversubscription.size() == row.ratios.size());
      for (std::size_t i = 0; i < row.ratios.size(); ++i) {
        CHECK(measures.oversubscription[i].level == static_cast<int>(i) + 1);
        CHECK(measures.oversubscription[i].ratio == doctest::Approx(row.ratios[i]));
      }
    }
  }
}

TEST_CASE("sixteen thousand accelerators are measured as exactly as a few") {
  const Measures tree = measure(build_topology(fat_tree(16384, 8, {.rails = true})));
  CHECK(tree.diameter == 8);
  CHECK(tree.bisection / 1_GBps == doctest::Approx(8192 * 10).epsilon(1e-9));
  CHECK(tree.oversubscription.size() == 2);
  const Measures cube = measure(build_topology(torus(16384, {16, 32, 32})));
  CHECK(cube.diameter == 8 + 16 + 16);
  CHECK(cube.bisection / 1_GBps == doctest::Approx(2 * 512 * 10).epsilon(1e-9));
}

TEST_CASE("path diversity counts the paths of fewest links between those who are farthest") {
  struct Row {
    std::string name;
    TopologySpec spec;
    double paths;
  };
  const std::vector<Row> rows = {
      {"one switch", fat_tree(8, 1, {}), 1},
      {"4 spines", fat_tree(32, 1, {.radix = 8}), 4},
      {"3 levels: 4 of the pod, 4 of each at the top", fat_tree(128, 1, {.radix = 8}), 16},
      {"2 parallel cables to each of 2 spines, both ways", fat_tree(16, 1, {.levels = 2, .radix = 8}),
       2 * 2 * 2},
      {"opposite in a ring of 8: two ways round", torus(8, {8}), 2},
      {"mesh 4x4: 6!/(3! 3!)", torus(16, {4, 4}, {false, false}), 20},
      {"torus 4x4: 4!/(2! 2!) orders, two ways in each dimension", torus(16, {4, 4}), 6 * 4},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(measure(build_topology(row.spec)).path_diversity == doctest::Approx(row.paths));
  }
}

TEST_CASE("parts are counted by what they cost: switches by ports, cables by kind, ends and bandwidth") {
  // 32 NICs on 8 leaves of 8 ports: 4 down, 4 up to 4 spines; nodes of 4 around a switch
  const Parts tree = parts_of(build_topology(fat_tree(32, 4, {.radix = 8})));
  CHECK(tree.accelerators == 32);
  CHECK(tree.nics == 32);
  REQUIRE(tree.switches.size() == 3);
  CHECK(tree.switches[0].network == LinkKind::ScaleUp);
  CHECK(tree.switches[0].ports == 4);
  CHECK(tree.switches[0].count == 8);
  for (const auto& [at, level, count] : {std::tuple{1U, 1, 8}, {2U, 2, 4}}) {
    CHECK(tree.switches[at].network == LinkKind::ScaleOut);
    CHECK(tree.switches[at].level == level);
    CHECK(tree.switches[at].ports == 8);
    CHECK(tree.switches[at].count == count);
  }
  REQUIRE(tree.cables.size() == 4);  // to the node's switch, to the NIC, NIC to leaf, leaf to spine
  for (const Parts::Cables& cables : tree.cables) CHECK(cables.count == 32);
  CHECK(tree.cables[2].from == VertexKind::Nic);
  CHECK(tree.cables[3].from == VertexKind::Switch);
  CHECK(tree.cables[3].bandwidth == Cable.bandwidth);

  const Parts ring =
      parts_of(build_topology(torus(24, {2, 3, 4})));  // 12 single cables and 24 in each other dimension
  CHECK(ring.switches.empty());
  REQUIRE(ring.cables.size() == 1);
  CHECK(ring.cables[0].count == 12 + 24 + 24);
}

TEST_CASE("where links are wider one way than the other, bisection is the narrower way") {
  // Two accelerators behind a switch; the link to one of them has 4 GB/s, all others 10.
  for (const std::size_t narrow : {0U, 1U}) {
    CAPTURE(narrow);
    Topology topology("two", {});
    const VertexId hub = topology.add_vertex(VertexKind::Switch, "hub");
    for (const std::size_t i : {0U, 1U}) {
      const VertexId end =
          topology.add_vertex(VertexKind::Accelerator, i == 0 ? "a" : "b", static_cast<std::uint32_t>(i));
      topology.add_link(end, hub, Cable, LinkKind::ScaleOut);
      topology.add_link(hub, end, {i == narrow ? 4_GBps : 10_GBps, 1.0, 1_us}, LinkKind::ScaleOut);
    }
    CHECK(measure(topology).bisection / 1_GBps == doctest::Approx(4));
  }
}

TEST_CASE("a graph is connected when every accelerator reaches every other, both ways") {
  Topology topology("two", {});
  const VertexId a = topology.add_vertex(VertexKind::Accelerator, "a");
  const VertexId b = topology.add_vertex(VertexKind::Accelerator, "b");
  CHECK_FALSE(is_connected(topology));
  topology.add_link(a, b, Cable, LinkKind::ScaleOut);
  CHECK_FALSE(is_connected(topology));
  topology.add_link(b, a, Cable, LinkKind::ScaleOut);
  CHECK(is_connected(topology));
}

}  // namespace syncline
