// What a transfer loads, on every fabric; and the fabrics that have choices of path, twists, groups and trees of PCIe.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "sim/topology/graph_router.hpp"
#include "sim/topology/measures.hpp"
#include "tests/topology/specs.hpp"

namespace syncline {
namespace {

using Loads = std::map<std::uint32_t, double>;  // by link

std::vector<LinkUse> load(const Topology& topology, std::size_t source, std::size_t target) {
  std::vector<LinkUse> uses;
  topology.router().load(AcceleratorId(source), AcceleratorId(target), uses);
  return uses;
}

void add(Loads& loads, const Topology& topology, std::size_t source, std::size_t target) {
  for (const LinkUse& use : load(topology, source, target)) loads[use.link.value()] += use.coefficient;
}

double fullest(const Loads& loads) {
  double most = 0;
  for (const auto& [link, sum] : loads) most = std::max(most, sum);
  return most;
}

Loads shift_loads(const Topology& topology, std::size_t shift) {
  Loads loads;
  const std::size_t n = topology.accelerators().size();
  for (std::size_t i = 0; i < n; ++i) add(loads, topology, i, (i + shift) % n);
  return loads;
}

TopologySpec tree(int accelerators, int per_node, FatTreeRouting routing, std::uint64_t seed = 0,
                  int radix = 8, std::vector<double> oversubscription = {}) {
  TopologySpec spec =
      fat_tree(accelerators, per_node, {.radix = radix, .oversubscription = std::move(oversubscription)});
  auto& fabric = std::get<FatTreeSpec>(spec.scale_out);
  fabric.routing = routing;
  fabric.seed = seed;
  return spec;
}

TopologySpec rail_only(int accelerators, int per_node) {
  TopologySpec spec = fat_tree(accelerators, per_node, {.radix = 8});
  std::get<FatTreeSpec>(spec.scale_out).rail_only = true;
  return spec;
}

TopologySpec twisted(std::vector<int> shape, std::vector<TwistSpec> twist) {
  int count = 1;
  for (const int size : shape) count *= size;
  TopologySpec spec = torus(count, std::move(shape));
  std::get<TorusSpec>(spec.scale_out).twist = std::move(twist);
  return spec;
}

struct Sizes {
  int groups, routers, spines, endpoints, global;
  DragonflyRouting routing = DragonflyRouting::Minimal;
};

TopologySpec dragonfly(int accelerators, const Sizes& sizes) {
  TopologySpec spec = nodes_of(accelerators, 1);
  DragonflySpec fabric;
  fabric.groups = sizes.groups;
  fabric.routers = sizes.routers;
  fabric.spines = sizes.spines;
  fabric.endpoints = sizes.endpoints;
  fabric.global = sizes.global;
  fabric.routing = sizes.routing;
  fabric.link = Cable;
  spec.scale_out = fabric;
  return spec;
}

TopologySpec pcie(int accelerators, int sockets, int switches) {
  TopologySpec spec = nodes_of(accelerators, accelerators, ScaleUpSpec::Kind::Pcie);
  spec.scale_up->pcie = {sockets, switches, Cable, HostBus};
  return spec;
}

}  // namespace

TEST_CASE("what leaves the source arrives at the target, whatever the paths; no link is named twice") {
  struct Row {
    std::string name;
    TopologySpec spec;
  };
  const std::vector<Row> rows = {
      {"ECMP, two levels", tree(32, 1, FatTreeRouting::Ecmp)},
      {"ECMP, three levels", tree(128, 2, FatTreeRouting::Ecmp, 7)},
      {"spraying, two levels", tree(32, 1, FatTreeRouting::Spray)},
      {"spraying, three levels, part full", tree(100, 2, FatTreeRouting::Spray)},
      {"spraying, 3:1", tree(48, 2, FatTreeRouting::Spray, 0, 8, {3})},
      {"rail-only", rail_only(64, 4)},
      {"twisted 4 × 4 × 8", twisted({4, 4, 8}, {{0, 2, 4}, {1, 2, 4}})},
      {"twisted 4 × 8", twisted({4, 8}, {{0, 1, 4}})},
      {"twisted by 1", twisted({5, 3}, {{0, 1, 1}})},
      {"dragonfly", dragonfly(72, {9, 4, 0, 2, 2})},
      {"dragonfly, several cables", dragonfly(24, {3, 4, 0, 2, 2})},
      {"dragonfly, Valiant", dragonfly(72, {9, 4, 0, 2, 2, DragonflyRouting::Valiant})},
      {"dragonfly+", dragonfly(80, {5, 4, 4, 4, 1})},
      {"dragonfly+, Valiant", dragonfly(80, {5, 4, 4, 4, 1, DragonflyRouting::Valiant})},
      {"PCIe, no switches", pcie(8, 2, 0)},
      {"PCIe, four switches", pcie(8, 2, 4)},
      {"PCIe, one socket", pcie(4, 1, 2)},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name.c_str()) {
      const Topology topology = build_topology(row.spec);
      CHECK(is_connected(topology));
      const std::size_t n = topology.accelerators().size();
      for (std::size_t source = 0; source < n; ++source)
        for (std::size_t target = 0; target < n; ++target) {
          CAPTURE(source);
          CAPTURE(target);
          std::map<std::uint32_t, double> left;  // out minus in, by vertex
          std::set<std::uint32_t> seen;
          for (const LinkUse& use : load(topology, source, target)) {
            REQUIRE(seen.insert(use.link.value()).second);
            left[topology.link(use.link).from.value()] += use.coefficient;
            left[topology.link(use.link).to.value()] -= use.coefficient;
          }
          if (source != target) {
            left[topology.accelerators()[source].value()] -= 1;
            left[topology.accelerators()[target].value()] += 1;
          }
          for (const auto& [vertex, sum] : left) REQUIRE(std::abs(sum) < 1e-12);
          // The one path that stands for all is one that the load has.
          for (const LinkId link : topology.route(AcceleratorId(source), AcceleratorId(target)))
            REQUIRE(seen.count(link.value()) == 1);
        }
    }
  }
}

