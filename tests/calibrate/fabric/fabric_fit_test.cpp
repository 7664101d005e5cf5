// Figures of a fabric out of measured collectives.
#include "sim/calibrate/fabric_fit.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "sim/calibrate/typical_figures.hpp"
#include "sim/config/document.hpp"
#include "sim/config/scenario.hpp"
#include "tests/config/fixture.hpp"

namespace syncline::calibrate {
namespace {

using namespace literals;

/// Nodes of 8 behind a switch of 400 GB/s, and a NIC of 50 GB/s each.
TopologySpec nodes_of_eight() {
  TopologySpec spec;
  spec.name = "eights";
  spec.source = "made up";
  spec.accelerators = 16;
  spec.accelerators_per_node = 8;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {400_GBps, 1.0, 1_us}};
  spec.nic = NicSpec{8, {100_GBps, 1.0, 1_us}};
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::IdealSwitch, {50_GBps, 1.0, 1_us}};
  return spec;
}

CollectiveFigures true_figures() {
  CollectiveFigures figures;
  figures.ring = {{"LL", 5_us, 1_us, 4_us, 0.2, 0.3}, {"Simple", 12_us, 3_us, 9_us, 0.8, 0.9, 0.4}};
  figures.tree = {{"LL", 6_us, 1_us, 5_us, 0.2, 0.3}, {"Simple", 15_us, 3_us, 10_us, 0.75, 0.85}};
  return figures;
}

/// What figures predict, as if it had been measured.
std::vector<FabricRow> rows_of(const CollectiveFigures& figures) {
  FabricModel model(nodes_of_eight(), Packing::AsMeasured);
  std::vector<FabricRow> rows;
  for (const NcclOp op : {NcclOp::AllReduce, NcclOp::AllGather, NcclOp::ReduceScatter}) {
    for (const auto& [ranks, nodes] : {std::pair{2, 1}, {4, 1}, {8, 1}, {2, 2}, {16, 2}, {8, 8}, {64, 8}}) {
      for (double size = 4096; size < 2e9; size *= 8) {
        FabricRow row{op,         ranks,     nodes,     Bytes(size),
                      Seconds(1), "made up", "made up", {"rows", static_cast<int>(rows.size()), 0, ""}};
        row.time = model.predict(row, figures).time;
        rows.push_back(row);
      }
    }
  }
  return rows;
}

TEST_CASE("figures are found again in the times that they predict") {
  TopologySpec base = nodes_of_eight();
  CollectiveFigures start = true_figures();  // the same protocols, all figures off by up to half
  double off = 0.6;
  for (auto* list : {&start.ring, &start.tree}) {
    for (ProtocolFigures& one : *list) {
      one.call = one.call * off;
      one.hop_inside = one.hop_inside * (2 - off);
      one.hop_between = one.hop_between * off;
      one.share_inside = std::min(1.0, one.share_inside * (2 - off));
      one.share_between = std::min(1.0, one.share_between * off);
      off = 2 - off;
    }
  }
  base.collectives = start;
  const std::vector<FabricRow> rows = rows_of(true_figures());
  const FabricFit fit = fit_fabric(base, rows, Packing::AsMeasured);
  CHECK(fit.rows.size() == rows.size());
  CHECK(fit.left_out == 0);
  CHECK(fit.figures == 22);  // 4 protocols of 5, and what rings take for a rank's own block
  CHECK(errors_of(fit, [](const FabricRow&) { return true; }).mean < 0.03);
  CHECK(errors_of(fit, [](const FabricRow&) { return true; }).largest < 0.2);
}

TEST_CASE("a fit makes the best share the links' efficiency, and repeats itself") {
  const std::vector<FabricRow> rows = rows_of(true_figures());
  const FabricFit fit = fit_fabric(nodes_of_eight(), rows, Packing::AsMeasured);
  double best = 0;
  for (const ProtocolFigures& one : fit.topology.collectives->ring) best = std::max(best, one.share_inside);
  for (const ProtocolFigures& one : fit.topology.collectives->tree) best = std::max(best, one.share_inside);
  CHECK(best == 1.0);
  CHECK(fit.topology.scale_up->link.efficiency < 1.0);
  CHECK(fit.topology.collectives->send.empty());  // no row tells
  CHECK(fitted_topology_file(fit, "eights") ==
        fitted_topology_file(fit_fabric(nodes_of_eight(), rows, Packing::AsMeasured), "eights"));

  const test::Folder folder;  // ... as a file that every command takes
  const TopologySpec read = load_topology(folder.write("eights.yaml", fitted_topology_file(fit, "eights")));
  CHECK(read.collectives->ring.size() == fit.topology.collectives->ring.size());
  CHECK(read.accelerators == 16);
}

