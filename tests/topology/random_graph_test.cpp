// Graphs drawn at random, of every kind of part and link: what holds of all of them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <queue>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "sim/core/random.hpp"
#include "sim/topology/export.hpp"
#include "sim/topology/measures.hpp"
#include "tests/topology/same_parts.hpp"
#include "tests/topology/specs.hpp"

namespace syncline {
namespace {

constexpr std::uint64_t Seeds = 12;

/// Nodes of as many accelerators, each with a NIC or cabled itself, on a tree of switches with further cables
/// at random; some cables have a twin, some links go one way, hardly two are alike.
TopologySpec random_graph(std::uint64_t seed, GraphRouting routing) {
  Random random(seed);
  const auto link = [&] {
    return LinkSpec{BytesPerSecond(1e9 * static_cast<double>(1 + random.below(20))),
                    random.below(2) == 0 ? 1.0 : 0.75, Seconds(1e-6 * static_cast<double>(random.below(5)))};
  };
  GraphSpec graph;
  graph.routing = routing;
  graph.seed = routing == GraphRouting::Ecmp ? seed : 0;
  const std::size_t switches = 2 + random.below(6), nodes = 2 + random.below(4),
                    per_node = 1 + random.below(3);
  const auto switch_name = [](std::uint64_t i) { return fmt::format("s{}", i); };
  for (std::size_t s = 0; s < switches; ++s) {
    graph.vertices.push_back({switch_name(s), "switch", ""});
    if (s > 0) graph.edges.push_back({switch_name(random.below(s)), switch_name(s), link(), true, ""});
  }
  for (std::size_t node = 0; node < nodes; ++node)
    for (std::size_t i = 0; i < per_node; ++i) {
      const std::string gpu = fmt::format("n{}.gpu{}", node, i), nic = fmt::format("n{}.nic{}", node, i);
      const std::string of = fmt::format("n{}", node), tor = switch_name(random.below(switches));
      graph.vertices.push_back({gpu, "accelerator", of});
      if (random.below(2) == 0) {
        graph.edges.push_back({gpu, tor, link(), true, ""});
        continue;
      }
      graph.vertices.push_back({nic, "nic", of});
      graph.edges.push_back({gpu, nic, link(), true, ""});
      graph.edges.push_back({nic, tor, link(), true, ""});
    }
  for (std::size_t extra = 0; extra < 2 * switches; ++extra) {
    const std::uint64_t from = random.below(switches), to = random.below(switches);
    if (from != to)
      graph.edges.push_back({switch_name(from), switch_name(to), link(), random.below(3) > 0, ""});
  }
  TopologySpec spec;
  spec.name = "random";
  spec.graph = std::move(graph);
  return spec;
}

/// Fewest links from each vertex to `target`, counted here anew; breadth first, backwards.
std::vector<int> links_to(const Topology& topology, VertexId target) {
  std::vector<int> distance(topology.vertices().size(), -1);
  distance[target.value()] = 0;
  std::queue<std::uint32_t> next;
  for (next.push(target.value()); !next.empty(); next.pop())
    for (const Link& link : topology.links())
      if (link.to.value() == next.front() && distance[link.from.value()] == -1) {
        distance[link.from.value()] = distance[next.front()] + 1;
        next.push(link.from.value());
      }
  return distance;
}

template <class Check>
void for_each_pair(const Topology& topology, const Check& check) {
  const std::size_t n = topology.accelerators().size();
  for (std::size_t source = 0; source < n; ++source)
    for (std::size_t target = 0; target < n; ++target)
      if (source != target) check(AcceleratorId(source), AcceleratorId(target));
}

std::vector<LinkUse> load(const Topology& topology, AcceleratorId source, AcceleratorId target) {
  std::vector<LinkUse> uses;
  topology.router().load(source, target, uses);
  return uses;
}

template <class Check>
void for_each_graph(const Check& check) {
  for (const GraphRouting routing : {GraphRouting::Shortest, GraphRouting::Ecmp, GraphRouting::Spray})
    for (std::uint64_t seed = 1; seed <= Seeds; ++seed) {
      CAPTURE(seed);
      CAPTURE(word_of(routing));
      const TopologySpec spec = random_graph(seed, routing);
      check(spec, build_topology(spec));
    }
}

}  // namespace

TEST_CASE("routes of a random graph lead from source to target over fewest links") {
  for_each_graph([](const TopologySpec&, const Topology& topology) {
    for_each_pair(topology, [&](AcceleratorId source, AcceleratorId target) {
      const VertexId begin = topology.accelerators()[source.value()],
                     end = topology.accelerators()[target.value()];
      const std::vector<LinkId> route = topology.route(source, target);
      VertexId at = begin;
      for (const LinkId link : route) {
        REQUIRE(topology.link(link).from == at);
        at = topology.link(link).to;
      }
      REQUIRE(at == end);
      REQUIRE(static_cast<int>(route.size()) == links_to(topology, end)[begin.value()]);
    });
  });
}

TEST_CASE(
    "a transfer over a random graph puts in at every vertex what it takes out, on links that lead nearer") {
  for_each_graph([](const TopologySpec& spec, const Topology& topology) {
    for_each_pair(topology, [&](AcceleratorId source, AcceleratorId target) {
      const VertexId begin = topology.accelerators()[source.value()],
                     end = topology.accelerators()[target.value()];
      const std::vector<int> distance = links_to(topology, end);
      std::map<VertexId, double> left{{begin, -1.0}, {end, 1.0}};
      for (const LinkUse& use : load(topology, source, target)) {
        const Link& link = topology.link(use.link);
        left[link.from] += use.coefficient;
        left[link.to] -= use.coefficient;
        REQUIRE(distance[link.from.value()] == distance[link.to.value()] + 1);
        if (spec.graph->routing != GraphRouting::Spray) REQUIRE(use.coefficient == 1);
      }
      for (const auto& [vertex, sum] : left) REQUIRE(std::abs(sum) < 1e-12);
    });
  });
}

TEST_CASE("a random graph, written as GraphML and read back, measures the same and routes the same") {
  for_each_graph([](const TopologySpec& spec, const Topology& topology) {
    const GraphRoutes routes = nearest_routes(spec);
    std::ostringstream out;
    write_graphml(out, topology, routes);
    CHECK(lost_in_graphml(topology, routes).empty());
    TopologySpec again;
    again.name = spec.name;
    again.graph = read_graphml(out.str());
    CHECK(again.graph->routing == spec.graph->routing);
    CHECK(again.graph->seed == spec.graph->seed);
    const Topology back = build_topology(again);
    const Measures a = measure(topology), b = measure(back);
    check_same_parts(a, b);
    CHECK(a.path_diversity == b.path_diversity);
    CHECK(a.largest_latency == b.largest_latency);
    CHECK(a.bisection.si() == doctest::Approx(b.bisection.si()));
    CHECK(a.injection.si() == doctest::Approx(b.injection.si()));
    for_each_pair(topology, [&](AcceleratorId source, AcceleratorId target) {
      const std::vector<LinkUse> ours = load(topology, source, target), theirs = load(back, source, target);
      REQUIRE(ours.size() == theirs.size());
      for (std::size_t i = 0; i < ours.size(); ++i) {
        REQUIRE(topology.link_name(ours[i].link) == back.link_name(theirs[i].link));
        REQUIRE(ours[i].coefficient == theirs[i].coefficient);
      }
    });
  });
}

TEST_CASE("a random graph, written as a SimGrid platform, has the same routes link by link") {
  for_each_graph([](const TopologySpec& spec, const Topology& topology) {
    if (spec.graph->routing == GraphRouting::Spray) return;  // refused: platforms have no word for it
    std::ostringstream out;
    write_simgrid_platform(out, topology);
    const std::string text = out.str();
    std::map<std::string, AcceleratorId> hosts;
    for (std::size_t i = 0; i < topology.accelerators().size(); ++i)
      hosts.emplace(topology.vertex(topology.accelerators()[i]).name, AcceleratorId(i));
    const std::regex route("<route src=\"([^\"]*)\" dst=\"([^\"]*)\" symmetrical=\"NO\">(.*?)</route>"),
        step("id=\"l([0-9]+)\"");
    std::size_t routes = 0;
    for (std::sregex_iterator found(text.begin(), text.end(), route), none; found != none;
         ++found, ++routes) {
      std::vector<LinkId> links;
      const std::string steps = (*found)[3];
      for (std::sregex_iterator link(steps.begin(), steps.end(), step); link != none; ++link)
        links.emplace_back(static_cast<std::uint32_t>(std::stoul((*link)[1])));
      REQUIRE(links == topology.route(hosts.at((*found)[1]), hosts.at((*found)[2])));
    }
    CHECK(routes == hosts.size() * (hosts.size() - 1));
  });
}

}  // namespace syncline
