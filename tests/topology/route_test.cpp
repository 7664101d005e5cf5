#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "sim/topology/graph_router.hpp"
#include "tests/topology/specs.hpp"

namespace syncline {
namespace {

/// Vertices along a route, from the source on; checks that each link starts where the one before ended.
std::vector<VertexId> walk(const Topology& topology, AcceleratorId source, const std::vector<LinkId>& route) {
  std::vector<VertexId> visited{topology.accelerators()[source.value()]};
  for (const LinkId id : route) {
    REQUIRE(id.value() < topology.links().size());
    REQUIRE(topology.link(id).from == visited.back());
    visited.push_back(topology.link(id).to);
  }
  return visited;
}

template <class Visit>
void for_each_pair(const Topology& topology, Visit visit) {
  for (std::size_t source = 0; source < topology.accelerators().size(); ++source) {
    for (std::size_t target = 0; target < topology.accelerators().size(); ++target) {
      visit(AcceleratorId(source), AcceleratorId(target));
    }
  }
}

/// How many routes of a set use each link.
using Loads = std::map<std::uint32_t, int>;

Loads shift_loads(const Topology& topology, std::size_t shift) {
  Loads loads;
  const std::size_t count = topology.accelerators().size();
  for (std::size_t i = 0; i < count; ++i) {
    for (const LinkId id : topology.route(AcceleratorId(i), AcceleratorId((i + shift) % count)))
      ++loads[id.value()];
  }
  return loads;
}

TopologySpec torus_of_nics() {
  TopologySpec spec = nodes_of(24, 2);
  spec.nic = NicSpec{1, HostBus};
  spec.scale_out = TorusSpec{{3, 4}, {}, 2, Cable};
  return spec;
}

}  // namespace

TEST_CASE("every route is a path from source to target, without a detour where none is meant") {
  struct Row {
    std::string name;
    TopologySpec spec;
    bool shortest;  // false: rails move traffic inside the node first; nodes with scale-up on a torus offer
                    // short cuts
  };
  const std::vector<Row> rows = {
      {"scale-up switch", nodes_of(8, 8), true},
      {"scale-up full mesh", nodes_of(5, 5, ScaleUpSpec::Kind::FullMesh), true},
      {"one switch", fat_tree(32, 8, {}), true},
      {"two levels, parallel cables", fat_tree(128, 8, {}), true},
      {"two levels, last leaf part full", fat_tree(104, 8, {.oversubscription = {3}}), true},
      {"three levels", fat_tree(54, 1, {.radix = 6}), true},
      {"three levels, part full", fat_tree(40, 2, {.radix = 8}), true},
      {"four levels", fat_tree(32, 1, {.levels = 4, .radix = 4}), true},
      {"three levels, oversubscribed", fat_tree(96, 2, {.radix = 12, .oversubscription = {2, 3}}), true},
      {"shared NICs", fat_tree(64, 4, {.radix = 8, .nics = 2}), true},
      {"rails, one group", fat_tree(16, 4, {.levels = 2, .radix = 8, .rails = true}), false},
      {"rails, three groups, the last part full", fat_tree(40, 4, {.radix = 8, .rails = true}), false},
      {"rails, three levels", fat_tree(96, 2, {.radix = 8, .rails = true}), false},
      {"rails, shared NICs", fat_tree(64, 8, {.radix = 8, .rails = true, .nics = 4}), false},
      {"ring of 2", torus(2, {2}), true},
      {"ring of 5", torus(5, {5}), true},
      {"line of 5", torus(5, {5}, {false}), true},
      {"torus", torus(60, {3, 4, 5}), true},
      {"torus partly wrapped", torus(40, {4, 2, 5}, {false, true, true}), true},
      {"torus, four dimensions", torus(48, {2, 3, 2, 4}), true},
      {"torus of NICs", torus_of_nics(), true},
      {"ideal switch", all_to_all(9, Ideal), true},
      {"full mesh", all_to_all(9, Mesh), true},
      {"scale-up x full mesh of NICs", with_nics(all_to_all(16, Mesh, 4), 2), true},
      {"scale-up x ideal switch", all_to_all(16, Ideal, 4), true},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name.c_str()) {
      const Topology topology = build_topology(row.spec);
      const auto yardstick = graph_router(topology, GraphRouting::Shortest);
      for_each_pair(topology, [&](AcceleratorId source, AcceleratorId target) {
        CAPTURE(source.value());
        CAPTURE(target.value());
        const std::vector<LinkId> route = topology.route(source, target);
        const std::vector<VertexId> visited = walk(topology, source, route);
        REQUIRE(visited.back() == topology.accelerators()[target.value()]);
        REQUIRE(std::set<VertexId>(visited.begin(), visited.end()).size() == visited.size());
        if (!row.shortest) return;
        std::vector<LinkId> shortest;
        yardstick->route(source, target, shortest);
        REQUIRE(route.size() == shortest.size());
      });
    }
  }
}

