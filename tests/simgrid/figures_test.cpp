// Collectives and sends on a topology that has figures of its communication library.
#include <doctest/doctest.h>

#include <stdexcept>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/collective/cost.hpp"
#include "tests/support/small_schedules.hpp"

namespace syncline {
namespace {

using namespace literals;
using testing::ScheduleBuilder;

const RunOptions Full{Detail::Full, NetworkModel::Fluid};
const RunOptions Aggregate{Detail::Aggregate, NetworkModel::Fluid};
const RunOptions Native{Detail::Full, NetworkModel::Native};

CollectiveFigures figures() {
  CollectiveFigures made;
  made.ring = {{"LL", 5_us, 1_us, 4_us, 0.2, 0.25}, {"Simple", 20_us, 4_us, 9_us, 0.8, 0.9}};
  made.tree = {{"LL", 6_us, 1_us, 5_us, 0.2, 0.25}, {"Simple", 25_us, 4_us, 10_us, 0.7, 0.8}};
  made.in_network = {{"Simple", 30_us, 3_us, 12_us, 0.9, 0.8}};
  made.direct = {{"Simple", 8_us, 0.5_us, 2_us, 0.75, 0.85}};
  made.send = {{"LL", 0_us, 3_us, 10_us, 0.2, 0.2}, {"Simple", 0_us, 8_us, 20_us, 0.9, 0.5}};
  return made;
}

/// Nodes of 4 behind a switch of 400 GB/s, with a NIC of 50 GB/s each.
Cluster nodes_of_four(int nodes, std::optional<CollectiveFigures> library = figures()) {
  TopologySpec spec;
  spec.name = "fours";
  spec.accelerators = nodes * 4;
  spec.accelerators_per_node = 4;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {400_GBps, 1.0, 500_ns}};
  spec.nic = NicSpec{4, {100_GBps, 1.0, 500_ns}};
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::IdealSwitch, {50_GBps, 1.0, 1_us}};
  spec.collectives = std::move(library);
  return {build_topology(spec), ideal_device(), placement_in_order(static_cast<std::size_t>(nodes * 4))};
}

RunResult run(const Cluster& cluster, CollectiveKind kind, Bytes bytes, Algorithm algorithm,
              RunOptions options) {
  ScheduleBuilder b(static_cast<int>(cluster.placement.size()));
  b.collective(0, "dp", kind, bytes, {}, algorithm);
  return make_simgrid_backend()->run(b.schedule, cluster, options);
}

/// By hand, for all of the cluster: latency and the fullest link.
double expected_time(Algorithm algorithm, const ProtocolFigures& one, int nodes, double S) {
  const double n = 4.0 * nodes, up = 400e9, nic = 50e9;
  const double log2 = nodes == 1 ? 0 : nodes == 2 ? 1 : 2;
  const double i = one.hop_inside.si(), o = one.hop_between.si(), call = one.call.si();
  switch (algorithm) {
    case Algorithm::
        Ring: {  // 2(n − 1)/n · S in 4 rings: on a scale-up link, where not all hops are inside, 3 of 4
      const double steps = 2 * (n - 1), between = nodes == 1 ? 0 : steps * nodes / n;
      const double moved = steps / n * S;
      const double inside = moved / up * (nodes == 1 ? 1 : 0.75), out = nodes == 1 ? 0 : moved / 4 / nic;
      return call + (steps - between) * i + between * o +
             std::max(inside / one.share_inside, out / one.share_between);
    }
    case Algorithm::InNetwork:  // 5/4 S to the switch; of two nodes a quarter of S out of each NIC
      return call + 2 * i + 2 * log2 * o +
             std::max(1.25 * S / up / one.share_inside, nodes == 1 ? 0 : S / 4 / nic / one.share_between);
    case Algorithm::
        Tree:  // two nodes: chains of 4 in 4 channels, on the middle links twice 2/4 S... and S/4 out of each NIC
      return call + 6 * i + 2 * log2 * o +
             std::max(1.5 * S / up / one.share_inside, S / 4 / nic / one.share_between);
    default: return 0;
  }
}

