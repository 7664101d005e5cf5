// Topologies in the formats of others, and back.
#include "sim/topology/export.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "sim/topology/measures.hpp"
#include "tests/topology/same_parts.hpp"
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
)" + edge +
         "</graph></graphml>";
}

std::string refusal(const std::string& text, GraphSpec (*read)(const std::string&) = read_graphml) {
  try {
    static_cast<void>(build_topology(graph_spec(read(text))));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

std::string platform(const std::string& zone) {
  return "<?xml version='1.0'?>\n<platform version=\"4.1\"><zone id=\"z\" routing=\"Full\">\n" + zone +
         "</zone></platform>";
}
std::string routed(const std::string& policy, const std::string& rest) {
  return platform(
      "<host id=\"a\" speed=\"1Gf\"/><host id=\"b\" speed=\"1Gf\"/><host id=\"c\" speed=\"1Gf\"/>\n<link "
      "id=\"k\" "
      "bandwidth=\"1GBps\" latency=\"2us\" sharing_policy=\"" +
      policy +
      "\"/>\n<link id=\"l\" bandwidth=\"2GBps\" "
      "latency=\"3us\" sharing_policy=\"" +
      policy + "\"/>\n" + rest);
}

}  // namespace

TEST_CASE("GraphML holds all of a topology: read back it measures the same, and is written the same") {
  TopologySpec slow = fat_tree(32, 4, {.radix = 8, .nics = 2});
  slow.scale_up->link.efficiency = 0.8;
  for (const TopologySpec& spec :
       {slow, fat_tree(128, 8, {.rails = true}), torus(24, {2, 3, 4}), all_to_all(6, Mesh), nodes_of(4, 4)}) {
    const Topology topology = build_topology(spec);
    const std::string text = graphml(topology);
    TopologySpec again = graph_spec(read_graphml(text));
    again.name = spec.name;
    const Topology back = build_topology(again);
    const Measures a = measure(topology), b = measure(back);
    check_same_parts(a, b);
    CHECK(a.largest_latency.si() == doctest::Approx(b.largest_latency.si()));
    CHECK(a.injection.si() == doctest::Approx(b.injection.si()));
    CHECK(back.links().size() == topology.links().size());
  }
}

TEST_CASE("routing of a graph: the first of equal paths, one by hash, or all") {
  GraphSpec graph = read_graphml(graphml(build_topology(fat_tree(32, 1, {.radix = 8}))));  // 4 spines
  for (const auto& [routing, paths] :
       {std::pair{GraphRouting::Shortest, 1}, {GraphRouting::Ecmp, 1}, {GraphRouting::Spray, 4}}) {
    graph.routing = routing;
    const Topology topology = build_topology(graph_spec(graph));
    std::vector<LinkUse> uses;
    topology.router().load(AcceleratorId(0), AcceleratorId(31), uses);
    CHECK(uses.size() ==
          static_cast<std::size_t>(4 + 2 * paths));  // bus and cable at both ends, up and down between
  }
}

TEST_CASE("what is wrong with a graph is said with its line or its name") {
  CHECK(refusal(small("<edge source=\"b\" target=\"s\"><data key=\"b\">10GBps</data><data "
                      "key=\"l\">1us</data></edge>"))
            .empty());
  CHECK(refusal(small("")) == "\"a\" cannot reach \"b\": no edges lead there");
  CHECK(
      refusal(
          small(
              "<edge source=\"b\" target=\"b\"><data key=\"b\">1GBps</data><data key=\"l\">0</data></edge>"))
          .find("joins a vertex with itself") != std::string::npos);
  struct Row {
    std::string file, message;
  };
  const auto cable = [](const std::string& bandwidth) {
    return small("<edge source=\"b\" target=\"s\"><data key=\"b\">" + bandwidth +
                 "</data><data key=\"l\">0</data></edge>");
  };
  const std::vector<Row> rows = {
      {cable("0GBps"), "line 7: edge from \"b\" to \"s\": a bandwidth of 0"},
      {cable("10"), "line 7: edge from \"b\" to \"s\": \"10\" lacks a unit"},
      {cable(""), "line 7: edge from \"b\" to \"s\": it has no data \"bandwidth\""},
      {small("<edge source=\"b\" target=\"z\"/>"),
       "line 7: edge from \"b\" to \"z\" ends at \"z\", which is no node"},
      {small("<edge source=\"b\" target=\"s\"><data key=\"x\">1</data></edge>"),
       "line 7: data of \"x\", which no <key> declares"},
      {small("<node id=\"a\"><data key=\"k\">switch</data></node>"), "line 7: a second node \"a\""},
      {small("<node id=\"c\"><data key=\"k\">swich</data></node>"),
       "line 7: node \"c\": unknown kind \"swich\"; did you mean \"switch\"?"},
      {small("<node id=\"c\"><data key=\"k\">switch</data><graph/></node>"),
       "line 7: node \"c\" holds a graph"},
      {small("<hyperedge/>"), "line 7: a <hyperedge> has no counterpart"},
      {"<graphml><graph>", "line 1: not valid XML"},
      {"<svg/>", "line 1: expected a <graphml>"},
      {"<graphml/>", "line 1: a <graphml> without a <graph>"},
      {"<graphml>\n<graph edgedefault=\"directed\"/>\n<graph/></graphml>", "line 3: a second <graph>"},
      {"<graphml>\n<graph edgedefault=\"both\"/></graphml>",
       "line 2: edgedefault should be undirected (an edge is a cable)"},
      {"<graphml>\n<graph/></graphml>", "directed (a link one way), not \"\""},
      {"<graphml><graph><node id=\"a\"/></graph></graphml>", "node \"a\" has no data \"kind\""},
      {"<graphml><graph><node/></graph></graphml>", "a <node> without an id"},
      {"<graphml><key id=\"r\" for=\"graph\" attr.name=\"routing\"/><graph><data "
       "key=\"r\">emcp</data></graph></graphml>",
       "unknown routing \"emcp\"; did you mean \"ecmp\"?"},
      {"<graphml><key id=\"r\" for=\"graph\" attr.name=\"seed\"/><graph><data "
       "key=\"r\">-1</data></graph></graphml>",
       "the seed \"-1\" should be a whole number from 0"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    const std::string message = refusal(row.file);
    CAPTURE(message);
    CHECK(message.find(row.message) != std::string::npos);
  }
}

TEST_CASE("of a GraphML file what a key has by default is what all have that say nothing") {
  const GraphSpec graph = read_graphml(R"(<graphml>
    <key id="0" for="node" attr.name="kind"><default> accelerator </default></key>
    <key id="1" for="edge" attr.name="kind"/><key id="2" for="edge" attr.name="bandwidth"><default>10GBps</default></key>
    <key id="3" for="all" attr.name="latency"><default>2us</default></key>
    <key id="4" for="graph" attr.name="routing"><default>spray</default></key>
    <graph edgedefault="directed"><node id="a"/><node id="b"/><node id="s"><data key="0">switch</data></node>
    <edge source="a" target="s"/><edge source="s" target="b" directed="false"><data key="2">400Gbps</data></edge>
    </graph></graphml>)");
  REQUIRE(graph.vertices.size() == 3);
  CHECK(graph.vertices[1].kind == "accelerator");
  CHECK(graph.vertices[2].kind == "switch");
  CHECK(graph.routing == GraphRouting::Spray);
  REQUIRE(graph.edges.size() == 2);
  CHECK_FALSE(graph.edges[0].both);
  CHECK(graph.edges[1].both);
  CHECK(graph.edges[0].link.bandwidth == BytesPerSecond(10e9));
  CHECK(graph.edges[1].link.bandwidth == BytesPerSecond(50e9));
  CHECK(graph.edges[1].link.latency == Seconds(2e-6));
}

TEST_CASE("Graphviz gets a line a bundle of cables") {
  std::ostringstream out;
  write_dot(out,
            build_topology(fat_tree(16, 8, {.levels = 2, .radix = 16})));  // 2 leaves, 8 up, to one spine
  const std::string text = out.str();
  CHECK(text.find("\"leaf0\" -- \"spine0\" [color=\"#1f5fa8\", label=\"8 x 10 GB/s\"];") !=
        std::string::npos);
  CHECK(text.find("rank=same; \"leaf0\"; \"leaf1\";") != std::string::npos);
  CHECK(text.ends_with("}\n"));
}

TEST_CASE("an exported platform, read back, has the same links between the same hosts") {
  for (const TopologySpec& spec : {fat_tree(32, 4, {.radix = 8, .nics = 2}), fat_tree(64, 1, {.radix = 8}),
                                   torus(24, {2, 3, 4}), all_to_all(6, Mesh), nodes_of(4, 4)}) {
    const Topology topology = build_topology(spec);
    std::ostringstream out;
    write_simgrid_platform(out, topology);
    const Topology back = build_topology(graph_spec(read_simgrid_platform(out.str())));
    const std::size_t n = topology.accelerators().size();
    REQUIRE(back.accelerators().size() == n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const std::vector<LinkId> ours = topology.route(AcceleratorId(i), AcceleratorId(j));
        const std::vector<LinkId> theirs = back.route(AcceleratorId(i), AcceleratorId(j));
        REQUIRE(ours.size() == theirs.size());
        REQUIRE(topology.latency(ours).si() == doctest::Approx(back.latency(theirs).si()));
      }
  }
}

TEST_CASE("a SimGrid cluster is hosts around a router; its backbone is one link that all traffic crosses") {
  const std::string host =
      "<cluster id=\"c\" prefix=\"n\" suffix=\".lab\" radical=\"0-2,7\" speed=\"1Gf\" bw=\"1GBps\" "
      "lat=\"5us\"";
  const Topology star = build_topology(graph_spec(read_simgrid_platform(platform(host + "/>"))));
  CHECK(star.accelerators().size() == 4);
  CHECK(star.vertex(star.accelerators()[3]).name == "n7.lab");
  CHECK(star.latency(star.route(AcceleratorId(0), AcceleratorId(3))).si() == doctest::Approx(10e-6));
  const Topology line =
      build_topology(graph_spec(read_simgrid_platform(platform(host + " bb_bw=\"3GBps\" bb_lat=\"7us\"/>"))));
  const std::vector<LinkId> there = line.route(AcceleratorId(0), AcceleratorId(1)),
                            back = line.route(AcceleratorId(3), AcceleratorId(0));
  CHECK(line.latency(there).si() == doctest::Approx(17e-6));
  REQUIRE(there.size() == 3);
  CHECK(there[1] == back[1]);
  CHECK(line.link(there[1]).bandwidth == BytesPerSecond(3e9));
}

TEST_CASE("links of a SimGrid platform: for one way, with a bandwidth each way, or shared by both") {
  const std::string routes =
      "<route src=\"a\" dst=\"b\"><link_ctn id=\"k\"/></route><route src=\"b\" dst=\"c\"><link_ctn "
      "id=\"l\"/></route>";
  const auto uses = [](const Topology& topology, std::size_t from, std::size_t to) {
    std::vector<std::string> names;
    for (const LinkId link : topology.route(AcceleratorId(from), AcceleratorId(to)))
      names.push_back(topology.link_name(link));
    return names;
  };
  const Topology duplex = build_topology(graph_spec(read_simgrid_platform(routed("SPLITDUPLEX", routes))));
  CHECK(uses(duplex, 0, 2) == std::vector<std::string>{"a → b", "b → c"});
  CHECK(uses(duplex, 1, 0) == std::vector<std::string>{"b → a"});
  const Topology shared = build_topology(graph_spec(read_simgrid_platform(routed("SHARED", routes))));
  CHECK(uses(shared, 0, 1) == std::vector<std::string>{"a → k.in", "k.in → k.out", "k.out → b"});
  CHECK(uses(shared, 1, 0) == std::vector<std::string>{"b → k.in", "k.in → k.out", "k.out → a"});
  CHECK(shared.latency(shared.route(AcceleratorId(0), AcceleratorId(1))).si() == doctest::Approx(2e-6));
  const std::string both_ways =
      "<route src=\"a\" dst=\"b\"><link_ctn id=\"k\"/></route><route src=\"a\" dst=\"c\"><link_ctn id=\"k\"/>"
      "<link_ctn id=\"l\"/></route>";
  CHECK(refusal(routed("SHARED", both_ways), read_simgrid_platform)
            .find("link \"k\" is shared by both directions") != std::string::npos);
}

TEST_CASE("what a SimGrid platform has and we do not is refused by name and line") {
  struct Row {
    std::string zone, message;
  };
  const std::string cluster =
      "<cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-3\" speed=\"1Gf\" bw=\"1GBps\" lat=\"5us\" ";
  const std::vector<Row> rows = {
      {platform("<peer id=\"p\"/>"), "line 3: <peer> has no counterpart"},
      {platform("<zone id=\"y\" routing=\"Full\"/><zone id=\"x\" routing=\"Full\"/>"),
       "zone \"x\": several zones"},
      {platform(cluster + "topology=\"TORUS\" topo_parameters=\"2,2\"/>"), "topology is not understood"},
      {platform("<zone id=\"y\" routing=\"Full\"><zone id=\"x\" routing=\"Full\"/></zone>"),
       "zone \"x\": several zones"},
      {platform("<AS id=\"y\"/>"), "line 3: <AS> has no counterpart"},
      {platform("<host id=\"a\" speed=\"1Gf\" state_file=\"a.txt\"/>"),
       "host \"a\": state_file is not understood"},
      {platform("<host id=\"a\" speed=\"1Gf\"/><link id=\"k\" latency=\"0\"/>"),
       "line 3: <link> \"k\": it has no bandwidth, such as"},
      {platform("<host id=\"a\" speed=\"1Gf\"/><link id=\"k\" bandwidth=\"0\" latency=\"0\"/>"),
       "<link> \"k\": a bandwidth of 0"},
      {platform("<cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-3\" speed=\"1Gf\"/>"),
       "<cluster> \"c\": it has no bw"},
      {"<platform version=\"4.1\"><zone id=\"z\">\n<host id=\"a\"", "line 2: not valid XML"},
      {"<platform version=\"4.1\"><zone id=\"z\"><host id=\"a\" speed=\"1Gf\"/>\n",
       "line 1: not valid XML: Start-end tags mismatch"},
      {"", "not valid XML"},
      {platform(cluster + "loopback_bw=\"1GBps\" loopback_lat=\"0\"/>"), "loopback_bw is not understood"},
      {platform(cluster + "bb_bw=\"1GBps\" bb_lat=\"0\" bb_sharing_policy=\"FATPIPE\"/>"),
       "without contention"},
      {platform("<cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-999999999\" speed=\"1Gf\" "
                "bw=\"1GBps\" lat=\"0\"/>"),
       "of at most 262144 hosts"},
      {platform("<cluster id=\"c\" prefix=\"n\" suffix=\"\" radical=\"0-200000,200001-400000\" speed=\"1Gf\" "
                "bw=\"1GBps\" lat=\"0\"/>"),
       "of at most 262144 hosts"},
      {routed("FATPIPE", ""), "sharing_policy \"FATPIPE\""},
      {routed("SHARED", "<route src=\"a\" dst=\"z\"><link_ctn id=\"k\"/></route>"),
       "no host or router \"z\""},
      {routed("SHARED", "<route src=\"a\" dst=\"b\"><link_ctn id=\"m\"/></route>"),
       "line 6: there is no link \"m\""},
      {routed("SHARED", "<route src=\"a\" dst=\"b\"/>"), "\"a\" and \"b\" are one place"},
      {routed("SPLITDUPLEX", "<route src=\"a\" dst=\"a\"><link_ctn id=\"k\"/></route>"),
       "from \"a\" to itself"},
      {routed("SPLITDUPLEX", "<route src=\"a\" dst=\"b\"><link_ctn id=\"k\"/></route>"),
       "\"a\" cannot reach \"c\""},
      {platform("<host id=\"a\" speed=\"1Gf\"/><host id=\"a\" speed=\"1Gf\"/>"), "a second \"a\""},
      {platform("<host id=\"a\" speed=\"1Gf\"/><link id=\"k\" bandwidth=\"fast\" latency=\"0\"/>"),
       "line 3: <link> \"k\":"},
      {platform(""), "no <host>"},
      {"<platform version=\"3\"/>", "platforms of version 4 are understood, not \"3\""},
      {"<platform version=\"40\"/>", "platforms of version 4 are understood, not \"40\""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.message);
    const std::string message = refusal(row.zone, read_simgrid_platform);
    CAPTURE(message);
    CHECK(message.find(row.message) != std::string::npos);
  }
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