TEST_CASE("spraying makes every permutation of a non-blocking tree free of contention") {
  for (const int accelerators : {32, 128}) {
    const Topology topology = build_topology(tree(accelerators, 1, FatTreeRouting::Spray));
    for (const std::size_t shift : {1, 5, 16, 27})
      CHECK(fullest(shift_loads(topology, shift)) == doctest::Approx(1));
    Loads reversed;  // bit reversal, the worst case of static routes
    const std::size_t n = topology.accelerators().size();
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t to = 0;
      for (std::size_t bit = 1, mirror = n / 2; bit < n; bit *= 2, mirror /= 2) to += (i & bit) ? mirror : 0;
      if (to != i) add(reversed, topology, i, to);
    }
    CHECK(fullest(reversed) == doctest::Approx(1));
  }
}

TEST_CASE("flows of ECMP collide, by the seed; the mean load is that of spraying") {
  const Topology spray = build_topology(tree(128, 1, FatTreeRouting::Spray));
  std::set<double> worst;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Topology ecmp = build_topology(tree(128, 1, FatTreeRouting::Ecmp, seed));
    const Loads loads = shift_loads(ecmp, 64);
    CHECK(fullest(loads) >=
          2);  // 16 flows of a leaf on 16 ports without one collision: 16!/16^16, one in a million
    worst.insert(fullest(loads));
    double sum = 0, even = 0;
    for (const auto& [link, load] : loads) sum += load;
    for (const auto& [link, load] : shift_loads(spray, 64)) even += load;
    CHECK(sum == doctest::Approx(even));
  }
  const Topology one = build_topology(tree(128, 1, FatTreeRouting::Ecmp, 1));
  const Topology same = build_topology(tree(128, 1, FatTreeRouting::Ecmp, 1));
  const Topology other = build_topology(tree(128, 1, FatTreeRouting::Ecmp, 2));
  CHECK(shift_loads(one, 64) == shift_loads(same, 64));
  CHECK(shift_loads(one, 64) != shift_loads(other, 64));
}

TEST_CASE("rails that nothing joins: traffic between them moves inside the node first") {
  const Topology topology = build_topology(rail_only(64, 4));
  for (const LinkId link :
       topology.route(AcceleratorId(0), AcceleratorId(62))) {  // rail 0 to rail 2 of node 15
    const Vertex& from = topology.vertex(topology.link(link).from);
    if (from.kind == VertexKind::Switch && from.level > 0) CHECK(from.name.substr(0, 6) == "rail2.");
  }
  TopologySpec apart = rail_only(64, 4);
  apart.scale_up.reset();
  CHECK_THROWS_WITH(static_cast<void>(build_topology(apart)), doctest::Contains("add scale-up"));
}

