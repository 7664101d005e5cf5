// Parts that fail or slow down while a schedule is played, and ops that are uneven.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "backends/replay/changes.hpp"
#include "backends/replay/noise.hpp"
#include "backends/replay/replay.hpp"
#include "sim/collective/collective.hpp"
#include "sim/network/fluid.hpp"
#include "sim/topology/apply_faults.hpp"
#include "tests/support/small_schedules.hpp"

namespace syncline {
namespace {

using namespace literals;
using testing::ScheduleBuilder;
using testing::star;

RunResult run(const Schedule& schedule, const Cluster& cluster, Detail detail = Detail::Aggregate) {
  PlainNetwork network(link_capacities(cluster.topology));
  return replay(schedule, cluster, detail, network);
}

double length(const RunResult& result) {
  return result.step_time.si();
}
doctest::Approx seconds(double value) {
  return doctest::Approx(value).epsilon(1e-9);
}

Span span_of(const RunResult& result, unsigned rank, std::size_t op) {
  for (const Span& span : result.timeline.spans)
    if (span.rank == RankId(rank) && op-- == 0) return span;
  return {};
}

/// Nodes of one accelerator and one NIC, two a leaf, under two spines of equal cables; 1 GB/s, no latency.
Cluster two_spines(int nodes, const LinkSpec& link = {1_GBps, 1.0, 0_us}) {
  TopologySpec spec;
  spec.name = "tree";
  spec.accelerators = nodes;
  spec.nic = NicSpec{1, {10_GBps, 1.0, 0_us}};
  spec.scale_out = FatTreeSpec{2, 4, {}, false, link};
  return {build_topology(spec), ideal_device(), placement_in_order(static_cast<std::size_t>(nodes))};
}

Fault down(Fault::Part part, std::string name, std::optional<Seconds> at = {}, Seconds reroute = {}) {
  Fault fault;
  fault.part = part;
  fault.name = std::move(name);
  fault.down = true;
  fault.at = at;
  fault.reroute = reroute;
  return fault;
}
Fault narrow(Fault::Part part, std::string name, double share, std::optional<Seconds> at = {}) {
  Fault fault = down(part, std::move(name), at);
  fault.down = false;
  fault.bandwidth = share;
  return fault;
}
Fault slow(std::string name, double factor, std::optional<Seconds> at = {}) {
  Fault fault = down(Fault::Part::Accelerator, std::move(name), at);
  fault.down = false;
  fault.slowdown = factor;
  return fault;
}

/// As a question's cluster is made.
Cluster with(Cluster cluster, std::vector<Fault> faults) {
  cluster.faults = std::move(faults);
  apply_faults(cluster.topology, cluster.faults);
  return cluster;
}

/// Rank 0 sends `bytes` to the last one.
Schedule one_send(int ranks, Bytes bytes) {
  ScheduleBuilder b(ranks, static_cast<std::size_t>(ranks));
  b.one_role_a_rank();
  b.send(0, "send", ranks - 1, bytes);
  b.receive(static_cast<std::size_t>(ranks - 1), "recv", 0, bytes);
  return b.schedule;
}

/// The spine on the way between the first and the last rank.
std::string spine_between_ends(const Cluster& cluster) {
  const Topology& topology = cluster.topology;
  for (const LinkId link :
       topology.route(AcceleratorId(0), AcceleratorId(topology.accelerators().size() - 1)))
    if (const Vertex& vertex = topology.vertex(topology.link(link).to); vertex.level == 2) return vertex.name;
  return "";
}

// --- slow accelerators ---

TEST_CASE("a straggler holds up the step by its own slowness, whoever waits for it") {
  // 4 ms of compute on each of 4 ranks, then an all-gather of 4 MB over 1 GB/s: 3 steps of 1 MB = 3 ms.
  ScheduleBuilder b(4);
  const OpIndex work = b.compute(0, "compute", {4_ms});
  b.collective(0, "dp", CollectiveKind::AllGather, 4_MB, {work}, Algorithm::Ring);
  const Cluster cluster = star(4, 1_GBps, 0_us);
  CHECK(length(run(b.schedule, cluster)) == seconds(7e-3));
  const RunResult result = run(b.schedule, with(cluster, {slow("node2.gpu0", 1.5)}));
  CHECK(length(result) == seconds(4e-3 * 1.5 + 3e-3));
  REQUIRE(result.faults.size() == 1);
  CHECK(result.faults[0].rank == RankId(2));
}

TEST_CASE("an op under way goes on at the new pace, and later ones have it from their start") {
  // 10 ms of work, 4 of them done when the device gets slower: 4 + 6 · 1.5 = 13 ms; 2 ms more take 3.
  ScheduleBuilder b(1);
  b.compute(0, "compute", {10_ms});
  b.compute(0, "compute", {2_ms});
  const RunResult result =
      run(b.schedule, with(star(1, 1_GBps, 0_us), {slow("node0.gpu0", 1.5, Seconds(4e-3))}));
  CHECK(span_of(result, 0, 0).end.si() == seconds(13e-3));
  CHECK(span_of(result, 0, 1).end.si() == seconds(16e-3));
}

TEST_CASE("what the host still has to issue is not slower, and runs slower then") {
  struct Row {
    const char* name;
    std::vector<Seconds> kernels;  // issued at 5, 10 and 15 ms
    std::vector<Seconds> slower;   // dates; by 2 each
    double end;                    // ms
  };
  const Row rows[] = {
      {"at its pace: 15 + 1", {1_ms, 1_ms, 1_ms}, {}, 16},
      {"while the device waits: 15 + 2", {1_ms, 1_ms, 1_ms}, {8_ms}, 17},
      {"a long one is still to come: 10 + 24, + 2", {1_ms, 12_ms, 1_ms}, {8_ms}, 36},
      {"2 of 4 ms done of the second after a wait: 12 + 4, + 8", {4_ms, 4_ms, 4_ms}, {12_ms}, 24},
      {"again, with 4 of the 8 done of the last: 20 + 8", {4_ms, 4_ms, 4_ms}, {12_ms, 20_ms}, 28},
  };
  Device device = ideal_device();
  device.launch = 5_ms;
  for (const Row& row : rows) {
    CAPTURE(row.name);
    ScheduleBuilder b(1);
    b.compute(0, "compute", row.kernels);
    std::vector<Fault> faults;
    for (const Seconds date : row.slower) faults.push_back(slow("node0.gpu0", 2, date));
    const RunResult result = run(b.schedule, with(star(1, 1_GBps, 0_us, device), faults));
    CHECK(span_of(result, 0, 0).end.si() == seconds(row.end * 1e-3));
  }
}

TEST_CASE("at the moment at which one op ends and the next begins a fault is of the next") {
  ScheduleBuilder compute(1);
  compute.compute(0, "compute", {10_ms});
  compute.compute(0, "compute", {2_ms});
  CHECK(
      length(run(compute.schedule, with(star(1, 1_GBps, 0_us), {slow("node0.gpu0", 1.5, Seconds(10e-3))}))) ==
      seconds(10e-3 + 3e-3));

  ScheduleBuilder sends(2, 2);
  sends.one_role_a_rank();
  for (int i = 0; i < 2; ++i) {
    sends.send(0, "send", 1, 2_MB);
    sends.receive(1, "recv", 0, 2_MB);
  }
  const Fault fault = narrow(Fault::Part::Link, "node0.gpu0 -> fabric", 0.25, Seconds(2e-3));
  CHECK(length(run(sends.schedule, with(star(2, 1_GBps, 0_us), {fault}))) == seconds(2e-3 + 8e-3));
}

TEST_CASE("slowness of several kinds multiplies, and none comes after the end") {
  Device device = ideal_device();
  device.compute_rate_while_communicating = 0.5;
  ScheduleBuilder b(2, 2);
  b.one_role_a_rank();
  b.collective(0, "dp", CollectiveKind::AllGather, 4_MB, {}, Algorithm::Ring);  // 2 MB a step: 2 ms
  b.compute(0, "compute", {3_ms});
  b.collective(1, "dp", CollectiveKind::AllGather, 4_MB, {}, Algorithm::Ring);
  // Until 1 ms at half pace: 0.5 done; then 2.5 · 2 = 5 of work: until 2 ms at half pace 0.5, the other 4.5
  // alone.
  const Cluster cluster = star(2, 1_GBps, 0_us, device);
  const RunResult result = run(b.schedule, with(cluster, {slow("node0.gpu0", 2, Seconds(1e-3))}));
  CHECK(span_of(result, 0, 1).end.si() == seconds(6.5e-3));
  CHECK(length(run(b.schedule, with(cluster, {slow("node0.gpu0", 2, Seconds(1))}))) ==
        seconds(length(run(b.schedule, cluster))));
}

TEST_CASE("an accelerator without a rank slows nobody") {
  ScheduleBuilder b(1);
  b.compute(0, "compute", {1_ms});
  const RunResult result = run(b.schedule, with(star(2, 1_GBps, 0_us), {slow("node1.gpu0", 3)}));
  CHECK(length(result) == seconds(1e-3));
  CHECK_FALSE(result.faults[0].rank.has_value());
}

// --- links ---

TEST_CASE("a link that gets narrower slows what is on its way") {
  // 2 MB at 1 GB/s; at 1 ms one is over, the other takes 4 ms at a quarter.
  for (const std::string name : {"node0.gpu0 -> fabric", "node0.gpu0 - fabric"}) {
    const Cluster cluster =
        with(star(2, 1_GBps, 0_us), {narrow(Fault::Part::Link, name, 0.25, Seconds(1e-3))});
    CHECK(length(run(one_send(2, 2_MB), cluster)) == seconds(5e-3));
  }
  const Cluster other =
      with(star(2, 1_GBps, 0_us), {narrow(Fault::Part::Link, "fabric -> node0.gpu0", 0.25, Seconds(1e-3))});
  CHECK(length(run(one_send(2, 2_MB), other)) == seconds(2e-3));
}

TEST_CASE("over a switch that goes down a transfer stands still until the routes avoid it") {
  // 3 MB over 1 GB/s, 1 ms of it before, 5 ms standing still, 2 ms over the other spine.
  const Cluster whole = two_spines(8);
  const std::string spine = spine_between_ends(whole);
  const Cluster cluster = with(whole, {down(Fault::Part::Switch, spine, Seconds(1e-3), Seconds(5e-3))});
  const RunResult result = run(one_send(8, 3_MB), cluster);
  CHECK(length(result) == seconds(8e-3));
  CHECK(result.faults[0].rerouted == 1);
  CHECK(result.detours > 0);
  for (const LinkLoad& load : result.links) {
    const Link& link = cluster.topology.link(load.link);
    const bool lost =
        cluster.topology.vertex(link.to).name == spine || cluster.topology.vertex(link.from).name == spine;
    const bool other =
        cluster.topology.vertex(link.to).level == 2 || cluster.topology.vertex(link.from).level == 2;
    if (lost)
      CHECK(load.carried.si() == doctest::Approx(1e6));
    else if (other)
      CHECK(load.carried.si() == doctest::Approx(2e6));
    else
      CHECK(load.carried.si() == doctest::Approx(3e6));
  }
}

TEST_CASE("a fault elsewhere, or after the end, changes nothing") {
  const Cluster whole = two_spines(8);
  const std::string spine = spine_between_ends(whole), other = spine == "spine0" ? "spine1" : "spine0";
  CHECK(length(run(one_send(8, 3_MB), with(whole, {down(Fault::Part::Switch, other, Seconds(1e-3))}))) ==
        seconds(3e-3));
  const RunResult late = run(one_send(8, 3_MB), with(whole, {down(Fault::Part::Switch, spine, Seconds(1))}));
  CHECK(length(late) == seconds(3e-3));
  CHECK(late.faults[0].rerouted == 0);
  CHECK(late.detours == 0);
}

TEST_CASE("a narrow link that is down already stays so") {
  const Cluster whole = two_spines(8);
  const std::string spine = spine_between_ends(whole);
  const Cluster cluster = with(whole, {down(Fault::Part::Switch, spine, Seconds(1e-3), Seconds(5e-3)),
                                       narrow(Fault::Part::Switch, spine, 0.5, Seconds(2e-3))});
  CHECK(length(run(one_send(8, 3_MB), cluster)) == seconds(8e-3));
}

struct Case {
  CollectiveKind kind;
  Algorithm algorithm;
};

std::vector<Case> every_algorithm() {
  std::vector<Case> all;
  for (const CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll, CollectiveKind::Broadcast})
    for (const Algorithm algorithm : algorithms_of(kind))
      if (algorithm != Algorithm::InNetwork && algorithm != Algorithm::Bucket)
        all.push_back({kind, algorithm});
  return all;
}

/// A collective, work until well after, and another one.
Schedule two_collectives(int ranks, const Case& one, Seconds work) {
  ScheduleBuilder b(ranks);
  const OpIndex first = b.collective(0, "dp", one.kind, 4_MB, {}, one.algorithm);
  const OpIndex between = b.compute(0, "compute", {work}, {first});
  b.collective(0, "dp", one.kind, 4_MB, {between}, one.algorithm);
  return b.schedule;
}

double second_collective(const RunResult& result) {
  const Span span = span_of(result, 0, 2);
  return (span.end - span.transfer).si();
}

TEST_CASE("after a fault every collective costs what it costs with that fault from the start") {
  const Cluster whole = two_spines(8, {1_GBps, 1.0, 1_us});
  const std::vector<Fault> kinds{
      down(Fault::Part::Switch, "spine1"), down(Fault::Part::Link, "leaf0 - spine0"),
      narrow(Fault::Part::Switch, "spine0", 0.25), narrow(Fault::Part::Nic, "node3.nic0", 0.5)};
  int slower = 0;
  for (const Case& one : every_algorithm()) {
    const Schedule schedule = two_collectives(8, one, Seconds(1));
    for (const Detail detail : {Detail::Aggregate, Detail::Full}) {
      const double undisturbed = second_collective(run(schedule, whole, detail));
      for (const Fault& fault : kinds) {
        CAPTURE(name_of(one.kind));
        CAPTURE(name_of(one.algorithm));
        CAPTURE(fault.name);
        Fault late = fault;
        late.at = Seconds(0.5);
        late.reroute = Seconds(0.1);
        const double expected = second_collective(run(schedule, with(whole, {fault}), detail));
        CHECK(second_collective(run(schedule, with(whole, {late}), detail)) == seconds(expected));
        if (expected > undisturbed * 1.01) ++slower;
      }
    }
  }
  CHECK(slower > 20);
}

TEST_CASE("a collective under way stands still with the links it is on, and then goes on") {
  // Two ranks on two leaves: whatever the algorithm, one way there and one back, and both spines serve as
  // well.
  const Cluster whole = [] {
    Cluster four = two_spines(8);
    four.placement = {AcceleratorId(0), AcceleratorId(7)};
    return four;
  }();
  const std::string spine = spine_between_ends(whole);
  for (const Case& one : every_algorithm()) {
    if (refusal_of(one.kind, one.algorithm, {})) continue;
    CAPTURE(name_of(one.kind));
    CAPTURE(name_of(one.algorithm));
    ScheduleBuilder b(2);
    b.collective(0, "dp", one.kind, 8_MB, {}, one.algorithm);
    for (const Detail detail : {Detail::Aggregate, Detail::Full}) {
      const double undisturbed = length(run(b.schedule, whole, detail));
      CHECK(undisturbed > 2e-3);
      const Fault fault = down(Fault::Part::Switch, spine, Seconds(1e-3), Seconds(5e-3));
      const RunResult result = run(b.schedule, with(whole, {fault}), detail);
      CHECK(result.faults[0].rerouted > 0);
      // The way back may be over the other spine, and has nothing to wait for.
      CHECK(length(result) <= undisturbed + 5e-3 + 1e-9);
      CHECK(length(result) >= undisturbed + 4e-3 - 1e-9);
    }
  }
}

TEST_CASE("a link that is narrow from the start is not hidden by folding, whoever is played") {
  // Pairs gather 2 MB, 1 ms at 1 GB/s, then all gather 8 MB in 7 steps of 1 ms. Rank 5 sends at a quarter of that: 4 + 28
  // ms. Rank 0 alone is played.
  ScheduleBuilder b(8);
  b.schedule.meshes.emplace_back("pairs", std::vector<MeshAxis>{{"tp", 2}, {"replica", 4}});
  b.schedule.families.push_back(GroupFamily::along("tp", b.schedule.meshes.back(), {"tp"}));
  const OpIndex pair =
      b.op(0, Collective{CollectiveKind::AllGather, FamilyId(1), Algorithm::Ring, 2_MB}, "tp");
  b.collective(0, "dp", CollectiveKind::AllGather, 8_MB, {pair}, Algorithm::Ring);
  const Cluster whole = star(8, 1_GBps, 0_us);
  const Cluster broken = with(whole, {narrow(Fault::Part::Link, "node5.gpu0 -> fabric", 0.25)});
  for (const Cast& cast : {everybody(b.schedule), one_a_role(b.schedule)}) {
    CAPTURE(cast.folded());
    const auto length_on = [&](const Cluster& cluster) {
      PlainNetwork network(link_capacities(cluster.topology));
      return length(replay(b.schedule, cluster, cast, Detail::Aggregate, network));
    };
    CHECK(length_on(whole) == seconds(1e-3 + 7e-3));
    CHECK(length_on(broken) == seconds(4e-3 + 28e-3));
  }
}

// --- what an architect asks ---

/// Nodes of `per_node` on a switch, with as many NICs, on a tree of 2 levels with 4 spines.
Cluster pod(int nodes, int per_node) {
  TopologySpec spec;
  spec.name = "pod";
  spec.accelerators = nodes * per_node;
  spec.accelerators_per_node = per_node;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {100_GBps, 1.0, 0_us}};
  spec.nic = NicSpec{per_node, {100_GBps, 1.0, 0_us}};
  spec.scale_out = FatTreeSpec{2, 16, {}, false, {10_GBps, 1.0, 0_us}};
  return {build_topology(spec), ideal_device(),
          placement_in_order(static_cast<std::size_t>(nodes * per_node))};
}