TEST_CASE("routes are appended to what is there") {
  const Topology topology = build_topology(fat_tree(128, 8, {.rails = true}));
  std::vector<LinkId> links = topology.route(AcceleratorId(0), AcceleratorId(127));
  const std::vector<LinkId> first = links;
  topology.router().route(AcceleratorId(5), AcceleratorId(70), links);
  const std::vector<LinkId> second = topology.route(AcceleratorId(5), AcceleratorId(70));
  REQUIRE(links.size() == first.size() + second.size());
  CHECK(std::equal(first.begin(), first.end(), links.begin()));
  CHECK(std::equal(second.begin(), second.end(), links.begin() + static_cast<std::ptrdiff_t>(first.size())));
  topology.router().route(AcceleratorId(5), AcceleratorId(5), links);
  CHECK(links.size() == first.size() + second.size());
}

TEST_CASE("D-mod-k gives every flow of a shift its own links in a full non-blocking tree") {
  struct Row {
    std::string name;
    int accelerators;
    TreeOptions options;
  };
  const std::vector<Row> rows = {
      {"two levels, radix 8", 32, {.levels = 2, .radix = 8}},
      {"two levels, parallel cables", 16, {.levels = 2, .radix = 8}},
      {"two levels, 16 parallel cables", 128, {.levels = 2}},
      {"three levels, radix 4", 16, {.levels = 3, .radix = 4}},
      {"three levels, radix 8", 128, {.levels = 3, .radix = 8}},
      {"three levels, parallel cables", 64, {.levels = 3, .radix = 8}},
      {"four levels, radix 4", 32, {.levels = 4, .radix = 4}},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name.c_str()) {
      const Topology topology = build_topology(fat_tree(row.accelerators, 1, row.options));
      for (std::size_t shift = 1; shift < topology.accelerators().size(); ++shift) {
        CAPTURE(shift);
        for (const auto& [link, load] : shift_loads(topology, shift)) {
          CAPTURE(topology.link_name(LinkId(link)));
          REQUIRE(load == 1);
        }
      }
    }
  }
}

TEST_CASE("in a 4:1 tree the flows of a shift out of a leaf share its cables evenly") {
  // 4 leaves of 32 NICs and 8 cables up; shifted by a leaf, all 32 leave: 4 on each cable.
  const Topology topology = build_topology(fat_tree(128, 1, {.radix = 40, .oversubscription = {4}}));
  int cables_up = 0;
  for (const auto& [link, load] : shift_loads(topology, 32)) {
    if (topology.vertex(topology.link(LinkId(link)).from).level != 1) continue;
    if (topology.vertex(topology.link(LinkId(link)).to).level != 2) continue;
    ++cables_up;
    CHECK(load == 4);
  }
  CHECK(cables_up == 4 * 8);
}

TEST_CASE("every target is reached from the spines by one path only") {
  const Topology topology = build_topology(fat_tree(128, 1, {.levels = 3, .radix = 8}));
  std::map<std::uint32_t, std::set<std::uint32_t>> links_into_leaf_for;  // by target
  for_each_pair(topology, [&](AcceleratorId source, AcceleratorId target) {
    for (const LinkId id : topology.route(source, target)) {
      const Link& link = topology.link(id);
      if (topology.vertex(link.from).level == 2 && topology.vertex(link.to).level == 1) {
        links_into_leaf_for[target.value()].insert(id.value());
      }
    }
  });
  REQUIRE(links_into_leaf_for.size() == 128);
  for (const auto& [target, links] : links_into_leaf_for) CHECK(links.size() == 1);
}

TEST_CASE("on rails, traffic leaves its node on the target's rail and uses no other") {
  const int nics = 4;
  const Topology topology = build_topology(fat_tree(80, 8, {.radix = 8, .rails = true, .nics = nics}));
  const auto rail_of = [&](std::size_t accelerator) { return accelerator % 8 * nics / 8; };
  for_each_pair(topology, [&](AcceleratorId source, AcceleratorId target) {
    if (topology.node_of(source) == topology.node_of(target)) return;
    const std::string rail = "nic" + std::to_string(rail_of(target.value()));
    int nics_passed = 0;
    const std::vector<LinkId> route = topology.route(source, target);
    for (const VertexId id : walk(topology, source, route)) {
      const Vertex& vertex = topology.vertex(id);
      if (vertex.kind != VertexKind::Nic) continue;
      ++nics_passed;
      CHECK(vertex.name.ends_with(rail));
    }
    CHECK(nics_passed == 2);
    const bool moved = topology.link(route.front()).kind == LinkKind::ScaleUp;
    CHECK(moved == (rail_of(source.value()) != rail_of(target.value())));
  });
}

