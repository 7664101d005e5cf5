// How long large fabrics take to build and to route, and what they hold in memory; each in a process of its
// own. usage: bench-topology [accelerators]     (default 16384)
#include "sim/topology/topology.hpp"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace {

using namespace syncline;
using namespace syncline::literals;

constexpr std::size_t Targets = 64;  // of every accelerator, spread evenly over all

struct Fabric {
  std::string name;
  TopologySpec spec;
};

const LinkSpec ScaleUpLink{450_GBps, 1.0, 1_us};
const LinkSpec Cable{50_GBps, 1.0, 1_us};

TopologySpec nodes(int accelerators, int per_node) {
  TopologySpec spec;
  spec.name = "bench";
  spec.accelerators = accelerators;
  spec.accelerators_per_node = per_node;
  if (per_node > 1) {
    spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, ScaleUpLink};
    spec.nic = NicSpec{per_node, Cable};
  }
  return spec;
}

TopologySpec tree(int accelerators, bool rails, FatTreeRouting routing) {
  TopologySpec spec = nodes(accelerators, 8);
  FatTreeSpec fabric;
  fabric.rail_optimised = rails;
  fabric.routing = routing;
  fabric.link = Cable;
  spec.scale_out = fabric;
  return spec;
}

template <class Fabric>
TopologySpec of_accelerators(int accelerators, Fabric fabric) {
  TopologySpec spec = nodes(accelerators, 1);
  fabric.link = Cable;
  spec.scale_out = fabric;
  return spec;
}

/// The same cluster vertex by vertex and cable by cable.
TopologySpec listed(const Topology& topology) {
  static constexpr const char* Kinds[]{"accelerator", "nic", "switch"};
  GraphSpec graph;
  for (const Vertex& vertex : topology.vertices()) {
    const bool held = vertex.kind != VertexKind::Switch;
    graph.vertices.push_back({vertex.name, Kinds[static_cast<std::size_t>(vertex.kind)],
                              held ? fmt::format("node{}", vertex.node) : ""});
  }
  for (std::size_t id = 0; id < topology.links().size(); id += 2) {
    const Link& link = topology.links()[id];
    graph.edges.push_back({topology.vertex(link.from).name,
                           topology.vertex(link.to).name,
                           {link.nominal, 1.0, link.latency},
                           true,
                           ""});
  }
  TopologySpec spec;
  spec.name = "bench";
  spec.graph = std::move(graph);
  return spec;
}

std::vector<Fabric> fabrics(int n) {
  TorusSpec cube, flat;
  cube.shape = {16, 16, 16};
  flat.dimensions = 2;
  DragonflySpec dragonfly;
  dragonfly.routers = 32;
  dragonfly.endpoints = 16;
  dragonfly.global = 16;
  return {{"fat tree", tree(n, false, FatTreeRouting::DModK)},
          {"fat tree, rail-optimised", tree(n, true, FatTreeRouting::DModK)},
          {"fat tree, ECMP", tree(n, false, FatTreeRouting::Ecmp)},
          {"fat tree, sprayed", tree(n, false, FatTreeRouting::Spray)},
          {"torus 16 × 16 × 16", of_accelerators(4096, cube)},
          {"2D torus", of_accelerators(n, flat)},
          {"dragonfly", of_accelerators(n, dragonfly)},
          {"ideal switch", of_accelerators(n, AllToAllSpec{})},
          {"full mesh of 384", of_accelerators(384, AllToAllSpec{AllToAllSpec::Kind::FullMesh, {}})},
          {"graph of 1,024: that fat tree, listed",
           listed(build_topology(tree(1024, false, FatTreeRouting::DModK)))}};
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// What each of the transfers would load, counted so that it is not left out.
std::size_t route(const Topology& topology, std::size_t& routes) {
  const std::size_t n = topology.accelerators().size(), step = std::max<std::size_t>(1, n / Targets);
  std::vector<LinkUse> uses;
  std::size_t crossed = 0;
  for (std::size_t target = 0; target < n;
       target += step)  // outside: a graph's router keeps distances by target
    for (std::size_t source = 0; source < n; ++source) {
      uses.clear();
      topology.router().load(AcceleratorId(source), AcceleratorId(target), uses);
      crossed += uses.size();
      ++routes;
    }
  return crossed;
}

void measure(const Fabric& fabric) {
  const double begin = cpu_seconds();
  const Topology topology = build_topology(fabric.spec);
  const double built = cpu_seconds();
  std::size_t routes = 0;
  const std::size_t crossed = route(topology, routes);
  const double routed = cpu_seconds();
  fmt::print("{:<40}{:>9}{:>10}{:>10.3f}{:>10}{:>10.3f}{:>8.1f}", fabric.name, topology.accelerators().size(),
             topology.links().size(), built - begin, routes, routed - built,
             static_cast<double>(crossed) / static_cast<double>(routes));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 16384;
  if (n < 64 || n % 8 != 0) {
    fmt::print(stderr, "usage: bench-topology [accelerators]   (a multiple of 8, at least 64)\n");
    return 2;
  }
  fmt::print("{:<40}{:>9}{:>10}{:>10}{:>10}{:>10}{:>8}{:>10}\n", "", "accel.", "links", "build, s", "routes",
             "route, s", "links", "peak, MiB");
  for (const Fabric& fabric : fabrics(n)) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      measure(fabric);
      _exit(0);
    }
    int status = 0;
    rusage usage{};
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
      fmt::print(stderr, "{}: could not be measured\n", fabric.name);
      return 1;
    }
    fmt::print("{:>10.0f}\n", static_cast<double>(usage.ru_maxrss) / 1024);
  }
  return 0;
}