TEST_CASE("a NIC that is down halves the rate of a ring that has two") {
  // 2 NICs a node: each carries the ring of its own accelerator; with one left both rings share it.
  ScheduleBuilder b(8);
  b.collective(0, "dp", CollectiveKind::AllReduce, 80_MB, {}, Algorithm::Ring);
  const Cluster whole = pod(4, 2);
  const double before = length(run(b.schedule, whole));
  const double after = length(run(b.schedule, with(whole, {down(Fault::Part::Nic, "node1.nic0")})));
  CHECK(after / before == doctest::Approx(2).epsilon(0.01));
}

TEST_CASE("one cable of the eight that a leaf has up costs little, and nothing where others are idle") {
  struct Row {
    CollectiveKind kind;
    Algorithm algorithm;
    double at_least, at_most;  // times the whole network's
  };
  // A ring leaves most cables up idle. All to all fills them: seven for eight, 8/7, if the rest were evenly
  // spread.
  const Row rows[] = {{CollectiveKind::AllReduce, Algorithm::Ring, 1, 1},
                      {CollectiveKind::AllToAll, Algorithm::Direct, 8.0 / 7, 1.5}};
  const Cluster whole = pod(16, 4);
  const Cluster broken = with(whole, {down(Fault::Part::Link, "leaf0 - spine0 #0")});
  for (const Row& row : rows) {
    CAPTURE(name_of(row.kind));
    ScheduleBuilder b(64);
    b.collective(0, "dp", row.kind, 80_MB, {}, row.algorithm);
    const double ratio = length(run(b.schedule, broken)) / length(run(b.schedule, whole));
    CHECK(ratio >= row.at_least * (1 - 1e-9));
    CHECK(ratio <= row.at_most * (1 + 1e-9));
  }
}