TEST_CASE(
    "on rails, NICs of equal index of nearby nodes are one leaf apart, those of other nodes three switches") {
  // Radix 8: 4 nodes a leaf. accelerator - NIC - leaf - NIC - accelerator, or leaf - spine - leaf.
  const Topology topology = build_topology(fat_tree(32, 4, {.radix = 8, .rails = true}));
  CHECK(topology.route(AcceleratorId(1), AcceleratorId(3 * 4 + 1)).size() == 4);
  CHECK(topology.route(AcceleratorId(1), AcceleratorId(4 * 4 + 1)).size() == 6);
  CHECK(topology.route(AcceleratorId(1), AcceleratorId(3 * 4 + 2)).size() ==
        2 + 4);  // moved first, over the switch
}

TEST_CASE("rails without scale-up go through the spines") {
  TopologySpec spec = fat_tree(32, 4, {.radix = 8, .rails = true});
  spec.scale_up.reset();
  const Topology topology = build_topology(spec);
  CHECK(topology.route(AcceleratorId(0), AcceleratorId(4)).size() == 4);
  CHECK(topology.route(AcceleratorId(0), AcceleratorId(5)).size() == 6);
}

TEST_CASE("a torus is walked in the order of its dimensions") {
  const Topology topology = build_topology(torus(60, {3, 4, 5}));
  for_each_pair(topology, [&](AcceleratorId source, AcceleratorId target) {
    int dimension_before = 0;
    for (const LinkId id : topology.route(source, target)) {
      const auto from = topology.link(id).from.value(), to = topology.link(id).to.value();
      const int dimension = from / 12 != to / 12 ? 2 : from / 3 != to / 3 ? 1 : 0;
      CHECK(dimension >= dimension_before);
      dimension_before = dimension;
    }
  });
}

TEST_CASE("on a torus, targets halfway round are reached both ways, so that each direction carries half") {
  // A ring of 4, each to its opposite: even coordinates go up over two links, odd ones down: 8 hops on 8
  // links.
  const Topology ring = build_topology(torus(4, {4}));
  const Loads loads = shift_loads(ring, 2);
  CHECK(loads.size() == 8);
  for (const auto& [link, load] : loads) CHECK(load == 1);
  CHECK(ring.link_name(ring.route(AcceleratorId(0), AcceleratorId(2))[0]) == "node0.gpu0 → node1.gpu0");
  CHECK(ring.link_name(ring.route(AcceleratorId(1), AcceleratorId(3))[0]) == "node1.gpu0 → node0.gpu0");
  // 4 x 4 x 4, each to the opposite in all three dimensions: 64·6 hops on 6·64 links
  const Topology cube = build_topology(torus(64, {4, 4, 4}));
  Loads cube_loads;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::size_t opposite = (i + 2) % 4 + (i / 4 + 2) % 4 * 4 + (i / 16 + 2) % 4 * 16;
    for (const LinkId id : cube.route(AcceleratorId(i), AcceleratorId(opposite))) ++cube_loads[id.value()];
  }
  CHECK(cube_loads.size() == 6 * 64);
  for (const auto& [link, load] : cube_loads) CHECK(load == 1);
}

TEST_CASE("the shortest-path router always takes the same path, and none where there is none") {
  const Topology topology = build_topology(fat_tree(128, 8, {}));
  const auto one = graph_router(topology, GraphRouting::Shortest),
             other = graph_router(topology, GraphRouting::Shortest);
  std::vector<LinkId> first, second;
  one->route(AcceleratorId(3), AcceleratorId(100), first);
  other->route(AcceleratorId(3), AcceleratorId(100), second);
  CHECK(first == second);
  CHECK(first.size() == 6);

  Topology apart("apart", {});
  for (int i = 0; i < 2; ++i) apart.add_vertex(VertexKind::Accelerator, "gpu");
  std::vector<LinkId> nothing;
  graph_router(apart, GraphRouting::Shortest)->route(AcceleratorId(0), AcceleratorId(1), nothing);
  CHECK(nothing.empty());
}

}  // namespace syncline
