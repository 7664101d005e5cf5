// Collectives against their closed forms, and the aggregate form against the full expansion.
#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>

#include "backends/simgrid/simgrid_backend.hpp"
#include "tests/support/small_schedules.hpp"

namespace syncline {
namespace {

using namespace literals;
using testing::ScheduleBuilder;
using testing::star;

double time_of(const Cluster& cluster, CollectiveKind kind, Bytes bytes, Algorithm algorithm,
               RunOptions options) {
  ScheduleBuilder b(static_cast<int>(cluster.placement.size()));
  b.collective(0, "dp", kind, bytes, {}, algorithm);
  return make_simgrid_backend()->run(b.schedule, cluster, options).step_time.si();
}

const RunOptions Full{Detail::Full, NetworkModel::Fluid};
const RunOptions Aggregate{Detail::Aggregate, NetworkModel::Fluid};
const RunOptions Native{Detail::Full, NetworkModel::Native};

TEST_CASE("ring and direct collectives take their closed-form time on an uncontended fabric") {
  // Star: links of B = 50 GB/s and 1 us; a hop is two links, α = 2 us. With S bytes and n ranks:
  // ring all-reduce 2(n−1)(α + S/nB); all-gather, reduce-scatter (n−1)(α + S/nB); all-to-all by ring
  // (n−1)α + n(n−1)/2 · S/nB; direct: every rank sends n−1 parts over its one link, α + (n−1)S/nB; twice for all-reduce.
  const double B = 50e9, alpha = 2e-6;
  for (const int n : {2, 3, 8, 16}) {
    for (const double S : {1e3, 1e6, 256e6}) {
      const double part = S / n / B;
      struct Row {
        const char* name;
        CollectiveKind kind;
        Algorithm algorithm;
        double expected;
      };
      using enum CollectiveKind;
      for (const Row& row :
           {Row{"ring all-reduce", AllReduce, Algorithm::Ring, 2 * (n - 1) * (alpha + part)},
            {"ring all-gather", AllGather, Algorithm::Ring, (n - 1) * (alpha + part)},
            {"ring reduce-scatter", ReduceScatter, Algorithm::Ring, (n - 1) * (alpha + part)},
            {"ring all-to-all", AllToAll, Algorithm::Ring, (n - 1) * alpha + n * (n - 1) / 2.0 * part},
            {"direct all-reduce", AllReduce, Algorithm::Direct, 2 * (alpha + (n - 1) * part)},
            {"direct all-gather", AllGather, Algorithm::Direct, alpha + (n - 1) * part},
            {"direct all-to-all", AllToAll, Algorithm::Direct, alpha + (n - 1) * part},
            {"direct broadcast", Broadcast, Algorithm::Direct, alpha + (n - 1) * S / B}}) {
        CAPTURE(row.name);
        CAPTURE(n);
        CAPTURE(S);
        const Cluster cluster = star(n, 50_GBps, 1_us);
        CHECK(time_of(cluster, row.kind, Bytes(S), row.algorithm, Full) ==
              doctest::Approx(row.expected).epsilon(1e-6));
        CHECK(time_of(cluster, row.kind, Bytes(S), row.algorithm, Aggregate) ==
              doctest::Approx(row.expected).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("a chain broadcast takes its pieces and one more round a hop") {
  // 4 MiB in 8 pieces down 4 hops among 5 ranks: 8 + 4 − 1 rounds of 2 us + 512 KiB / 50 GB/s.
  const double expected = 11 * (2e-6 + 524288 / 50e9);
  const Cluster cluster = star(5, 50_GBps, 1_us);
  for (const RunOptions& options : {Full, Aggregate, Native})
    CHECK(time_of(cluster, CollectiveKind::Broadcast, 4_MiB, Algorithm::Ring, options) ==
          doctest::Approx(expected).epsilon(1e-6));
}

TEST_CASE("a ring of 1024 ranks, transfer by transfer and as one action, equals the closed form") {
  const Cluster cluster = star(1024, 50_GBps, 1_us);
  const double expected = 2 * 1023 * (2e-6 + 256e6 / 1024 / 50e9);
  CHECK(time_of(cluster, CollectiveKind::AllReduce, 256_MB, Algorithm::Ring, Full) ==
        doctest::Approx(expected).epsilon(1e-6));
  CHECK(time_of(cluster, CollectiveKind::AllReduce, 256_MB, Algorithm::Ring, Aggregate) ==
        doctest::Approx(expected).epsilon(1e-6));
}

Cluster nodes_on_a_tree(int nodes, double oversubscription, bool rails = false) {
  TopologySpec spec;
  spec.name = "tree";
  spec.accelerators = nodes * 4;
  spec.accelerators_per_node = 4;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {400_GBps, 1.0, 500_ns}};
  spec.nic = NicSpec{4, {100_GBps, 1.0, 500_ns}};
  spec.scale_out = FatTreeSpec{2, 20, {oversubscription}, rails, {50_GBps, 1.0, 1_us}};
  return {build_topology(spec), ideal_device(), placement_in_order(static_cast<std::size_t>(nodes * 4))};
}

Cluster torus(std::vector<int> shape) {
  TopologySpec spec;
  spec.name = "torus";
  spec.accelerators = 1;
  for (const int extent : shape) spec.accelerators *= extent;
  spec.scale_out = TorusSpec{shape, {}, static_cast<int>(shape.size()), {50_GBps, 1.0, 1_us}};
  const auto count = static_cast<std::size_t>(spec.accelerators);
  return {build_topology(spec), ideal_device(), placement_in_order(count)};
}

TEST_CASE("the aggregate form of a lone collective stays near its full expansion on real fabrics") {
  struct Row {
    std::string name;
    Cluster cluster;
  };
  std::vector<Row> rows;
  rows.push_back({"fat tree 1:1", nodes_on_a_tree(8, 1)});
  rows.push_back({"fat tree 4:1", nodes_on_a_tree(8, 4)});
  rows.push_back({"rail-optimised", nodes_on_a_tree(8, 1, true)});
  rows.push_back({"torus 4x4x4", torus({4, 4, 4})});
  // Rings are exact, and chains always expanded. All-to-all, and what little is broadcast directly: the
  // transfers of one source share its progress, so that ways which differ in width or length are told apart
  // on average only; the less there is to send, the more that matters.
  struct Size {
    Bytes bytes;
    double direct;  // largest error accepted, as a share
  };
  using enum CollectiveKind;
  for (const Row& row : rows) {
    CAPTURE(row.name);
    for (const Size& size : {Size{64_kB, 0.15}, {4_MB, 0.05}, {256_MB, 0.002}}) {
      for (const CollectiveKind kind : {AllReduce, AllGather, Broadcast, AllToAll}) {
        CAPTURE(std::string(name_of(kind)));
        CAPTURE(size.bytes.si());
        const double full = time_of(row.cluster, kind, size.bytes, Algorithm::Auto, Full);
        const double aggregate = time_of(row.cluster, kind, size.bytes, Algorithm::Auto, Aggregate);
        CAPTURE(full);
        CAPTURE(aggregate);
        CHECK(std::abs(aggregate / full - 1) < (kind == AllToAll || kind == Broadcast ? size.direct : 1e-6));
      }
    }
  }
}

TEST_CASE("SimGrid's own network gives the same time for a collective expanded in full") {
  for (const Cluster& cluster :
       {star(8, 50_GBps, 1_us), nodes_on_a_tree(4, 4), nodes_on_a_tree(4, 1, true)}) {
    for (const CollectiveKind kind :
         {CollectiveKind::AllReduce, CollectiveKind::AllToAll, CollectiveKind::Broadcast}) {
      CAPTURE(std::string(name_of(kind)));
      CHECK(time_of(cluster, kind, 16_MB, Algorithm::Auto, Native) ==
            doctest::Approx(time_of(cluster, kind, 16_MB, Algorithm::Auto, Full)).epsilon(1e-6));
    }
  }
}

TEST_CASE("the native network is refused for aggregate collectives, which it cannot carry") {
  const Cluster cluster = star(4, 50_GBps, 1_us);
  CHECK_THROWS_AS(time_of(cluster, CollectiveKind::AllReduce, 1_MB, Algorithm::Ring,
                          {Detail::Aggregate, NetworkModel::Native}),
                  std::invalid_argument);
}

TEST_CASE("bytes between nodes are counted from the algorithm's own transfers") {
  ScheduleBuilder b(32);
  b.collective(0, "dp", CollectiveKind::AllReduce, 32_MB, {}, Algorithm::Ring);
  const RunResult result = make_simgrid_backend()->run(b.schedule, nodes_on_a_tree(8, 1), Aggregate);
  REQUIRE(result.collectives.size() == 1);
  const CollectiveChoice& choice = result.collectives[0];
  CHECK(choice.algorithm == Algorithm::Ring);
  CHECK(choice.channels == 4);
  CHECK(choice.group_size == 32);
  CHECK(choice.nodes_spanned == 8);
  // 4 rings, 8 hops between nodes each, every hop carries 2·31 parts of 32 MB / 4 / 32.
  CHECK(choice.bytes_between_nodes.si() == doctest::Approx(4 * 8 * 62 * 0.25e6));
  double carried = 0;  // and so do the links out of the NICs
  const Topology topology = nodes_on_a_tree(8, 1).topology;
  for (const LinkLoad& load : result.links) {
    const Link& link = topology.link(load.link);
    if (link.kind == LinkKind::HostBus && topology.vertex(link.to).kind == VertexKind::Nic)
      carried += load.carried.si();
  }
  CHECK(carried == doctest::Approx(4 * 8 * 62 * 0.25e6));
}

// Data-parallel gradients on hosts of 8: +30.0 ms for 4 hosts and +35.0 ms for 8 when the exchange is on; nothing
// crosses a host, and the time is the same, when it is off.
TEST_CASE("more hosts cost more only when something crosses them") {
  const auto run = [](int hosts, bool exchange) {
    TopologySpec spec;
    spec.name = "hosts";
    spec.accelerators = hosts * 8;
    spec.accelerators_per_node = 8;
    spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {450_GBps, 1.0, 0_us}};
    spec.nic = NicSpec{8, {100_GBps, 1.0, 0_us}};
    spec.scale_out = FatTreeSpec{0, 64, {}, true, {50_GBps, 1.0, 0_us}};
    const Cluster cluster{build_topology(spec), ideal_device(),
                          placement_in_order(static_cast<std::size_t>(hosts * 8))};
    ScheduleBuilder b(hosts * 8);
    b.schedule.meshes = {Mesh("dense", {{"tp", 8}, {"dp", hosts}})};
    b.schedule.families = {GroupFamily::along("dp", b.schedule.meshes[0], {"dp"}),
                           GroupFamily::along("tp", b.schedule.meshes[0], {"tp"})};
    const OpIndex work = b.compute(0, "compute", {10_ms});
    const OpIndex tp =
        b.op(0, Collective{CollectiveKind::AllReduce, FamilyId(1), Algorithm::Auto, 64_MB}, "tp", {work});
    if (exchange) b.collective(0, "dp", CollectiveKind::AllReduce, 1_GB, {tp});
    return make_simgrid_backend()->run(b.schedule, cluster, Aggregate);
  };
  const RunResult off4 = run(4, false), off8 = run(8, false), on4 = run(4, true), on8 = run(8, true);
  CHECK(off4.step_time == off8.step_time);
  for (const RunResult* off : {&off4, &off8})
    for (const CollectiveChoice& choice : off->collectives) {
      CHECK(choice.nodes_spanned == 1);
      CHECK(choice.bytes_between_nodes == Bytes(0));
    }
  CHECK((on4.step_time - off4.step_time).si() ==
        doctest::Approx(30.0e-3).epsilon(1e-9));  // 2·3/4 · 1 GB / 50 GB/s
  CHECK((on8.step_time - off8.step_time).si() ==
        doctest::Approx(35.0e-3).epsilon(1e-9));  // 2·7/8 · 1 GB / 50 GB/s
  CHECK(on4.collectives[0].bytes_between_nodes.si() ==
        doctest::Approx(6e9));  // 4 hops of 2·3/4 GB in one group
}

}  // namespace
}  // namespace syncline