// --- what cannot be ---

std::string refusal(const Cluster& whole, const std::vector<Fault>& faults) {
  try {
    run(one_send(static_cast<int>(whole.placement.size()), 1_MB), with(whole, faults));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a network that falls apart later is refused before the run, by the names of who is cut off") {
  const std::vector<Fault> both{down(Fault::Part::Switch, "spine0"),
                                down(Fault::Part::Switch, "spine1", Seconds(1))};
  CHECK(refusal(two_spines(8), both).find(" cannot reach node0.gpu0") != std::string::npos);
  CHECK(refusal(two_spines(8), {both[1]}).empty());
}

TEST_CASE("an accelerator that goes down within the step ends the job, and that is said") {
  CHECK(refusal(star(2, 1_GBps, 0_us), {down(Fault::Part::Accelerator, "node1.gpu0", Seconds(1e-3))})
            .find("a synchronous job stops there") != std::string::npos);
}

// --- unevenness ---

TEST_CASE("factors have mean 1 and the variation that was asked for") {
  constexpr int Draws = 40000;
  for (const double variation : {0.02, 0.3, 1.0}) {
    CAPTURE(variation);
    double sum = 0, squares = 0;
    for (int op = 0; op < Draws; ++op) {
      const double factor = noise_factor(variation, 7, 0, 3, static_cast<std::uint64_t>(op));
      CHECK(factor > 0);
      sum += factor;
      squares += factor * factor;
    }
    const double mean = sum / Draws;
    CHECK(std::abs(mean - 1) < 4 * variation / std::sqrt(Draws));
    CHECK(std::sqrt(squares / Draws - mean * mean) == doctest::Approx(variation).epsilon(0.06));
  }
  CHECK(noise_factor(0, 7, 0, 3, 1) == 1);
}

TEST_CASE("an op's draw is its own: seed, rank and op, and nothing else") {
  ScheduleBuilder small(2), large(4);
  for (ScheduleBuilder* b : {&small, &large}) b->compute(0, "compute", {10_ms});
  large.compute(0, "other", {3_ms});
  const auto noisy = [](int ranks, std::uint64_t seed) {
    Cluster cluster = star(ranks, 1_GBps, 0_us);
    cluster.noise.compute = 0.1;
    cluster.seed = seed;
    return cluster;
  };
  const RunResult two = run(small.schedule, noisy(2, 1)), four = run(large.schedule, noisy(4, 1));
  for (unsigned rank = 0; rank < 2; ++rank) CHECK(span_of(two, rank, 0).end == span_of(four, rank, 0).end);
  CHECK(span_of(two, 0, 0).end != span_of(two, 1, 0).end);
  CHECK(span_of(four, 0, 0).end.si() / 10e-3 != doctest::Approx(span_of(four, 0, 1).end.si() / 3e-3));
  CHECK(length(run(small.schedule, noisy(2, 2))) != length(two));
  CHECK(length(run(small.schedule, noisy(2, 1))) == length(two));
}

TEST_CASE("latency is uneven on its own") {
  // 1 MB over two links of 1 GB/s and 1 ms: 1 ms and 2 ms times the factor of rank 0's first op.
  Cluster cluster = star(2, 1_GBps, 1_ms);
  cluster.noise.latency = 0.2;
  const double factor = noise_factor(0.2, 0, 1, 0, 0);
  CHECK(std::abs(factor - 1) > 1e-3);
  CHECK(length(run(one_send(2, 1_MB), cluster)) == seconds(1e-3 + 2e-3 * factor));
}

TEST_CASE("the more ranks wait for one another, the more unevenness costs: the mean of the largest of n") {
  // Steps of 1 ms with a barrier after each. The largest of n normals is 0, 1.03, 1.77, 2.34 deviations above
  // the mean for n = 1, 4, 16, 64 (Harter, Biometrika 48, 1961); of a lognormal with small variation nearly
  // as much.
  struct Row {
    int ranks;
    double deviations;
  };
  constexpr int Steps = 400;
  for (const Row& row : {Row{1, 0}, Row{4, 1.03}, Row{16, 1.77}, Row{64, 2.34}}) {
    CAPTURE(row.ranks);
    ScheduleBuilder b(row.ranks);
    std::vector<OpIndex> after;
    for (int step = 0; step < Steps; ++step) {
      const OpIndex work = b.compute(0, "compute", {1_ms}, after);
      after = {b.collective(0, "dp", CollectiveKind::AllReduce, Bytes(1), {work}, Algorithm::Ring)};
    }
    Cluster cluster = star(row.ranks, BytesPerSecond(1e15), 0_us);
    cluster.noise.compute = 0.05;
    const double mean = length(run(b.schedule, cluster)) / Steps;
    CHECK(std::abs((mean / 1e-3 - 1) / 0.05 - row.deviations) < 0.2);
  }
}

}  // namespace
}  // namespace syncline
