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
  // Of 32 x 31 pairs of the tree 32 x 28 go through one of 4 spines: by their first cable 1/4 go where
  // D-mod-k sends them, to targets on ports 0, 4, 8...
  const std::string shortest =
      " % of the pairs of accelerators (there: a path of fewest links, the first of equal ones)";
  const std::vector<Row> rows = {
      {"sprayed", tree(FatTreeRouting::Spray), GraphRouting::Spray, ""},
      {"D-mod-k", tree(FatTreeRouting::DModK), GraphRouting::Shortest, "the routes of 68" + shortest},
      {"one switch", fat_tree(8, 1, {}), GraphRouting::Shortest, ""},
      {"ideal switch", with_figures(all_to_all(8, Ideal)), GraphRouting::Shortest,
       "the figures of collectives"},
      {"full mesh", all_to_all(8, Mesh), GraphRouting::Shortest, ""},
      {"ring of 5, one way round each", torus(5, {5}), GraphRouting::Shortest,
       "the dimensions along which collectives go on a torus"},
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
  CHECK(lost_in_platform(build_topology(tree(FatTreeRouting::DModK))).empty());
  CHECK(lost_in_platform(build_topology(with_figures(tree(FatTreeRouting::DModK)))) ==
        std::vector<std::string>{"the figures of collectives"});
}

}  // namespace syncline
