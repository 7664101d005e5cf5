// Every algorithm against its closed form, in every detail; what holds of all of them; and which one auto takes.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <stdexcept>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/collective/collective.hpp"
#include "tests/support/small_schedules.hpp"

namespace syncline {
namespace {

using namespace literals;
using testing::ScheduleBuilder;
using testing::star;
using enum CollectiveKind;

const RunOptions Full{Detail::Full, NetworkModel::Fluid};
const RunOptions Aggregate{Detail::Aggregate, NetworkModel::Fluid};
const RunOptions Native{Detail::Full, NetworkModel::Native};

RunResult run(const Cluster& cluster, CollectiveKind kind, Bytes bytes, Algorithm algorithm,
              RunOptions options, int chunks = 1) {
  ScheduleBuilder b(static_cast<int>(cluster.placement.size()));
  b.op(0, Collective{kind, FamilyId(0), algorithm, bytes, chunks}, "dp");
  return make_simgrid_backend()->run(b.schedule, cluster, options);
}
double time_of(const Cluster& cluster, CollectiveKind kind, Bytes bytes, Algorithm algorithm,
               RunOptions options, int chunks = 1) {
  return run(cluster, kind, bytes, algorithm, options, chunks).step_time.si();
}

Cluster cluster_of(TopologySpec spec) {
  const auto count = static_cast<std::size_t>(spec.accelerators);
  return {build_topology(spec), ideal_device(), placement_in_order(count)};
}

/// Behind a switch inside, a NIC each; between nodes one ideal switch, without latency but for what is given.
Cluster nodes(int count, int per_node, BytesPerSecond inside, BytesPerSecond outside,
              Seconds latency = Seconds(0)) {
  TopologySpec spec;
  spec.name = "nodes";
  spec.accelerators = count * per_node;
  spec.accelerators_per_node = per_node;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {inside, 1.0, latency}};
  spec.nic = NicSpec{per_node, {outside * 2.0, 1.0, latency}};
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::IdealSwitch, {outside, 1.0, latency}};
  return cluster_of(spec);
}

Cluster torus(const std::vector<int>& shape, Seconds latency = 1_us) {
  TopologySpec spec;
  spec.name = "torus";
  spec.accelerators = std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>());
  spec.scale_out = TorusSpec{shape, {}, static_cast<int>(shape.size()), {50_GBps, 1.0, latency}};
  return cluster_of(spec);
}

Cluster fat_tree(int node_count, double oversubscription, FatTreeRouting routing = FatTreeRouting::DModK) {
  TopologySpec spec;
  spec.name = "tree";
  spec.accelerators = node_count * 4;
  spec.accelerators_per_node = 4;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {400_GBps, 1.0, 500_ns}};
  spec.nic = NicSpec{4, {100_GBps, 1.0, 500_ns}};
  spec.scale_out = FatTreeSpec{2, 20, {oversubscription}, false, {50_GBps, 1.0, 1_us}, false, routing, 1};
  return cluster_of(spec);
}