TEST_CASE(
    "a system that was never measured has the medians of those that were, what was taken over counting "
    "once") {
  const auto system = [](double call, double share, double efficiency) {
    TopologySpec spec = nodes_of_eight();
    spec.collectives.emplace().ring = {{"Simple", 1_us * call, 2_us, 3_us, share, 0.5}};
    spec.scale_up->link.efficiency = efficiency;
    return spec;
  };
  std::vector<TopologySpec> measured{system(10, 0.6, 0.7), system(10, 0.7, 0.7), system(10, 0.8, 0.7),
                                     system(20, 0.9, 0.9), nodes_of_eight()};  // the last without figures
  measured[3].collectives->ring.push_back({"LL", 5_us, 1_us, 1_us, 0.2, 0.2});
  measured[2].collectives->in_network = {{"Simple", 30_us, 2_us, 2_us, 1, 1}};
  const TypicalFigures typical = typical_figures(measured);
  REQUIRE(typical.collectives.ring.size() == 2);
  CHECK(typical.collectives.ring[0].call.si() == doctest::Approx(15e-6));    // of 10 and 20
  CHECK(typical.collectives.ring[0].share_inside == doctest::Approx(0.75));  // of 0.6, 0.7, 0.8, 0.9
  CHECK(typical.collectives.ring[1].call.si() == doctest::Approx(5e-6));
  CHECK(typical.efficiency_inside == doctest::Approx(0.8));
  CHECK(typical.efficiency_between == doctest::Approx(1.0));
  CHECK(typical.collectives.in_network.size() == 1);

  const TopologySpec changed = never_measured(measured[0], typical);
  CHECK(changed.scale_up->link.efficiency == doctest::Approx(0.8));
  CHECK(changed.collectives->in_network.empty());  // its switches do not add up
  CHECK(!never_measured(measured[2], typical).collectives->in_network.empty());
  CHECK_THROWS_AS(static_cast<void>(typical_figures(std::vector{nodes_of_eight()})), std::invalid_argument);
}

TEST_CASE("rows that the topology cannot hold are left out, and none at all is an error") {
  std::vector<FabricRow> rows = rows_of(true_figures());
  rows.resize(4);
  rows.push_back({NcclOp::AllReduce, 32, 2, 1_MB, 1_ms, "", "", {}});  // 16 in a node of 8
  rows.push_back({NcclOp::AllReduce, 9, 2, 1_MB, 1_ms, "", "", {}});   // not alike
  const FabricFit fit = fit_fabric(nodes_of_eight(), rows, Packing::AsMeasured);
  CHECK(fit.rows.size() == 4);
  CHECK(fit.left_out == 2);
  rows.erase(rows.begin(), rows.begin() + 4);
  CHECK_THROWS_AS(static_cast<void>(fit_fabric(nodes_of_eight(), rows, Packing::AsMeasured)),
                  std::invalid_argument);
}

TEST_CASE("rows of a table are picked by the texts of their columns") {
  const CsvTable table = CsvTable::parse(
      "op,gpu,ranks,nodes,size_bytes,time_us,setting\n"
      "all_reduce,H100,8,1,1048576,25.4,\n"
      "all_reduce,H100,8,1,1048576,99,NVLS off\n"
      "all_reduce,H100,1,1,1048576,1,\n"
      "hypercube,H100,8,1,1048576,25.4,\n"
      "sendrecv,H100,2,2,8,,\n",
      "t.csv");
  CHECK(fabric_rows(table, {}).size() == 2);  // one rank, an unknown op, no time
  const std::vector<FabricRow> rows = fabric_rows(table, {{"setting", "off", false}});
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].time.si() == doctest::Approx(25.4e-6));
  CHECK(rows[0].place.line == 2);
  CHECK(fabric_rows(table, {{"setting", "NVLS", true}}).size() == 1);
  CHECK_THROWS_WITH_AS(static_cast<void>(fabric_rows(table, {{"settin", "x", true}})),
                       doctest::Contains("did you mean \"setting\""), InputError);
}

// --- the catalogue against published rows ---

struct System {
  std::string topology, gpu;
  std::vector<RowFilter> filters;
  Packing packing = Packing::AsMeasured;
  double large, small;  // bounds of the mean |error|, as shares: 1 MiB and more; below
};