TEST_CASE("a collective alone takes what its figures predict, in every detail and on SimGrid's own network") {
  struct Row {
    const char* name;
    Algorithm algorithm;
    int nodes;
    double bytes;
    std::string protocol;
  };
  const CollectiveFigures library = figures();
  for (const Row& row : {Row{"small ring", Algorithm::Ring, 1, 1e4, "LL"},
                         {"large ring", Algorithm::Ring, 1, 1e9, "Simple"},
                         {"small ring across", Algorithm::Ring, 2, 1e4, "LL"},
                         {"large ring across", Algorithm::Ring, 4, 1e9, "Simple"},
                         {"in the network", Algorithm::InNetwork, 1, 1e8, "Simple"},
                         {"in the network across", Algorithm::InNetwork, 2, 1e8, "Simple"},
                         {"large tree", Algorithm::Tree, 2, 1e9, "Simple"}}) {
    CAPTURE(row.name);
    const Cluster cluster = nodes_of_four(row.nodes);
    const auto& protocols = protocols_of(library, CollectiveKind::AllReduce, row.algorithm);
    const ProtocolFigures& one = row.protocol == "LL" ? protocols.front() : protocols.back();
    const double expected = expected_time(row.algorithm, one, row.nodes, row.bytes);
    for (const RunOptions& options : {Aggregate, Full, Native}) {
      const RunResult result =
          run(cluster, CollectiveKind::AllReduce, Bytes(row.bytes), row.algorithm, options);
      CHECK(result.step_time.si() == doctest::Approx(expected).epsilon(1e-6));
      REQUIRE(result.collectives.size() == 1);
      CHECK(result.collectives[0].algorithm == row.algorithm);
      CHECK(result.collectives[0].protocol == row.protocol);
    }
  }
}

TEST_CASE("auto takes what ends first, says so, and never takes longer for less") {
  for (const int nodes : {1, 2, 4}) {
    CAPTURE(nodes);
    const Cluster cluster = nodes_of_four(nodes);
    double before = 0;
    for (double bytes = 64; bytes < 1e10; bytes *= 4) {
      CAPTURE(bytes);
      const RunResult result =
          run(cluster, CollectiveKind::AllReduce, Bytes(bytes), Algorithm::Auto, Aggregate);
      double best = 1e9;
      for (const Algorithm algorithm : {Algorithm::Ring, Algorithm::InNetwork, Algorithm::Tree}) {
        if (algorithm == Algorithm::Tree && nodes == 1) continue;
        const RunResult one = run(cluster, CollectiveKind::AllReduce, Bytes(bytes), algorithm, Aggregate);
        if (one.step_time.si() < best) {
          best = one.step_time.si();
          CHECK(result.step_time.si() <= best * (1 + 1e-9));
        }
      }
      CHECK(result.step_time.si() == doctest::Approx(best).epsilon(1e-9));
      CHECK(result.step_time.si() >= before);
      CHECK_FALSE(result.collectives[0].protocol.empty());
      before = result.step_time.si();
    }
  }
}

TEST_CASE("a broadcast by ring takes what its figures predict, in every detail") {
  // 3 hops of four ranks behind a switch: 20 + 3 · 4 us; 1 GB over each hop at 0.8 · 400 GB/s.
  for (const RunOptions& options : {Aggregate, Full, Native})
    for (const CollectiveKind kind : {CollectiveKind::Broadcast, CollectiveKind::Reduce})
      CHECK(run(nodes_of_four(1), kind, 1_GB, Algorithm::Ring, options).step_time.si() ==
            doctest::Approx(32e-6 + 1 / 320.0).epsilon(1e-6));
}

TEST_CASE("a gather takes what the figures of direct exchanges predict, in every detail") {
  // Three others to the first, a quarter of 1 GB each, all over its link: 8 + 3 · 0.5 us, 0.75 GB at 0.75 ·
  // 400 GB/s.
  for (const RunOptions& options : {Aggregate, Full, Native})
    for (const CollectiveKind kind : {CollectiveKind::Gather, CollectiveKind::Scatter})
      CHECK(run(nodes_of_four(1), kind, 1_GB, Algorithm::Auto, options).step_time.si() ==
            doctest::Approx(9.5e-6 + 0.75 / 300).epsilon(1e-6));
}

TEST_CASE("two collectives on the same links share what both would take together, latency once") {
  const Cluster cluster = nodes_of_four(1);
  ScheduleBuilder b(4);
  b.op(0, Collective{CollectiveKind::AllGather, FamilyId(0), Algorithm::Ring, 1_GB}, "one", {});
  b.op(0, Collective{CollectiveKind::AllGather, FamilyId(0), Algorithm::Ring, 1_GB}, "other", {});
  const double together = make_simgrid_backend()->run(b.schedule, cluster, Aggregate).step_time.si();
  // 20 + 3 · 4 us; each alone moves its 0.75 GB at 0.8 · 400 GB/s, both at half of 400
  CHECK(together == doctest::Approx(32e-6 + 2 * 0.75 / 400).epsilon(1e-6));
}