TEST_CASE("algorithms in rounds take their closed-form time on a star, in every detail") {
  // Hops of α = 2 us, links of B = 50 GB/s. Powers of two: halving and doubling log2 n rounds each, in all (n−1)/n S;
  // binomial trees log2 n rounds of S, or of S/2, S/4, ... Else the rest hands over S before and takes it back after.
  const double B = 50e9, alpha = 2e-6;
  for (const double S : {1e3, 1e6, 256e6}) {
    struct Row {
      const char* name;
      CollectiveKind kind;
      Algorithm algorithm;
      int n;
      double rounds, moved;  // latencies that follow one another, and the share of S through the fullest link
    };
    for (const Row& row :
         {Row{"recursive all-reduce", AllReduce, Algorithm::Recursive, 8, 6, 2 * 7.0 / 8},
          {"recursive all-reduce of six", AllReduce, Algorithm::Recursive, 6, 6, 2 + 2 * 3.0 / 4},
          {"recursive all-gather", AllGather, Algorithm::Recursive, 16, 4, 15.0 / 16},
          // of six: hand over 1/6; halves of 2 + 1 and of 2 + 1 sixths and then 2; take back 5/6
          {"recursive all-gather of six", AllGather, Algorithm::Recursive, 6, 4, (1 + 2 + 4 + 5) / 6.0},
          {"recursive reduce-scatter", ReduceScatter, Algorithm::Recursive, 8, 3, 7.0 / 8},
          {"pairwise all-to-all", AllToAll, Algorithm::Pairwise, 8, 7, 7.0 / 8},
          {"binomial broadcast", Broadcast, Algorithm::Recursive, 8, 3, 3},
          {"binomial reduce", Reduce, Algorithm::Recursive, 8, 3, 3},
          {"binomial scatter", Scatter, Algorithm::Recursive, 8, 3, 7.0 / 8},
          {"binomial gather of five", Gather, Algorithm::Recursive, 5, 3, 0.2 + 0.4 + 0.2},
          {"direct scatter", Scatter, Algorithm::Direct, 8, 1, 7.0 / 8},
          {"direct gather", Gather, Algorithm::Direct, 8, 1, 7.0 / 8},
          {"direct reduce", Reduce, Algorithm::Direct, 8, 1, 7}}) {
      CAPTURE(row.name);
      CAPTURE(S);
      const Cluster cluster = star(row.n, 50_GBps, 1_us);
      const double expected = row.rounds * alpha + row.moved * S / B;
      for (const RunOptions& options : {Full, Aggregate, Native})
        CHECK(time_of(cluster, row.kind, Bytes(S), row.algorithm, options) ==
              doctest::Approx(expected).epsilon(1e-6));
    }
  }
}

TEST_CASE("hierarchical and two-hop collectives take their closed-form time on nodes") {
  // k nodes of g; rings inside at 400 GB/s and α = 2 us, across by rail at 50 GB/s and β = 4 us (host bus, fabric, and
  // back). Two-hop: to each of k−1 peers what is for its node, S/k; then inside to each of g−1 what came for it, S/g.
  const int k = 4, g = 8;
  const double S = 64e6, alpha = 2e-6, beta = 4e-6, Bi = 400e9, Bo = 50e9;
  const double inside = (g - 1) * alpha + S * (g - 1) / g / Bi,
               across = (k - 1) * beta + S / g * (k - 1) / k / Bo;
  struct Row {
    const char* name;
    CollectiveKind kind;
    Algorithm algorithm;
    double expected;
  };
  const Cluster cluster = nodes(k, g, 400_GBps, 50_GBps, 1_us);
  for (const Row& row : {Row{"all-reduce", AllReduce, Algorithm::Hierarchical, 2 * (inside + across)},
                         {"all-gather", AllGather, Algorithm::Hierarchical, inside + across},
                         {"reduce-scatter", ReduceScatter, Algorithm::Hierarchical, inside + across},
                         // parts of S/g from the root, binomial across: two rounds, together again inside
                         {"broadcast", Broadcast, Algorithm::Hierarchical,
                          alpha + S * (g - 1) / g / Bi + 2 * (beta + S / g / Bo) + inside},
                         {"all-to-all", AllToAll, Algorithm::TwoHop,
                          beta + S * (k - 1) / k / Bo + alpha + S * (g - 1) / g / Bi},
                         {"all-to-all by nodes", AllToAll, Algorithm::Hierarchical,
                          beta + S * (k - 1) / k / Bo + alpha + S * (g - 1) / g / Bi}}) {
    CAPTURE(row.name);
    for (const RunOptions& options : {Full, Aggregate, Native})
      CHECK(time_of(cluster, row.kind, Bytes(S), row.algorithm, options) ==
            doctest::Approx(row.expected).epsilon(1e-6));
  }
}