TEST_CASE("the catalogue's figures predict the published collectives they were fitted to") {
  const std::filesystem::path data =
      std::filesystem::path(SYNCLINE_SOURCE_DIR) / "../shared/data/published/nccl_collectives.csv";
  if (!std::filesystem::exists(data)) {
    MESSAGE("skipped: the published tables are not beside the source tree");
    return;
  }
  const CsvTable table = CsvTable::parse(read_text_file(data.string(), 64 << 20), data.string());
  const auto without = [](std::string column, std::string text) {
    return RowFilter{std::move(column), std::move(text), false};
  };
  const auto only = [](std::string column, std::string text) {
    return RowFilter{std::move(column), std::move(text), true};
  };
  const std::vector<System> systems = {
      {"dgx-a100",
       "A100",
       {only("nodes", "1"), without("source", "SuperBench"), without("source", "Vidur"),
        without("source", "Polaris"), without("gpu", "PCIe"), without("gpu", "pairs")},
       Packing::AsMeasured,
       0.10,
       0.10},
      {"dgx-h100",
       "H100-80GB SXM",
       {without("inter_network", "EFA"), without("inter_network", "TCPXO"), without("inter_network", "SHARP"),
        without("nccl_version", "2.28.7"), without("log_id", "pair-c"), without("op", "sendrecv")},
       Packing::AsMeasured,
       0.10,
       0.20},
      {"h100-efa", "H100-80GB SXM", {only("inter_network", "EFA")}, Packing::AsMeasured, 0.10, 0.20},
      {"dgx-h200",
       "H200",
       {without("setting", "NVLS_ENABLE=0"), without("setting", "NVLS off")},
       Packing::AsMeasured,
       0.10,
       0.15},
      {"dgx-b200",
       "B200",
       {without("gpu", "GB200"), without("setting", "NVLS_ENABLE=0"), without("setting", "torch")},
       Packing::AsMeasured,
       0.08,
       0.10},
      {"dgx-b300", "B300", {without("gpu", "GB300")}, Packing::AsMeasured, 0.08, 0.08},
      {"gb200-nvl72", "GB200", {}, Packing::FillNodes, 0.10, 0.10},
      {"gb300-nvl72", "GB300", {}, Packing::FillNodes, 0.08, 0.08},
      {"polaris",
       "A100-40GB SXM",
       {only("source", "Polaris"), only("setting", "set 5"), only("nodes", "2")},
       Packing::AsMeasured,
       0.25,
       0.30},
      {"mi300x", "MI300X", {}, Packing::AsMeasured, 0.10, 0.20},
      {"mi325x", "MI325X", {}, Packing::AsMeasured, 0.25, 0.25},
      {"mi355x", "MI355X", {}, Packing::AsMeasured, 0.10, 0.10},
      {"a100-superbench", "A100", {only("source", "SuperBench")}, Packing::AsMeasured, 0.06, 0.06},
      {"a100-nvlink-pairs", "A100", {only("intra_network", "NVLink b")}, Packing::FillNodes, 0.10, 0.15},
      {"gcp-a3-mega", "H100", {only("inter_network", "TCPX")}, Packing::AsMeasured, 0.05, 0.05},
      {"l40s-pcie", "L40S", {}, Packing::AsMeasured, 0.08, 0.15},
      {"rtx-pro-6000", "RTX PRO", {}, Packing::AsMeasured, 0.05, 0.10},
  };
  std::string report = "mean |error| of predicted time\n";
  for (const System& system : systems) {
    CAPTURE(system.topology);
    const TopologySpec spec = load_topology(system.topology);
    REQUIRE(spec.collectives);
    FabricModel model(spec, system.packing);
    FabricFit check;
    std::vector<RowFilter> filters = system.filters;
    filters.push_back({"gpu", system.gpu, true});
    for (const FabricRow& row : fabric_rows(table, filters)) {
      if (!model.covers(row, *spec.collectives)) continue;
      check.rows.push_back(row);
      check.predicted.push_back(model.predict(row, *spec.collectives).time);
    }
    const ErrorSummary large = errors_of(check, [](const FabricRow& row) { return row.size >= 1_MiB; });
    const ErrorSummary small = errors_of(check, [](const FabricRow& row) { return row.size < 1_MiB; });
    report += fmt::format("{:<14} {:>5} rows of 1 MiB and more {:>5.1f} %, {:>5} below {:>5.1f} %\n",
                          system.topology, large.rows, 100 * large.mean, small.rows, 100 * small.mean);
    CHECK(large.rows > 0);
    CHECK(large.mean < system.large);
    CHECK(small.mean < system.small);
  }
  MESSAGE(report);
}

}  // namespace
}  // namespace syncline::calibrate
