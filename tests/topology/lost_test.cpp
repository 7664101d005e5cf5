// What a file of another format does not hold of a topology is said.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "sim/topology/export.hpp"
#include "tests/topology/specs.hpp"

namespace syncline {
namespace {

TopologySpec tree(FatTreeRouting routing, bool rails = false) {
  TopologySpec spec = fat_tree(32, rails ? 4 : 1, {.radix = 8, .rails = rails});
  std::get<FatTreeSpec>(spec.scale_out).routing = routing;
  std::get<FatTreeSpec>(spec.scale_out).seed = 5;
  return spec;
}

TopologySpec with_figures(TopologySpec spec) {
  spec.collectives = CollectiveFigures{};
  return spec;
}

}  // namespace

TEST_CASE("GraphML: the routing that comes nearest, and what is still not the same") {
  struct Row {
    std::string name;
    TopologySpec spec;
    GraphRouting routing;
    std::string lost;
  };
  const std::vector<Row> rows = {
      {"sprayed", tree(FatTreeRouting::Spray), GraphRouting::Spray, ""},
      {"rails of one leaf each: to another rail through the node first",
       fat_tree(16, 4, {.levels = 2, .radix = 8, .rails = true}), GraphRouting::Shortest, ""},
      {"one switch", fat_tree(8, 1, {}), GraphRouting::Ecmp, ""},
      {"ideal switch", with_figures(all_to_all(8, Ideal)), GraphRouting::Shortest,
       "the figures of collectives"},
      {"full mesh", all_to_all(8, Mesh), GraphRouting::Shortest, ""},
      {"ring of 5, one way round each", torus(5, {5}), GraphRouting::Shortest,
       "the dimensions along which collectives go on a torus"},
      // Opposite pairs: even sources go up, odd ones down. By the first link 0 goes up, 1, 2 and 3 down: 1 of 12 differs.
      {"ring of 4", torus(4, {4}), GraphRouting::Shortest,
       "the dimensions along which collectives go on a torus; the routes of 9 % of the pairs of accelerators "
       "(there: a "
       "path of fewest links, the first of equal ones)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const GraphRoutes routes = nearest_routes(row.spec);
    CHECK(routes.routing == row.routing);
    CHECK(fmt::format("{}", fmt::join(lost_in_graphml(build_topology(row.spec), routes), "; ")) == row.lost);
  }
}

TEST_CASE(
    "GraphML: ECMP keeps its seed, but its hash is another; traffic that changes rails goes another way") {
  const GraphRoutes routes = nearest_routes(tree(FatTreeRouting::Ecmp));
  CHECK(routes.routing == GraphRouting::Ecmp);
  CHECK(routes.seed == 5);
  for (const TopologySpec& spec : {tree(FatTreeRouting::Ecmp), tree(FatTreeRouting::Spray, true)}) {
    const std::vector<std::string> lost = lost_in_graphml(build_topology(spec), nearest_routes(spec));
    REQUIRE(lost.size() == 1);
    CHECK(lost.front().starts_with("the routes of "));
  }
}

TEST_CASE("a SimGrid platform holds all routes, but no figures of collectives") {
  CHECK(lost_in_platform(build_topology(fat_tree(8, 1, {}))).empty());
  CHECK(lost_in_platform(build_topology(with_figures(fat_tree(8, 1, {})))) ==
        std::vector<std::string>{"the figures of collectives"});
  // SimGrid has all routes; here they are decided anew, and only those of fewest links are read.
  const std::vector<std::string> hashed = lost_in_platform(build_topology(tree(FatTreeRouting::Ecmp)));
  REQUIRE(hashed.size() == 1);
  CHECK(hashed[0].find("for who reads it back here") != std::string::npos);
  TopologySpec groups;
  groups.name = "dragonfly";
  groups.accelerators = 72;
  DragonflySpec dragonfly;
  dragonfly.routers = 4;
  dragonfly.endpoints = dragonfly.global = 2;
  dragonfly.link = {BytesPerSecond(1e9), 1.0, Seconds(1e-6)};
  groups.scale_out = dragonfly;
  const std::vector<std::string> detours = lost_in_platform(build_topology(groups));
  REQUIRE(detours.size() == 1);
  CHECK(detours[0].find("cannot be read back here") != std::string::npos);
}

}  // namespace syncline
