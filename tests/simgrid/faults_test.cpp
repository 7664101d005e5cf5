// Faults and noise on the engines: the fluid network is the plain loop to the last bit, others refuse what
// they cannot.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "backends/replay/replay.hpp"
#include "backends/simgrid/fluid_network.hpp"
#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/network/fluid.hpp"
#include "sim/topology/apply_faults.hpp"
#include "tests/support/small_schedules.hpp"

namespace syncline {
namespace {

using namespace literals;
using testing::ScheduleBuilder;

/// 8 nodes of one accelerator, two a leaf, under two spines.
Cluster tree(std::vector<Fault> faults, Noise noise = {}) {
  TopologySpec spec;
  spec.name = "tree";
  spec.accelerators = 8;
  spec.nic = NicSpec{1, {10_GBps, 1.0, 1_us}};
  spec.scale_out = FatTreeSpec{2, 4, {}, false, {1_GBps, 1.0, 1_us}};
  Cluster cluster{build_topology(spec), ideal_device(), placement_in_order(8), std::move(faults), noise, 3};
  apply_faults(cluster.topology, cluster.faults);
  return cluster;
}

Fault fault(Fault::Part part, std::string name) {
  Fault one;
  one.part = part;
  one.name = std::move(name);
  return one;
}
Fault late_spine() {
  Fault one = fault(Fault::Part::Switch, "spine1");
  one.down = true;
  one.at = Seconds(3e-3);
  one.reroute = Seconds(1e-3);
  return one;
}
Fault late_nic() {
  Fault one = fault(Fault::Part::Nic, "node3.nic0");
  one.bandwidth = 0.3;
  one.at = Seconds(2e-3);
  return one;
}
Fault half_nic(int node) {
  Fault one = fault(Fault::Part::Nic, "node" + std::to_string(node) + ".nic0");
  one.bandwidth = 0.5;
  return one;
}
Fault slow_accelerator(std::optional<Seconds> at = {}) {
  Fault one = fault(Fault::Part::Accelerator, "node5.gpu0");
  one.slowdown = 1.7;
  one.at = at;
  return one;
}

Schedule steps() {
  ScheduleBuilder b(8);
  std::vector<OpIndex> after;
  for (const CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::AllToAll, CollectiveKind::AllGather}) {
    const OpIndex work = b.compute(0, "compute", {1_ms}, after);
    after = {b.collective(0, "dp", kind, 4_MB, {work})};
  }
  return b.schedule;
}

std::vector<double> dates(const RunResult& result) {
  std::vector<double> all;
  for (const Span& span : result.timeline.spans)
    all.insert(all.end(), {span.start.si(), span.transfer.si(), span.end.si()});
  return all;
}

TEST_CASE("faults at a time and noise give the same bits on SimGrid's engine as in a plain loop") {
  const Cluster cluster = tree({late_spine(), late_nic(), slow_accelerator(Seconds(1.5e-3))}, {0.05, 0.1});
  for (const Detail detail : {Detail::Aggregate, Detail::Full}) {
    PlainNetwork plain(link_capacities(cluster.topology));
    const RunResult expected = replay(steps(), cluster, detail, plain);
    CHECK(expected.faults[0].rerouted > 0);
    for (int again = 0; again < 2; ++again) {
      simgrid_backend::FluidNetwork fluid(link_capacities(cluster.topology));
      CHECK(dates(expected) == dates(replay(steps(), cluster, detail, fluid)));
    }
  }
}

TEST_CASE("what an engine cannot do is refused with a way out") {
  Fault spine_down = late_spine();
  spine_down.at.reset();
  spine_down.reroute = Seconds(0);
  const RunOptions native{.detail = Detail::Full, .network = NetworkModel::Native}, folded{.fold = true};
  std::vector<Fault> all_nics;
  for (int node = 0; node < 8; ++node) all_nics.push_back(half_nic(node));
  const std::vector<Fault> all_but_last(all_nics.begin(), all_nics.end() - 1);
  struct Row {
    const char* name;
    Cluster cluster;
    RunOptions options;
    const char* expected;  // part of the message; "": it runs
  };
  const Row rows[] = {
      {"native, fault at a time", tree({late_spine()}), native,
       "\"spine1\" fails within the step, and the links of SimGrid's"},
      {"native, fault from the start", tree({spine_down}), native, ""},
      {"native, accelerator at a time", tree({slow_accelerator(Seconds(1e-3))}), native, ""},
      {"folded, noise", tree({}, {0.1, 0}), folded, "with noise every rank is different"},
      {"folded, slow accelerator", tree({slow_accelerator()}), folded,
       "\"node5.gpu0\" makes ranks of a role differ"},
      {"folded, fault at a time", tree({late_spine()}), folded, "\"spine1\" makes ranks of a role differ"},
      {"folded, spine from the start", tree({spine_down}), folded, "\"spine1\" makes ranks of a role differ"},
      {"folded, one NIC from the start", tree({half_nic(0)}), folded,
       "\"node0.nic0\" makes ranks of a role differ"},
      {"folded, all but one NIC", tree(all_but_last), folded, "\"node6.nic0\" makes ranks of a role differ"},
      {"folded, all NICs alike", tree(all_nics), folded, ""},
      {"not folded, one NIC", tree({half_nic(0)}), {}, ""},
  };
  for (const Row& row : rows) {
    const std::string name = row.name;
    CAPTURE(name);
    std::string message;
    try {
      const RunResult result = make_simgrid_backend()->run(steps(), row.cluster, row.options);
      CHECK(result.step_time > Seconds(3e-3));
    } catch (const std::invalid_argument& error) {
      message = error.what();
    }
    if (*row.expected == '\0')
      CHECK(message == "");
    else
      CHECK(message.find(row.expected) != std::string::npos);
  }
}

}  // namespace
}  // namespace syncline
