// Topologies that are a graph: a list in a file, GraphML, a SimGrid platform.
#include "sim/topology/topology.hpp"
#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

const std::string Listed = R"(version: 1
name: two
graph:
  routing: ecmp
  seed: 3
  vertices:
    - {name: a, kind: accelerator}
    - {name: b, kind: accelerator}
    - {name: tor, kind: switch}
  edges:
    - {from: a, to: tor, link: {bandwidth: 400Gbps, latency: 1us}}
    - {from: b, to: tor, link: {bandwidth: 400Gbps, latency: 1us}}
)";

const std::string Graphml = R"(<graphml>
<key id="k" for="node" attr.name="kind"/>
<key id="b" for="edge" attr.name="bandwidth"><default>400Gbps</default></key>
<key id="l" for="edge" attr.name="latency"><default>1us</default></key>
<graph edgedefault="undirected">
<node id="a"><data key="k">accelerator</data></node>
<node id="b"><data key="k">accelerator</data></node>
<node id="tor"><data key="k">switch</data></node>
<edge source="a" target="tor"/>
<edge source="b" target="tor"/>
</graph>
</graphml>
)";

const std::string Platform = R"(<?xml version="1.0"?>
<platform version="4.1">
<zone id="z" routing="Full">
<host id="a" speed="1Gf"/>
<host id="b" speed="1Gf"/>
<link id="k" bandwidth="50GBps" latency="1us" sharing_policy="SPLITDUPLEX"/>
<route src="a" dst="b"><link_ctn id="k"/></route>
</zone>
</platform>
)";

