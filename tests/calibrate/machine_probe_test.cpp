#include "sim/calibrate/machine_probe.hpp"

#include <doctest/doctest.h>

#include <array>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/schedule/check.hpp"
#include "sim/topology/topology.hpp"

using namespace syncline;
using namespace syncline::calibrate;

namespace {

constexpr std::array Sizes{Bytes(8), Bytes(4e6)};

/// Four accelerators on a switch: 1 GB/s, 1 us a link.
Cluster switch_of_four() {
  TopologySpec spec;
  spec.name = "switch";
  spec.accelerators = spec.accelerators_per_node = 4;
  spec.scale_up.emplace();
  spec.scale_up->link = {BytesPerSecond(1e9), 1.0, Seconds(1e-6)};
  return {build_topology(spec), ideal_device(), placement_in_order(4)};
}

Timeline simulated(const Schedule& schedule) {
  return make_simgrid_backend()->run(schedule, switch_of_four(), {}).timeline;
}

}  // namespace

TEST_CASE("every kind is probed in pairs and by all, where a member has a number at least") {
  const std::vector<CollectiveProbe> probes = collective_probes(4, Sizes);
  CHECK(probes.size() == 7 * 2 + 7);  // 8 B are 2 B of each of four: left out
  CHECK(collective_probes(2, Sizes).size() == 7 * 2);
}

TEST_CASE("probes are sound schedules, and measuring a simulated machine gives its own times") {
  const std::vector<CollectiveProbe> probes = collective_probes(4, Sizes);
  const Schedule schedule = collective_schedule(4, probes, 3, Seconds(0.001));
  REQUIRE(check_schedule(schedule) == std::vector<std::string>{});
  const std::vector<FabricRow> rows = measured_rows(probes, 4, simulated(schedule));
  REQUIRE(rows.size() == probes.size());
  const auto time = [&](NcclOp op, int ranks) {
    for (const FabricRow& row : rows)
      if (row.op == op && row.ranks == ranks && row.size == Bytes(4e6)) return row.time.si();
    return 0.0;
  };
  // A hop crosses two links: 2 us; S = 4 MB at 1 GB/s: 4 ms.
  CHECK(time(NcclOp::AllReduce, 4) == doctest::Approx(6 * (2e-6 + 0.001)));  // 2 (n - 1) steps of S / n
  CHECK(time(NcclOp::AllGather, 4) == doctest::Approx(3 * (2e-6 + 0.001)));  // n - 1
  CHECK(time(NcclOp::AllGather, 2) == doctest::Approx(2e-6 + 0.002));
  CHECK(time(NcclOp::AllToAll, 4) == doctest::Approx(2e-6 + 0.003));     // S / n to each of three others
  CHECK(time(NcclOp::SendReceive, 4) == doctest::Approx(2e-6 + 0.004));  // all at once, each on its own links
}

TEST_CASE("the time of a probe is from the last to come to the last to end, in the median of repeats but the first") {
  const std::array probes{CollectiveProbe{NcclOp::AllReduce, 2, Bytes(1000)}};
  Timeline timeline;
  timeline.ops.resize(4);
  const auto add = [&](std::uint32_t repeat, std::size_t rank, double start, double end) {
    timeline.ops[repeat].kind = SpanKind::Communication;
    timeline.ops[repeat].tag = {Phase::Other, 0, static_cast<int>(repeat), -1, "probe"};
    timeline.spans.push_back({RankId(rank), repeat, Seconds(start), Seconds(start), Seconds(end)});
  };
  add(0, 0, 0.0, 0.1), add(0, 1, 0.0, 0.1);      // to warm up
  add(1, 0, 1.0, 5.0), add(1, 1, 3.0, 5.5);      // 2.5
  add(2, 0, 11.0, 12.0), add(2, 1, 10.0, 12.0);  // 1
  add(3, 0, 20.0, 29.0), add(3, 1, 20.0, 21.0);  // 9
  const std::vector<FabricRow> rows = measured_rows(probes, 2, timeline);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].time == Seconds(2.5));
  CHECK(rows_csv(rows, "one, machine") ==
        "op,gpu,ranks,nodes,size_bytes,time_us\nall_reduce,\"one, machine\",2,1,1000,2500000.000\n");
}

TEST_CASE("a pair lies in one node where the world lies in two") {
  const std::vector<CollectiveProbe> probes = collective_probes(4, std::array{Bytes(4e6)});
  const Schedule schedule = collective_schedule(4, probes, 2, Seconds(0.001));
  for (const FabricRow& row : measured_rows(probes, 2, simulated(schedule))) CHECK(row.nodes == row.ranks / 2);
}

TEST_CASE("what an op takes of host and stream is read out of ops without work") {
  const Schedule schedule = launch_schedule(2);
  REQUIRE(check_schedule(schedule).empty());
  Cluster cluster = switch_of_four();
  cluster.device.launch = Seconds(7e-6);
  const Timeline timeline = make_simgrid_backend()->run(schedule, cluster, {}).timeline;
  const LaunchCost cost = launch_cost(timeline);
  CHECK(cost.launch.si() == doctest::Approx(7e-6));
  CHECK(cost.gap.si() == doctest::Approx(0));  // all were issued when the long op ended
}

TEST_CASE("kernels are timed by shape") {
  const Schedule schedule = kernel_schedule(1, Precision::Fp32, 512, Bytes(1e6), 3);
  REQUIRE(check_schedule(schedule).empty());
  Timeline timeline;
  double now = 0;
  for (std::size_t i = 0; i < schedule.roles[0].program.size(); ++i) {
    TimelineOp op;
    op.tag = schedule.roles[0].program[i].tag;
    timeline.ops.push_back(op);
    const Kernel& kernel = schedule.works[static_cast<std::size_t>(op.tag.layer)].kernels.front();
    // 2 GFLOP/s or 0.5 GB/s; but the first of each is slow.
    const double time = (kernel.kind == KernelClass::Gemm ? kernel.flop.si() / 2e9 : kernel.hbm.si() / 0.5e9) *
                        (op.tag.microbatch == 0 ? 10 : 1);
    timeline.spans.push_back(
        {RankId(0), static_cast<std::uint32_t>(i), Seconds(now), Seconds(now), Seconds(now + time)});
    now += time;
  }
  const MeasuredKernels measured = measured_kernels(schedule, timeline, "cpu");
  CHECK(measured.best.si() == doctest::Approx(2e9));
  CHECK(measured.memory.si() == doctest::Approx(0.5e9));
  CHECK(measured.gemm_csv.find("\ncpu,matmul,512,512,512,fp32,0.002\n") != std::string::npos);
}

TEST_CASE("compute beside communication is held against compute alone") {
  const Schedule schedule = interference_schedule(2, Precision::Fp32, 64, Bytes(4e6));
  REQUIRE(check_schedule(schedule).empty());
  Timeline timeline;
  timeline.ops.resize(3);
  timeline.ops[0].tag.layer = 1;
  timeline.ops[1].kind = SpanKind::Communication;
  timeline.ops[2].tag.layer = 2;
  const auto add = [&](std::uint32_t op, double start, double end) {
    timeline.spans.push_back({RankId(0), op, Seconds(start), Seconds(start), Seconds(end)});
  };
  add(0, 0, 1), add(0, 1, 2), add(1, 2, 6);
  add(2, 2, 3.25), add(2, 3.25, 4.5);
  add(2, 4.5, 6.5);  // outlasts what communicates: not counted
  CHECK(rate_beside_communication(timeline).value() == doctest::Approx(0.8));
  timeline.spans.resize(3);
  CHECK(!rate_beside_communication(timeline));  // nothing ran beside it
}