TEST_CASE("a slow protocol leaves others what it does not put on the links") {
  // All-gather of 1 GB by a ring of four at 0.2 of 400 GB/s, each byte with a flag as long: 5 + 3 us + 0.75
  // GB / 80 GB/s, and 160 GB/s on every link meanwhile. A send beside it has 400 for the first 8 us (or 8 us
  // in all), less its own latency of 1 us, then 240 GB/s as long as the all-gather lasts, then 400 again.
  CollectiveFigures library;
  library.ring = {{"LL", 5_us, 1_us, 4_us, 0.2, 0.25, 0, 2}};
  const Cluster cluster = nodes_of_four(1, library);
  const double alone = 8e-6 + 0.75 / 80;
  for (const RunOptions& options : {Aggregate, Full, Native}) {
    for (const double gigabytes : {1.0, 3.0}) {
      CAPTURE(gigabytes);
      ScheduleBuilder b(4, 4);
      b.one_role_a_rank();
      for (std::size_t rank = 0; rank < 4; ++rank)
        b.op(rank, Collective{CollectiveKind::AllGather, FamilyId(0), Algorithm::Ring, 1_GB}, "dp");
      b.send(0, "pp", 1, 1_GB * gigabytes);
      b.receive(1, "pp", 0, 1_GB * gigabytes);
      const double beside = 7e-6 * 400 + 0.75 / 80 * 240;  // GB
      const double expected = gigabytes < beside ? alone : alone + (gigabytes - beside) / 400;
      CHECK(make_simgrid_backend()->run(b.schedule, cluster, options).step_time.si() ==
            doctest::Approx(expected).epsilon(1e-6));
    }
  }
}

TEST_CASE("what a protocol adds to its bytes is on the links, and no more than it has time for") {
  CollectiveFigures library;
  library.ring = {
      {"LL", 5_us, 1_us, 4_us, 0.8, 0.25, 0, 2}};  // flags as long as the data do not fit 0.8 inside: 1.25
  for (const RunOptions& options : {Aggregate, Full}) {
    const RunResult result =
        run(nodes_of_four(1, library), CollectiveKind::AllGather, 1_GB, Algorithm::Ring, options);
    CHECK(result.step_time.si() == doctest::Approx(8e-6 + 0.75 / 400 / 0.8).epsilon(1e-6));
    for (const LinkLoad& load : result.links)
      if (load.carried > Bytes(0)) CHECK(load.carried.si() == doctest::Approx(0.75e9 * 1.25).epsilon(1e-6));
  }
}

TEST_CASE("a limit of nodes slows what leaves them together, and nothing inside") {
  CollectiveFigures limited = figures();
  limited.node_limit = 120_GBps;  // of 4 NICs of 50 GB/s
  const auto time = [](const Cluster& cluster) {
    return run(cluster, CollectiveKind::AllGather, 1_GB, Algorithm::Ring, Aggregate).step_time.si();
  };
  CHECK(time(nodes_of_four(1, limited)) == time(nodes_of_four(1)));
  // 16 ranks: 15/16 GB leave each node at 120 GB/s; 15 steps, a quarter of them between nodes.
  CHECK(time(nodes_of_four(4, limited)) ==
        doctest::Approx(20e-6 + 11.25 * 4e-6 + 3.75 * 9e-6 + 15.0 / 16 / 120).epsilon(1e-6));
}

TEST_CASE("reduction in the network needs figures, and carries all-reduce only") {
  CHECK_THROWS_AS(
      run(nodes_of_four(2, std::nullopt), CollectiveKind::AllReduce, 1_MB, Algorithm::InNetwork, Aggregate),
      std::invalid_argument);
  for (const Algorithm algorithm : {Algorithm::Tree, Algorithm::InNetwork})
    CHECK_THROWS_AS(run(nodes_of_four(2), CollectiveKind::AllGather, 1_MB, algorithm, Aggregate),
                    std::invalid_argument);
}

TEST_CASE("without figures no protocol is named, and links alone decide") {
  // Four behind a switch, hops of 1 us: ring 2 · 3 steps of 1 MB; halving and doubling moves as much in 2 · 2 rounds.
  const Cluster node = nodes_of_four(1, std::nullopt);
  const auto time = [&node](Algorithm algorithm) {
    return run(node, CollectiveKind::AllReduce, 4_MB, algorithm, Aggregate).step_time.si();
  };
  CHECK(time(Algorithm::Ring) == doctest::Approx(6 * (1e-6 + 1e6 / 400e9)).epsilon(1e-9));
  CHECK(time(Algorithm::Recursive) == doctest::Approx(4 * 1e-6 + 6e6 / 400e9).epsilon(1e-9));
  const RunResult result = run(node, CollectiveKind::AllReduce, 4_MB, Algorithm::Auto, Aggregate);
  CHECK(result.collectives[0].protocol.empty());
  CHECK(result.collectives[0].algorithm == Algorithm::Recursive);
  CHECK(result.step_time.si() == doctest::Approx(time(Algorithm::Recursive)).epsilon(1e-12));
}

}  // namespace
}  // namespace syncline