std::string refusal(const std::string& name, const std::string& text,
                    const std::vector<Override>& overrides = {}) {
  const Folder folder;
  use_test_data();
  return message_of([&] { static_cast<void>(load_topology(folder.write(name, text), overrides)); },
                    folder / "");
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_SUITE("topologies: graphs") {
  TEST_CASE("the same two accelerators as a list, as GraphML and as a platform") {
    const Folder folder;
    use_test_data();
    for (const auto& [file, text] :
         {std::pair{"two.yaml", Listed}, {"two.graphml", Graphml}, {"two.xml", Platform}}) {
      CAPTURE(file);
      const TopologySpec spec = load_topology(folder.write(file, text));
      CHECK(spec.name == "two");
      CHECK(spec.accelerators == 2);
      const Topology topology = build_topology(spec);
      const std::vector<LinkId> route = topology.route(AcceleratorId(0), AcceleratorId(1));
      CHECK(topology.link(route.front()).bandwidth == BytesPerSecond(50e9));
      CHECK(route.size() == (spec.graph->vertices.size() == 3 ? 2 : 1));
    }
  }

  TEST_CASE("a graph file's own keys are laid over it") {
    const Folder folder;
    use_test_data();
    folder.write("two.graphml", Graphml);
    const std::string over =
        "version: 1\nbase: two.graphml\nname: mine\ngraph: {routing: spray}\n"
        "collectives: {ring: [{protocol: LL, call: 5us, hop-inside: 1us, hop-between: 3us, "
        "share-inside: 0.3, share-between: 0.2}]}\n";
    const TopologySpec spec = load_topology(folder.write("mine.yaml", over));
    CHECK(spec.name == "mine");
    CHECK(spec.graph->routing == GraphRouting::Spray);
    CHECK(spec.graph->vertices.size() == 3);
    CHECK(spec.collectives.has_value());
  }

  TEST_CASE("what is wrong with a list is said where it stands") {
    struct Row {
      const char* name;
      std::string from, to;
      std::string message;
    };
    const Row rows[] = {
        {"dangling", "from: b, to: tor", "from: b, to: torr",
         "two.yaml:12:7: error: the edge from \"b\" to \"torr\" ends at \"torr\", which is no vertex; the "
         "nearest is \"tor\""},
        {"far off", "from: b, to: tor", "from: b, to: elsewhere",
         "two.yaml:12:7: error: the edge from \"b\" to \"elsewhere\" ends at \"elsewhere\", which is no "
         "vertex; add it to vertices"},
        {"itself", "from: b, to: tor", "from: tor, to: tor",
         "two.yaml:12:7: error: the edge from \"tor\" to \"tor\" joins a vertex with itself"},
        {"twice", "name: b,", "name: a,", "two.yaml:8:7: error: two vertices are named \"a\""},
        {"apart", "    - {from: b, to: tor, link: {bandwidth: 400Gbps, latency: 1us}}\n", "",
         "two.yaml:10:3: error: \"a\" cannot reach \"b\": no edges lead there"},
        {"one way", "to: tor, link", "to: tor, both: false, link",
         "two.yaml:10:3: error: \"b\" cannot reach \"a\": no edges lead there"},
        {"unequal nodes", "    - {name: b, kind: accelerator}\n",
         "    - {name: b, kind: accelerator, node: n}\n    - {name: c, kind: accelerator, node: n}\n",
         "nodes of a graph need equally many accelerators, but \"a\" has 1 and \"n\" 2"},
        {"no bandwidth", "bandwidth: 400Gbps", "bandwidth: 0Gbps", "two.yaml:11:44: error: "},
        {"no kind", "kind: switch", "kind: swich", "did you mean \"switch\"?"},
    };
    for (const Row& row : rows) {
      CAPTURE(std::string(row.name));
      const std::string message = refusal("two.yaml", changed(Listed, row.from, row.to));
      CAPTURE(message);
      CHECK(message.find(row.message) != std::string::npos);
    }
  }

  TEST_CASE("what is wrong with a file of another format is said with its line and a caret") {
    CHECK(refusal("two.graphml", changed(Graphml, "source=\"b\"", "source=\"c\"")) ==
          "two.graphml:10:2: error: edge from \"c\" to \"tor\" ends at \"c\", which is no node\n"
          "   10 | <edge source=\"c\" target=\"tor\"/>\n"
          "      |  ^");
    struct Row {
      const char* file;
      std::string text, message;
    };
    const Row rows[] = {
        {"two.graphml", changed(Graphml, "<edge source=\"b\" target=\"tor\"/>\n", ""),
         "two.graphml: error: \"a\" cannot reach \"b\": no edges lead there"},
        {"two.graphml", changed(Graphml, "edgedefault=\"undirected\"", ""),
         "two.graphml:5:2: error: edgedefault should be"},
        {"two.graphml", Graphml.substr(0, 300), "error: not valid XML"},
        {"two.xml", changed(Platform, "dst=\"b\"", "dst=\"c\""),
         "two.xml:7:2: error: there is no host or router \"c\""},
        {"two.xml", changed(Platform, "<link_ctn id=\"k\"/>", "<link_ctn id=\"m\"/>"),
         "two.xml:7:25: error: there is no link \"m\""},
        {"two.xml", changed(Platform, "bandwidth=\"50GBps\"", ""),
         "two.xml:6:2: error: <link> \"k\": it has no bandwidth"},
        {"two.xml", changed(Platform, "50GBps", "0"), "two.xml:6:2: error: <link> \"k\": a bandwidth of 0"},
        {"two.xml", changed(Platform, "version=\"4.1\"", "version=\"3\""),
         "two.xml:2:2: error: platforms of version 4"},
        {"two.xml", changed(Platform, "</zone>", "<zone id=\"y\" routing=\"Full\"/></zone>"),
         "error: zone \"y\": several zones"},
        {"two.xml", Platform.substr(0, 200), "error: not valid XML"},
        {"two.xml", changed(Platform, "<route src=\"a\" dst=\"b\"><link_ctn id=\"k\"/></route>\n", ""),
         "two.xml: error: \"a\" cannot reach \"b\""},
    };
    for (const Row& row : rows) {
      CAPTURE(row.message);
      const std::string message = refusal(row.file, row.text);
      CAPTURE(message);
      CHECK(message.find(row.message) != std::string::npos);
    }
  }

  TEST_CASE("a bare number in a platform is what SimGrid takes it for: bytes a second, and seconds") {
    const Folder folder;
    use_test_data();
    const std::string bare = changed(changed(Platform, "50GBps", "1.25e8"), "1us", "5e-6");
    const Topology topology = build_topology(load_topology(folder.write("two.xml", bare)));
    const Link& link = topology.link(topology.route(AcceleratorId(0), AcceleratorId(1)).front());
    CHECK(link.bandwidth == BytesPerSecond(125e6));
    CHECK(link.latency == Seconds(5e-6));
  }

  TEST_CASE("a twist that a base has is taken away by none; what is no twist is refused") {
    const Folder folder;
    use_test_data();
    const std::string file = folder.write("twisted.yaml", R"(version: 1
accelerators: 32
scale-out: {kind: torus, shape: [4, 8], twist: [{of: 0, along: 1, by: 4}], link: {bandwidth: 45GBps, latency: 1us}}
)");
    const auto twist_of = [&](const std::vector<Override>& overrides) {
      return std::get<TorusSpec>(load_topology(file, overrides).scale_out).twist;
    };
    CHECK(twist_of({}).size() == 1);
    CHECK(twist_of({{"scale-out.twist", "none"}}).empty());
    CHECK(twist_of({{"scale-out.twist", "[]"}}).empty());
    const std::string message = message_of([&] {
      static_cast<void>(twist_of({{"scale-out.twist", "nothing"}}));
    });
    CAPTURE(message);
    CHECK(message.find("\"scale-out.twist\"") != std::string::npos);
    CHECK(message.find("or none, not \"nothing\"") != std::string::npos);
  }

  TEST_CASE("counts that no cluster has are refused at once, with the most that is built") {
    use_test_data();
    for (const char* count : {"1000001", "1000000000", "99999999999999999999"}) {
      CAPTURE(count);
      const std::string message = message_of([&] {
        static_cast<void>(load_topology("small-tree", {{"accelerators", count}}));
      });
      CAPTURE(message);
      CHECK(message.find("--set accelerators=") == 0);
      CHECK(message.find("accelerators\"") != std::string::npos);
    }
    CHECK(message_of([&] {
            static_cast<void>(load_topology("small-tree", {{"accelerators", "1000001"}}));
          }).find("262144") != std::string::npos);
  }
}
