// Exported platforms against SimGrid itself: its own network carries the same flows on them, and SMPI runs the same
// all-reduce by its own implementation.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "backends/replay/replay.hpp"
#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/network/fluid.hpp"
#include "sim/topology/export.hpp"
#include "tests/support/ends.hpp"
#include "tests/support/small_schedules.hpp"
#include "tests/topology/specs.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;

/// Standard output of a command; its standard error is dropped.
std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  pclose(pipe);
  return text;
}

bool has_smpi() {
  return std::system("command -v smpirun >/dev/null 2>&1 && command -v smpicc >/dev/null 2>&1") == 0;
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("syncline-smpi-" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

TopologySpec tree(FatTreeRouting routing, std::uint64_t seed) {
  TopologySpec spec = fat_tree(16, 1, {.levels = 2, .radix = 8});
  std::get<FatTreeSpec>(spec.scale_out).routing = routing;
  std::get<FatTreeSpec>(spec.scale_out).seed = seed;
  return spec;
}

TopologySpec dragonfly() {
  TopologySpec spec = nodes_of(16, 1);
  DragonflySpec fabric;
  fabric.routers = fabric.endpoints = fabric.global = 2;
  fabric.link = Cable;
  spec.scale_out = fabric;
  return spec;
}

/// Of nodes of two: an all-reduce on a torus of accelerators would be several rings at once, SMPI's is one.
TopologySpec torus_of_nodes() {
  TopologySpec spec = with_nics(nodes_of(16, 2), 1);
  TorusSpec fabric;
  fabric.shape = {2, 4};
  fabric.link = Cable;
  spec.scale_out = fabric;
  return spec;
}

double smpi_seconds(const Folder& folder, const Topology& topology, long bytes) {
  std::ofstream platform(folder / "platform.xml"), hosts(folder / "hosts");
  write_simgrid_platform(platform, topology);
  for (const VertexId vertex : topology.accelerators()) hosts << topology.vertex(vertex).name << '\n';
  platform.close();
  hosts.close();
  const std::string text = output_of(
      "cd " + (folder / ".") + " && smpirun -np " + std::to_string(topology.accelerators().size()) +
      " -platform platform.xml -hostfile hosts --cfg=smpi/allreduce:lr ./allreduce " + std::to_string(bytes));
  const std::size_t at = text.find("seconds ");
  REQUIRE_MESSAGE(at != std::string::npos, text);
  return std::stod(text.substr(at + 8));
}

double our_seconds(const TopologySpec& spec, Bytes bytes) {
  const Cluster cluster{build_topology(spec), ideal_device(),
                        placement_in_order(static_cast<std::size_t>(spec.accelerators))};
  testing::ScheduleBuilder b(spec.accelerators);
  b.collective(0, "dp", CollectiveKind::AllReduce, bytes, {}, Algorithm::Ring);
  return make_simgrid_backend()->run(b.schedule, cluster, {Detail::Full, NetworkModel::Fluid}).step_time.si();
}

struct Flow {
  std::size_t from, to;
  double bytes;
};

std::vector<double> simgrid_ends(const Folder& folder, const Topology& topology,
                                 const std::vector<Flow>& flows) {
  std::ofstream platform(folder / "platform.xml");
  write_simgrid_platform(platform, topology);
  platform.close();
  const auto host = [&](std::size_t i) { return topology.vertex(topology.accelerators()[i]).name; };
  std::ostringstream command;
  command << PLAY_PLATFORM << ' ' << folder / "platform.xml";
  for (const Flow& flow : flows)
    command << ' ' << host(flow.from) << ' ' << host(flow.to) << ' ' << flow.bytes;
  std::istringstream printed(output_of(command.str()));
  std::vector<double> ends;
  for (double end = 0; printed >> end;) ends.push_back(end);
  return ends;
}

std::vector<double> our_ends(const Topology& topology, const std::vector<Flow>& flows) {
  PlainNetwork network(link_capacities(topology));
  testing::Ends ends(network);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    std::vector<LinkUse> uses;
    topology.router().load(AcceleratorId(flows[i].from), AcceleratorId(flows[i].to), uses);
    network.transfer(uses, Bytes(flows[i].bytes), topology.latency(uses), i);
  }
  network.run(ends);
  std::vector<double> at;
  for (std::size_t i = 0; i < flows.size(); ++i) at.push_back(ends.at[i]);
  return at;
}

}  // namespace