TEST_CASE("a shift goes from each member to the next, once, on its way") {
  // S = 10 MB, whatever channels rings have. Links of 50 GB/s and hops of α: 2 on a star. On a torus in
  // order, the last of a row goes round its end and one row on: two hops, links that nobody else of its
  // dimension takes.
  struct Row {
    const char* name;
    Cluster cluster;
    double latency, pace;  // s, bytes/s
  };
  TopologySpec mesh;
  mesh.name = "mesh";
  mesh.accelerators = 5;
  mesh.scale_out = AllToAllSpec{AllToAllSpec::Kind::FullMesh, {10_GBps, 1.0, 1_us}};
  for (const Row& row : {Row{"full mesh", cluster_of(mesh), 1e-6, 10e9},  // 1,001 us
                         {"star", star(8, 50_GBps, 1_us), 2e-6, 50e9},
                         {"ring", torus({8}), 1e-6, 50e9},
                         {"torus", torus({4, 4}), 2e-6, 50e9},
                         {"nodes", nodes(2, 4, 400_GBps, 50_GBps, 1_us), 4e-6, 50e9}}) {
    CAPTURE(row.name);
    for (const RunOptions& options : {Full, Aggregate, Native})
      CHECK(time_of(row.cluster, Shift, 10_MB, Algorithm::Auto, options) ==
            doctest::Approx(row.latency + 10e6 / row.pace).epsilon(1e-9));
  }
}

TEST_CASE("a shift after a ring of many channels is still a shift") {
  // The ways of both are looked up once: 4 (1 us + 2 MB / 4 rings / 10 GB/s) for the all-gather, then 1,001
  // us.
  TopologySpec mesh;
  mesh.name = "mesh";
  mesh.accelerators = 5;
  mesh.scale_out = AllToAllSpec{AllToAllSpec::Kind::FullMesh, {10_GBps, 1.0, 1_us}};
  const Cluster cluster = cluster_of(mesh);
  for (const RunOptions& options : {Full, Aggregate}) {
    ScheduleBuilder b(5);
    b.op(0, Collective{AllGather, FamilyId(0), Algorithm::Ring, 10_MB}, "dp");
    b.op(0, Collective{Shift, FamilyId(0), Algorithm::Auto, 10_MB}, "dp");
    CHECK(make_simgrid_backend()->run(b.schedule, cluster, options).step_time.si() ==
          doctest::Approx(4 * (1e-6 + 2e6 / 4 / 10e9) + 1001e-6).epsilon(1e-9));
  }
}