TEST_CASE(
    "a twisted torus has shortest routes, and carries an all-to-all better than the plain one of its shape") {
  // Cámara et al. 2010: k × k × 2k twisted by k along the long dimension is vertex- and edge-symmetric.
  const std::vector<TwistSpec> twist{{0, 2, 4}, {1, 2, 4}};
  const Topology plain = build_topology(torus(128, {4, 4, 8}));
  const Topology turned = build_topology(twisted({4, 4, 8}, twist));
  const auto shortest = graph_router(turned, GraphRouting::Shortest);
  Loads of_plain, of_turned;
  for (std::size_t i = 0; i < 128; ++i)
    for (std::size_t j = 0; j < 128; ++j) {
      add(of_plain, plain, i, j);
      add(of_turned, turned, i, j);
      std::vector<LinkId> best;
      shortest->route(AcceleratorId(i), AcceleratorId(j), best);
      REQUIRE(turned.route(AcceleratorId(i), AcceleratorId(j)).size() == best.size());
    }
  // Plain, along the dimension of 8: 128 × 127 pairs go 2 of its links on average, 128 × 128 × 2 over 256 links: 128.
  CHECK(fullest(of_plain) == doctest::Approx(128));
  const double gain = fullest(of_plain) / fullest(of_turned);
  CHECK(gain > 1.2);
  CHECK(gain < 1.7);  // 1.63 published for TPU v4 (Jouppi et al., ISCA 2023)
}

TEST_CASE("minimal routes of a dragonfly cross one cable between groups, Valiant's two") {
  const Topology minimal = build_topology(dragonfly(72, {9, 4, 0, 2, 2}));
  const Topology valiant = build_topology(dragonfly(72, {9, 4, 0, 2, 2, DragonflyRouting::Valiant}));
  const auto between = [](const Topology& topology, std::size_t from, std::size_t to) {
    int count = 0;
    for (const LinkId link : topology.route(AcceleratorId(from), AcceleratorId(to))) {
      const std::string a = topology.vertex(topology.link(link).from).name,
                        b = topology.vertex(topology.link(link).to).name;
      if (a.substr(0, 5) == "group" && b.substr(0, 5) == "group") count += a.substr(0, 6) != b.substr(0, 6);
    }
    return count;
  };
  for (std::size_t to = 8; to < 72; ++to) {
    CHECK(between(minimal, 0, to) == 1);
    CHECK(between(valiant, 0, to) == 2);
  }
  CHECK(between(minimal, 0, 7) == 0);
  CHECK(measure(minimal).diameter == 5);  // endpoint, local, global, local, endpoint
  // All of one group to the next: minimal has them all on the one cable, Valiant spreads them over the others.
  Loads one, spread;
  for (std::size_t i = 0; i < 8; ++i) {
    add(one, minimal, i, 8 + i);
    add(spread, valiant, i, 8 + i);
  }
  CHECK(fullest(one) == doctest::Approx(8));
  CHECK(fullest(spread) <= 4);
}

TEST_CASE("what a dragonfly or a twist cannot be is said with what would do") {
  const auto message = [](const TopologySpec& spec) {
    try {
      static_cast<void>(build_topology(spec));
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message(dragonfly(80, {9, 4, 0, 2, 2})).find("try groups: 10") != std::string::npos);
  CHECK(message(dragonfly(72, {9, 4, 0, 2, 1})).find("larger scale-out.global") != std::string::npos);
  CHECK(message(dragonfly(16, {2, 4, 0, 2, 1, DragonflyRouting::Valiant}))
            .find("a third group, and there are 2 for 16 endpoints") != std::string::npos);
  CHECK(
      message(dragonfly(8, {1, 4, 0, 2, 1, DragonflyRouting::Valiant})).empty());  // nothing leaves the group
  CHECK(message(twisted({4, 8}, {{0, 0, 2}})).find("one dimension along another") != std::string::npos);
  CHECK(message(twisted({2, 8}, {{0, 1, 2}})).find("of size 3 or more") != std::string::npos);
  CHECK(message(twisted({4, 8}, {{0, 1, 8}})).find("as long as its dimension") != std::string::npos);
  CHECK(message(pcie(8, 2, 3)).find("multiple of sockets") != std::string::npos);
  CHECK(message(pcie(6, 2, 4)).find("cannot be shared equally") != std::string::npos);
}

TEST_CASE("PCIe: below one switch two links, through the sockets what their latencies add up to") {
  const Topology topology = build_topology(pcie(8, 2, 4));  // links 1 us, uplinks 4 us, between sockets 2 us
  CHECK(topology.latency(topology.route(AcceleratorId(0), AcceleratorId(1))).si() == doctest::Approx(2e-6));
  CHECK(topology.latency(topology.route(AcceleratorId(0), AcceleratorId(2))).si() == doctest::Approx(10e-6));
  CHECK(topology.latency(topology.route(AcceleratorId(0), AcceleratorId(7))).si() == doctest::Approx(12e-6));
  const Topology plain = build_topology(pcie(8, 2, 0));
  CHECK(plain.latency(plain.route(AcceleratorId(0), AcceleratorId(7))).si() == doctest::Approx(4e-6));
}

}  // namespace syncline