TEST_CASE(
    "an exported platform, loaded in SimGrid, gives our times: alone, sharing a link, and in an incast") {
  const Folder folder;
  struct Row {
    std::string name;
    TopologySpec spec;
    std::vector<Flow>
        flows;  // those of a row that meet have equal latencies, since SimGrid shares by latency
  };
  TopologySpec slow = fat_tree(32, 4, {.radix = 8, .nics = 2});
  slow.scale_up->link.efficiency = 0.8;
  TopologySpec mixed = all_to_all(16, Mesh, 4);
  for (const Row& row : {
           Row{"alone, through the spines", tree(FatTreeRouting::DModK, 0), {{0, 15, 1e9}}},
           Row{"alone, inside a node", slow, {{0, 3, 1e9}}},
           Row{"alone, round a torus", torus(24, {2, 3, 4}), {{0, 23, 1e9}}},
           Row{"alone, through a dragonfly", dragonfly(), {{0, 15, 1e9}}},
           Row{"a full mesh of nodes", mixed, {{0, 7, 1e9}}},
           Row{"two share the NIC they leave by", slow, {{0, 8, 1e9}, {1, 12, 5e8}}},
           Row{"two share a ring's link", torus(8, {8}), {{0, 2, 1e9}, {1, 3, 2e9}}},
           Row{"seven to one",
               all_to_all(8, Ideal),
               {{1, 0, 1e9}, {2, 0, 1e9}, {3, 0, 1e9}, {4, 0, 1e9}, {5, 0, 1e9}, {6, 0, 5e8}, {7, 0, 5e8}}},
           Row{"seven to one, from afar",
               tree(FatTreeRouting::Ecmp, 1),
               {{15, 0, 1e9},
                {14, 0, 1e9},
                {13, 0, 1e9},
                {12, 0, 1e9},
                {11, 0, 1e9},
                {10, 0, 1e9},
                {9, 0, 1e9}}},
       }) {
    CAPTURE(row.name);
    const Topology topology = build_topology(row.spec);
    const std::vector<double> ours = our_ends(topology, row.flows),
                              theirs = simgrid_ends(folder, topology, row.flows);
    REQUIRE(theirs.size() == row.flows.size());
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(theirs[i] == doctest::Approx(ours[i]).epsilon(1e-6));
  }
}

TEST_CASE("a ring all-reduce under SMPI, on the exported platform, takes within 1 % of our time") {
  if (!has_smpi()) {
    MESSAGE("skipped: smpirun and smpicc are not here (Debian: libsimgrid-dev)");
    return;
  }
  const Folder folder;
  const std::string source = std::string(SYNCLINE_SOURCE_DIR) + "/tests/simgrid/allreduce_smpi.c";
  REQUIRE(std::system(
              ("smpicc -O1 " + source + " -o " + (folder / "allreduce") + " >/dev/null 2>&1").c_str()) == 0);
  struct Row {
    std::string name;
    TopologySpec spec;
    std::vector<long> sizes{64L << 20};
  };
  for (const Row& row : {Row{"fat tree", tree(FatTreeRouting::DModK, 0), {64L << 20, 256L << 20}},
                         Row{"fat tree, ECMP", tree(FatTreeRouting::Ecmp, 3)}, Row{"dragonfly", dragonfly()},
                         Row{"torus", torus_of_nodes()}, Row{"star", all_to_all(16, Ideal)}})
    for (const long bytes : row.sizes) {
      CAPTURE(row.name);
      CAPTURE(bytes);
      const double ours = our_seconds(row.spec, Bytes(static_cast<double>(bytes)));
      CHECK(smpi_seconds(folder, build_topology(row.spec), bytes) == doctest::Approx(ours).epsilon(0.01));
    }
}

}  // namespace syncline