TEST_CASE("bucket uses every link of a torus at once, both ways") {
  // N members with 2d links of B = 50 GB/s each: 2 (N−1)/N S / (2 d B) after Σ 2 (n_i − 1) hops of 1 us.
  for (const std::vector<int>& shape : {std::vector<int>{8}, {4, 4}, {8, 8}, {4, 4, 4}, {3, 3, 3}}) {
    const Cluster cluster = torus(shape);
    const double N = static_cast<double>(cluster.placement.size()), d = static_cast<double>(shape.size());
    double hops = 0;
    for (const int extent : shape) hops += extent - 1;
    CAPTURE(N);
    for (const double S : {1e5, 64e6}) {
      const double half = hops * 1e-6 + (N - 1) / N * S / (2 * d * 50e9);
      for (const RunOptions& options : {Full, Aggregate, Native}) {
        CHECK(time_of(cluster, AllReduce, Bytes(S), Algorithm::Bucket, options) ==
              doctest::Approx(2 * half).epsilon(1e-6));
        CHECK(time_of(cluster, AllGather, Bytes(S), Algorithm::Bucket, options) ==
              doctest::Approx(half).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("bucket on a lopsided torus lies between its bound and three halves of it") {
  for (const std::vector<int>& shape : {std::vector<int>{4, 8}, {4, 4, 8}, {4, 8, 16}}) {
    const Cluster cluster = torus(shape, 0_us);
    const double N = static_cast<double>(cluster.placement.size()), d = static_cast<double>(shape.size());
    const double bound = 2 * (N - 1) / N * 1e9 / (2 * d * 50e9);
    const double time = time_of(cluster, AllReduce, 1_GB, Algorithm::Bucket, Aggregate);
    CAPTURE(N);
    CHECK(time >= bound * (1 - 1e-9));
    CHECK(time <= 1.5 * bound);
  }
}

// Two dimensions of 200 GB/s without latency, 100 MB, as nodes of the first and rails of the second. In one piece (2, 8):
// 50 MB inside, 2 · 7/8 of 50 MB across, 50 MB inside: 0.25 + 0.4375 + 0.25 ms; (8, 2): 0.4375 + 0.0625 + 0.4375. In many
// that follow each other the busier dimension decides: 0.25 + 0.25, and 0.4375 + 0.4375.
TEST_CASE("the order of dimensions counts for many pieces, not for one") {
  struct Row {
    std::string name;
    int inner, outer;
    double one, many;  // ms
  };
  for (const Row& row : {Row{"(2, 8)", 2, 8, 0.9375, 0.5}, {"(8, 2)", 8, 2, 0.9375, 0.875}}) {
    CAPTURE(row.name);
    const Cluster cluster = nodes(row.outer, row.inner, 200_GBps, 200_GBps);
    const auto ms = [&](int chunks, const RunOptions& options) {
      return 1e3 * time_of(cluster, AllReduce, 100_MB, Algorithm::Hierarchical, options, chunks);
    };
    for (const RunOptions& options : {Full, Aggregate}) {
      CHECK(ms(1, options) == doctest::Approx(row.one).epsilon(1e-9));
      double before = ms(1, options);
      for (const int chunks : {2, 8, 64}) {
        const double now = ms(chunks, options);
        CHECK(now <= before * (1 + 1e-9));
        CHECK(now >= row.many * (1 - 1e-9));
        before = now;
      }
      CHECK(before == doctest::Approx(row.many).epsilon(0.02));
    }
    CHECK(ms(1024, Aggregate) == doctest::Approx(row.many).epsilon(0.002));
  }
}

// --- what holds of all ---

struct Fabric {
  const char* name;
  Cluster cluster;
};
std::vector<Fabric> fabrics() {
  std::vector<Fabric> all;
  all.push_back({"star", star(8, 50_GBps, 1_us)});
  all.push_back({"nodes", nodes(4, 4, 400_GBps, 50_GBps, 1_us)});
  all.push_back({"torus", torus({4, 4})});
  all.push_back({"tree", fat_tree(4, 2)});
  return all;
}

TEST_CASE("what members send is on their links, in every detail, for every kind and algorithm") {
  // On the star every byte sent crosses one link up and one down.
  const Cluster cluster = star(8, 50_GBps, 1_us);
  for (const CollectiveKind kind :
       {AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, Scatter, Gather, AllToAll}) {
    for (const Algorithm algorithm : algorithms_of(kind)) {
      if (refusal_of(kind, algorithm, layout_of(cluster.placement, cluster.topology)) ||
          algorithm == Algorithm::InNetwork)
        continue;
      CAPTURE(std::string(name_of(kind)));
      CAPTURE(std::string(name_of(algorithm)));
      for (const RunOptions& options : {Full, Aggregate}) {
        const RunResult result = run(cluster, kind, 8_MB, algorithm, options);
        Bytes up, down;
        for (const LinkLoad& load : result.links)
          (cluster.topology.vertex(cluster.topology.link(load.link).from).kind == VertexKind::Accelerator
               ? up
               : down) += load.carried;
        CHECK(up.si() == doctest::Approx(result.bytes_sent.si()).epsilon(1e-9));
        CHECK(down.si() == doctest::Approx(result.bytes_sent.si()).epsilon(1e-9));
        CHECK(up > Bytes(0));
      }
    }
  }
}

TEST_CASE("both details put the same bytes on every link") {
  for (const Fabric& fabric : fabrics()) {
    CAPTURE(fabric.name);
    for (const CollectiveKind kind :
         {AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, Scatter, Gather, AllToAll}) {
      for (const Algorithm algorithm : algorithms_of(kind)) {
        const Cluster& cluster = fabric.cluster;
        if (refusal_of(kind, algorithm, layout_of(cluster.placement, cluster.topology)) ||
            algorithm == Algorithm::InNetwork)
          continue;
        CAPTURE(std::string(name_of(kind)));
        CAPTURE(std::string(name_of(algorithm)));
        const RunResult full = run(cluster, kind, 8_MB, algorithm, Full),
                        aggregate = run(cluster, kind, 8_MB, algorithm, Aggregate);
        REQUIRE(full.links.size() == aggregate.links.size());
        for (std::size_t i = 0; i < full.links.size(); ++i) {
          CHECK(full.links[i].link == aggregate.links[i].link);
          CHECK(full.links[i].carried.si() == doctest::Approx(aggregate.links[i].carried.si()).epsilon(1e-9));
        }
      }
    }
  }
}

TEST_CASE("no collective is faster than its bytes over the fullest link, and none takes longer for less") {
  for (const Fabric& fabric : fabrics()) {
    CAPTURE(fabric.name);
    const Topology& topology = fabric.cluster.topology;
    for (const CollectiveKind kind : {AllReduce, AllGather, Broadcast, Gather, AllToAll}) {
      CAPTURE(std::string(name_of(kind)));
      double before = 0;
      for (double bytes = 1e3; bytes < 1e9; bytes *= 8) {
        const RunResult result = run(fabric.cluster, kind, Bytes(bytes), Algorithm::Auto, Aggregate);
        CHECK(result.step_time.si() >= before * (1 - 1e-9));
        before = result.step_time.si();
        for (const LinkLoad& load : result.links)
          CHECK(load.carried / topology.link(load.link).bandwidth <= result.step_time * (1 + 1e-9));
      }
    }
  }
}

TEST_CASE("relabelling equal ranks changes nothing") {
  struct Row {
    const char* name;
    Cluster cluster;
    std::uint32_t by;  // all places moved on by so many
  };
  for (const Row& row : {Row{"star", star(8, 50_GBps, 1_us), 3},
                         {"nodes", nodes(4, 4, 400_GBps, 50_GBps, 1_us), 4},
                         {"torus", torus({4, 4}), 4},
                         {"tree", fat_tree(4, 1), 8}}) {
    CAPTURE(row.name);
    Cluster moved = row.cluster;
    const auto n = static_cast<std::uint32_t>(moved.placement.size());
    for (std::uint32_t rank = 0; rank < n; ++rank) moved.placement[rank] = AcceleratorId((rank + row.by) % n);
    for (const CollectiveKind kind : {AllReduce, AllGather, ReduceScatter, AllToAll}) {
      for (const Algorithm algorithm : algorithms_of(kind)) {
        if (refusal_of(kind, algorithm, layout_of(moved.placement, moved.topology)) ||
            algorithm == Algorithm::InNetwork)
          continue;
        CAPTURE(std::string(name_of(kind)));
        CAPTURE(std::string(name_of(algorithm)));
        CHECK(time_of(moved, kind, 8_MB, algorithm, Aggregate) ==
              doctest::Approx(time_of(row.cluster, kind, 8_MB, algorithm, Aggregate)).epsilon(1e-9));
      }
    }
  }
}

// --- bound by the fabric ---

TEST_CASE("an all-to-all on a torus is bound by its longest dimension") {
  // Uniform traffic with ways of least length, ties shared: a link in a dimension of n carries S·n/8 (n even), or
  // S·(n² − 1)/8n (n odd), whatever the other dimensions are (Dally and Towles, Principles and Practices of
  // Interconnection Networks, 2004, section 3.3: k/8 of the traffic of a node). B = 50 GB/s, no latency.
  for (const std::vector<int>& shape :
       {std::vector<int>{5}, {8}, {16}, {5, 5}, {4, 4, 4}, {4, 8}, {3, 5, 7}, {4, 4, 8}}) {
    const int n = *std::max_element(shape.begin(), shape.end());
    const double share = n % 2 == 0 ? n / 8.0 : (n * n - 1) / 8.0 / n;
    CAPTURE(shape.size());
    CAPTURE(n);
    CHECK(time_of(torus(shape, 0_us), AllToAll, 64_MB, Algorithm::Direct, Full) ==
          doctest::Approx(share * 64e6 / 50e9).epsilon(1e-6));
  }
}

TEST_CASE("an all-to-all through a 4:1 fat tree takes as long as its uplinks") {
  // 32 NICs. 1:1: 28 of 32 parts of S leave each NIC at 50 GB/s. 4:1: 16 NICs on a leaf with 4 uplinks, which carry the half
  // of 16 S that is for the other leaf: 2 S each.
  const double S = 64e6;
  const double even = time_of(fat_tree(8, 1), AllToAll, Bytes(S), Algorithm::Direct, Full);
  const double four = time_of(fat_tree(8, 4), AllToAll, Bytes(S), Algorithm::Direct, Full);
  CHECK(even == doctest::Approx(28.0 / 32 * S / 50e9).epsilon(0.02));
  CHECK(four == doctest::Approx(2 * S / 50e9).epsilon(0.02));
}

TEST_CASE("sprayed traffic loads its ways by their shares, and SimGrid's own network says that it cannot") {
  const Cluster sprayed = fat_tree(8, 4, FatTreeRouting::Spray);
  for (const RunOptions& options : {Full, Aggregate})
    CHECK(time_of(sprayed, AllToAll, 64_MB, Algorithm::Direct, options) ==
          doctest::Approx(2 * 64e6 / 50e9).epsilon(0.02));
  CHECK_THROWS_WITH_AS(time_of(sprayed, AllToAll, 64_MB, Algorithm::Direct, Native),
                       doctest::Contains("sprayed over several paths"), std::invalid_argument);
}

TEST_CASE("an exchange among so many that it is one action takes as long as its links") {
  // 600 ranks on a star send 599/600 of S each at 50 GB/s; of little to send the two hops of 1 us are left.
  const Cluster cluster = star(600, 50_GBps, 1_us);
  for (const double S : {600.0, 60e6})
    CHECK(time_of(cluster, AllToAll, Bytes(S), Algorithm::Direct, Aggregate) ==
          doctest::Approx(2e-6 + S * 599 / 600 / 50e9).epsilon(1e-6));
}

// --- auto ---

/// More kinds of fabric than the tests above need.
std::vector<Fabric> many_fabrics() {
  std::vector<Fabric> all = fabrics();
  const auto torus_of = [](std::vector<int> shape, std::vector<TwistSpec> twist) {
    TopologySpec spec;
    spec.name = "torus";
    spec.accelerators = std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>());
    spec.scale_out =
        TorusSpec{shape, {}, static_cast<int>(shape.size()), {50_GBps, 1.0, 1_us}, std::move(twist)};
    return cluster_of(spec);
  };
  const auto rails = [](bool rail_only) {
    TopologySpec spec;
    spec.name = "rails";
    spec.accelerators = 32;
    spec.accelerators_per_node = 4;
    spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {400_GBps, 1.0, 500_ns}};
    spec.nic = NicSpec{4, {100_GBps, 1.0, 500_ns}};
    spec.scale_out = FatTreeSpec{2, 8, {1}, true, {50_GBps, 1.0, 1_us}, rail_only};
    return cluster_of(spec);
  };
  const auto mesh = [](int n) {
    TopologySpec spec;
    spec.name = "mesh";
    spec.accelerators = n;
    spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::FullMesh, {50_GBps, 1.0, 1_us}};
    return cluster_of(spec);
  };
  all.push_back({"line of a torus", torus_of({8}, {})});
  all.push_back({"lopsided torus", torus_of({4, 8}, {})});
  all.push_back({"long torus", torus_of({2, 8}, {})});
  all.push_back({"long torus of three dimensions", torus_of({2, 2, 8}, {})});
  all.push_back({"torus of three lengths", torus_of({2, 4, 8}, {})});
  all.push_back({"torus of three dimensions", torus_of({4, 4, 4}, {})});
  all.push_back({"twisted torus", torus_of({4, 4, 8}, {{0, 2, 4}, {1, 2, 4}})});
  all.push_back({"rails", rails(false)});
  all.push_back({"rails only", rails(true)});
  all.push_back({"mesh of five", mesh(5)});
  all.push_back({"mesh of eight", mesh(8)});
  return all;
}

/// Whether auto has an algorithm in mind: direct exchanges of all with all only where every two have a link
/// of their own.
bool considered(CollectiveKind kind, Algorithm algorithm, const Cluster& cluster) {
  if (refusal_of(kind, algorithm, layout_of(cluster.placement, cluster.topology)) ||
      algorithm == Algorithm::InNetwork)
    return false;
  const bool all_with_all = kind == AllReduce || kind == AllGather || kind == ReduceScatter;
  return algorithm != Algorithm::Direct || !all_with_all || fully_meshed(cluster.placement, cluster.topology);
}

TEST_CASE("auto takes what ends first, alone on the network, or what ends within 3 % of it") {
  const bool print = std::getenv("SYNCLINE_PRINT_GRID") != nullptr;
  for (const Fabric& fabric : many_fabrics()) {
    CAPTURE(fabric.name);
    for (const CollectiveKind kind :
         {AllReduce, AllGather, ReduceScatter, Broadcast, Reduce, Scatter, Gather}) {
      CAPTURE(std::string(name_of(kind)));
      for (const double bytes : {64.0, 8e3, 64e3, 256e3, 1e6, 4e6, 64e6, 1e9}) {
        CAPTURE(bytes);
        const RunResult result = run(fabric.cluster, kind, Bytes(bytes), Algorithm::Auto, Aggregate);
        double best = 1e9;
        Algorithm which = Algorithm::Auto;
        for (const Algorithm algorithm : algorithms_of(kind)) {
          if (!considered(kind, algorithm, fabric.cluster)) continue;
          const double time = time_of(fabric.cluster, kind, Bytes(bytes), algorithm, Aggregate);
          if (time >= best) continue;
          best = time;
          which = algorithm;
        }
        CAPTURE(std::string(name_of(which)));
        CAPTURE(std::string(name_of(result.collectives[0].algorithm)));
        CHECK(result.step_time.si() <= best * 1.03);
        if (print && result.step_time.si() > best * 1.001)
          fmt::print("{:<26} {:<15} {:>11.0f} {:<13} {:+.1f} % of {}\n", fabric.name, name_of(kind), bytes,
                     name_of(result.collectives[0].algorithm), 100 * (result.step_time.si() / best - 1),
                     name_of(which));
      }
    }
  }
}

TEST_CASE("a torus gathers and reduces by bucket when there is much, and all-to-all stays direct") {
  const Cluster cluster = torus({4, 4, 4});
  for (const CollectiveKind kind : {AllReduce, AllGather, ReduceScatter})
    CHECK(run(cluster, kind, 1_GB, Algorithm::Auto, Aggregate).collectives[0].algorithm == Algorithm::Bucket);
  CHECK(run(cluster, AllToAll, 1_GB, Algorithm::Auto, Aggregate).collectives[0].algorithm ==
        Algorithm::Direct);
}

TEST_CASE("an algorithm that cannot carry out a kind says which can") {
  struct Row {
    CollectiveKind kind;
    Algorithm algorithm;
    std::string message;
  };
  const Cluster cluster = nodes(4, 4, 400_GBps, 50_GBps);
  for (const Row& row :
       {Row{Shift, Algorithm::Direct, "shift cannot go by direct; it goes by ring"},
        {Gather, Algorithm::Ring, "gather cannot go by ring; it goes by direct, recursive"},
        {AllReduce, Algorithm::Pairwise,
         "all-reduce cannot go by pairwise; it goes by ring, tree, in-network, bucket, hierarchical, "
         "recursive, direct"},
        {AllGather, Algorithm::Bucket,
         "bucket goes along the dimensions of a torus, and these ranks fill no box of one; try ring"}})
    CHECK_THROWS_WITH_AS(time_of(cluster, row.kind, 1_MB, row.algorithm, Aggregate), row.message.c_str(),
                         std::invalid_argument);
  Cluster uneven = cluster;
  uneven.placement.resize(6);  // four on one node, two on the next
  CHECK_THROWS_WITH_AS(time_of(uneven, AllReduce, 1_MB, Algorithm::Hierarchical, Aggregate),
                       "hierarchical needs equally many ranks on every node; try ring",
                       std::invalid_argument);
}

}  // namespace
}  // namespace syncline
