// Topologies in the formats of others, and back.
#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "sim/topology/export.hpp"
#include "sim/topology/measures.hpp"
#include "tests/topology/specs.hpp"

namespace syncline {
namespace {

std::string graphml(const Topology& topology) {
  std::ostringstream out;
  write_graphml(out, topology);
  return out.str();
}

TopologySpec graph_spec(GraphSpec graph) {
  TopologySpec spec;
  spec.name = "test";
  spec.graph = std::move(graph);
  return spec;
}

/// Two accelerators behind a switch, by which the cases below differ.
std::string small(const std::string& edge) {
  return R"(<graphml><key id="k" for="node" attr.name="kind"/><key id="b" for="edge" attr.name="bandwidth"/>
<key id="l" for="edge" attr.name="latency"/><graph edgedefault="undirected">
<node id="a"><data key="k">accelerator</data></node>
<node id="b"><data key="k">accelerator</data></node>
<node id="s"><data key="k">switch</data></node>
<edge source="a" target="s"><data key="b">10GBps</data><data key="l">1us</data></edge>
)" + edge + "</graph></graphml>";
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(build_topology(graph_spec(read_graphml(text))));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("GraphML holds all of a topology: read back it measures the same, and is written the same") {
  TopologySpec slow = fat_tree(32, 4, {.radix = 8, .nics = 2});
  slow.scale_up->link.efficiency = 0.8;
  for (const TopologySpec& spec : {slow, fat_tree(128, 8, {.rails = true}), torus(24, {2, 3, 4}), all_to_all(6, Mesh),
                                   nodes_of(4, 4)}) {
    const Topology topology = build_topology(spec);
    const std::string text = graphml(topology);
    TopologySpec again = graph_spec(read_graphml(text));
    again.name = spec.name;
    const Topology back = build_topology(again);
    const Measures a = measure(topology), b = measure(back);
    CHECK(a.accelerators == b.accelerators);
    CHECK(a.nodes == b.nodes);
    CHECK(a.nics == b.nics);
    CHECK(a.switches == b.switches);
    CHECK(a.cables == b.cables);
    CHECK(a.diameter == b.diameter);
    CHECK(a.largest_latency.si() == doctest::Approx(b.largest_latency.si()));
    CHECK(a.injection.si() == doctest::Approx(b.injection.si()));
    CHECK(back.links().size() == topology.links().size());
  }
}

TEST_CASE("routing of a graph: the first of equal paths, one by hash, or all") {
  GraphSpec graph = read_graphml(graphml(build_topology(fat_tree(32, 1, {.radix = 8}))));  // 4 spines
  for (const auto& [routing, paths] : {std::pair{GraphRouting::Shortest, 1}, {GraphRouting::Ecmp, 1}, {GraphRouting::Spray, 4}}) {
    graph.routing = routing;
    const Topology topology = build_topology(graph_spec(graph));
    std::vector<LinkUse> uses;
    topology.router().load(AcceleratorId(0), AcceleratorId(31), uses);
    CHECK(uses.size() == static_cast<std::size_t>(4 + 2 * paths));  // bus and cable at both ends, up and down between
  }
}

TEST_CASE("what is wrong with a graph is said with its line or its name") {
  CHECK(refusal(small("<edge source=\"b\" target=\"s\"><data key=\"b\">10GBps</data><data key=\"l\">1us</data></edge>")).empty());
  CHECK(refusal(small("")) == "some accelerators of the graph cannot reach each other");
  CHECK(refusal(small("<edge source=\"b\" target=\"z\"><data key=\"b\">1GBps</data><data key=\"l\">0</data></edge>"))
            .find("ends at \"z\", which is no vertex") != std::string::npos);
  CHECK(refusal(small("<edge source=\"b\" target=\"b\"><data key=\"b\">1GBps</data><data key=\"l\">0</data></edge>"))
            .find("joins a vertex with itself") != std::string::npos);
  CHECK(refusal(small("<edge source=\"b\" target=\"s\"><data key=\"b\">0GBps</data><data key=\"l\">0</data></edge>"))
            .find("has no bandwidth") != std::string::npos);
  CHECK(refusal(small("<edge source=\"b\" target=\"s\"><data key=\"b\">10</data><data key=\"l\">0</data></edge>"))
            .find("line 7: edge from \"b\" to \"s\": \"10\" lacks a unit") != std::string::npos);
  CHECK(refusal("<graphml><graph>").find("line 1: not valid XML") != std::string::npos);
  CHECK(refusal("<svg/>").find("holds no <graphml>") != std::string::npos);
  CHECK(refusal("<graphml><graph><node id=\"a\"/></graph></graphml>").find("has no data \"kind\"") != std::string::npos);
}

TEST_CASE("Graphviz gets a line a bundle of cables") {
  std::ostringstream out;
  write_dot(out, build_topology(fat_tree(16, 8, {.levels = 2, .radix = 16})));  // 2 leaves, 8 up, to one spine
  const std::string text = out.str();
  CHECK(text.find("\"leaf0\" -- \"spine0\" [color=\"#1f5fa8\", label=\"8 x 10 GB/s\"];") != std::string::npos);
  CHECK(text.find("rank=same; \"leaf0\"; \"leaf1\";") != std::string::npos);
  CHECK(text.ends_with("}\n"));
}

TEST_CASE("a SimGrid platform is refused where it would be of no use") {
  std::ostringstream out;
  TopologySpec sprayed = fat_tree(32, 1, {.radix = 8});
  std::get<FatTreeSpec>(sprayed.scale_out).routing = FatTreeRouting::Spray;
  CHECK_THROWS_WITH(write_simgrid_platform(out, build_topology(sprayed)), doctest::Contains("try routing"));
  CHECK_THROWS_WITH(write_simgrid_platform(out, build_topology(torus(1000, {10, 10, 10}))),
                    doctest::Contains("try fewer accelerators"));
}

}  // namespace syncline
