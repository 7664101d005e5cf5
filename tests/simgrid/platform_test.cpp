// Exported platforms against SimGrid itself: SMPI runs the same all-reduce on them, by its own implementation.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/topology/export.hpp"
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
  Folder() : path_(fs::temp_directory_path() / ("syncline-smpi-" + std::to_string(getpid()))) { fs::create_directories(path_); }
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

double smpi_seconds(const Folder& folder, const Topology& topology, long bytes) {
  std::ofstream platform(folder / "platform.xml"), hosts(folder / "hosts");
  write_simgrid_platform(platform, topology);
  for (const VertexId vertex : topology.accelerators()) hosts << topology.vertex(vertex).name << '\n';
  platform.close();
  hosts.close();
  const std::string text =
      output_of("cd " + (folder / ".") + " && smpirun -np " + std::to_string(topology.accelerators().size()) +
                " -platform platform.xml -hostfile hosts --cfg=smpi/allreduce:lr ./allreduce " + std::to_string(bytes));
  const std::size_t at = text.find("seconds ");
  REQUIRE_MESSAGE(at != std::string::npos, text);
  return std::stod(text.substr(at + 8));
}

double our_seconds(const TopologySpec& spec, Bytes bytes) {
  const Cluster cluster{build_topology(spec), ideal_device(), placement_in_order(static_cast<std::size_t>(spec.accelerators))};
  testing::ScheduleBuilder b(spec.accelerators);
  b.collective(0, "dp", CollectiveKind::AllReduce, bytes, {}, Algorithm::Ring);
  return make_simgrid_backend()->run(b.schedule, cluster, {Detail::Full, NetworkModel::Fluid}).step_time.si();
}

}  // namespace

TEST_CASE("a ring all-reduce under SMPI, on the exported platform, takes within 1 % of our time") {
  if (!has_smpi()) {
    MESSAGE("skipped: smpirun and smpicc are not here (Debian: libsimgrid-dev)");
    return;
  }
  const Folder folder;
  const std::string source = std::string(SYNCLINE_SOURCE_DIR) + "/tests/simgrid/allreduce_smpi.c";
  REQUIRE(std::system(("smpicc -O1 " + source + " -o " + (folder / "allreduce") + " >/dev/null 2>&1").c_str()) == 0);
  struct Row {
    const char* name;
    TopologySpec spec;
  };
  for (const Row& row : {Row{"fat tree", tree(FatTreeRouting::DModK, 0)}, Row{"fat tree, ECMP", tree(FatTreeRouting::Ecmp, 3)},
                         Row{"dragonfly", dragonfly()}, Row{"star", all_to_all(16, Ideal)}})
    for (const long bytes : {16L << 20, 256L << 20}) {
      CAPTURE(row.name);
      CAPTURE(bytes);
      const double ours = our_seconds(row.spec, Bytes(static_cast<double>(bytes)));
      CHECK(smpi_seconds(folder, build_topology(row.spec), bytes) == doctest::Approx(ours).epsilon(0.01));
    }
}

}  // namespace syncline
