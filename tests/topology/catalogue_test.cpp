#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "sim/config/scenario.hpp"
#include "sim/topology/measures.hpp"

namespace syncline {
using namespace literals;

TEST_CASE("every cluster of the catalogue is built at any size, with the bisection of its kind") {
  struct Row {
    std::string name;
    int accelerators;
    double bisection;  // GB/s, one way
    int switches;
  };
  // n/2 links, of 50, 25 and 900 GB/s at 0.977 and 0.645; tori 2·n/longest links of 45 and 90 GB/s at 0.88
  const std::vector<Row> rows = {
      {"dgx-h100", 8, 4 * (450 * 0.851 + 50 * 0.977),
       1 + 1},                                          // one node: its scale-up, and its NICs beside it
      {"dgx-h100", 64, 32 * 50 * 0.977, 8 + 1},         // one switch of 64 ports
      {"dgx-h100", 256, 128 * 50 * 0.977, 32 + 8 + 4},  // the 32 nodes of a group: 8 leaves, 4 spines
      {"dgx-h100", 16384, 8192 * 50 * 0.977, 2048 + 512 + 512 + 256},
      {"dgx-a100", 160, 80 * 25 * 0.977, 20 + 8 + 4},     // 20 nodes: 8 leaves, 4 spines of 40 ports
      {"hgx-h100-roce", 64, 32 * 50 * 0.977, 8 + 2 + 1},  // 2 leaves with 32 cables to one spine
      {"tpu-v4", 64, 2 * 16 * 45 * 0.88, 0},
      {"tpu-v4", 4096, 2 * 256 * 45 * 0.88, 0},  // 16 x 16 x 16
      {"tpu-v5p", 128, 2 * 16 * 90 * 0.88, 0},   // 4 x 4 x 8
      {"nvlink-all-to-all", 72, 36 * 900 * 0.645, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CAPTURE(row.accelerators);
    const std::string file = std::string(SYNCLINE_SOURCE_DIR "/topologies/") + row.name + ".yaml";
    const TopologySpec spec = load_topology(file, {{"accelerators", std::to_string(row.accelerators)}});
    CHECK(spec.name == row.name);
    CHECK_FALSE(spec.source.empty());
    const Measures measures = measure(build_topology(spec));
    CHECK(measures.accelerators == row.accelerators);
    CHECK(measures.switches == row.switches);
    CHECK(measures.bisection / 1_GBps == doctest::Approx(row.bisection).epsilon(1e-9));
  }
}

TEST_CASE("every file of the catalogue builds at its own size and says what it is and where that is from") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SYNCLINE_SOURCE_DIR "/topologies")) {
    if (entry.path().extension() != ".yaml") continue;
    CAPTURE(entry.path().string());
    ++files;
    const TopologySpec spec = load_topology(entry.path(), {});
    CHECK(spec.name == entry.path().stem().string());
    CHECK_FALSE(spec.source.empty());
    const Topology topology = build_topology(spec);
    CHECK(topology.accelerators().size() == static_cast<std::size_t>(spec.accelerators));
    CHECK_FALSE(topology.router().description().empty());
  }
  CHECK(files >= 40);
}

}  // namespace syncline
