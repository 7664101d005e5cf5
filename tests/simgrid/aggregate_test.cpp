// How far the aggregate form of collectives is from their full expansion, over a grid: the table of docs/collectives.md.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/collective/collective.hpp"
#include "tests/support/small_schedules.hpp"

namespace syncline {
namespace {

using namespace literals;
using testing::ScheduleBuilder;
using enum CollectiveKind;

constexpr int Ranks = 32;

TopologySpec nodes_of_four() {
  TopologySpec spec;
  spec.name = "grid";
  spec.accelerators = Ranks;
  spec.accelerators_per_node = 4;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {400_GBps, 1.0, 500_ns}};
  spec.nic = NicSpec{4, {100_GBps, 1.0, 500_ns}};
  return spec;
}
TopologySpec tree(double oversubscription, bool rails, FatTreeRouting routing) {
  TopologySpec spec = nodes_of_four();
  spec.scale_out = FatTreeSpec{2, 20, {oversubscription}, rails, {50_GBps, 1.0, 1_us}, false, routing, 1};
  return spec;
}
TopologySpec flat(decltype(TopologySpec::scale_out) fabric) {
  TopologySpec spec;
  spec.name = "grid";
  spec.accelerators = Ranks;
  spec.scale_out = std::move(fabric);
  return spec;
}

struct Fabric {
  std::string name;
  TopologySpec spec;
};
const std::vector<Fabric>& fabrics() {
  static const std::vector<Fabric> all{
      {"fat tree 1:1", tree(1, false, FatTreeRouting::DModK)},
      {"fat tree 4:1", tree(4, false, FatTreeRouting::DModK)},
      {"fat tree 4:1, ECMP", tree(4, false, FatTreeRouting::Ecmp)},
      {"fat tree 4:1, sprayed", tree(4, false, FatTreeRouting::Spray)},
      {"rails", tree(1, true, FatTreeRouting::DModK)},
      {"torus 4x8", flat(TorusSpec{{4, 8}, {}, 2, {50_GBps, 1.0, 1_us}, {}})},
      {"twisted torus 4x8", flat(TorusSpec{{4, 8}, {}, 2, {50_GBps, 1.0, 1_us}, {{0, 1, 4}}})},
      {"full mesh", flat(AllToAllSpec{AllToAllSpec::Kind::FullMesh, {50_GBps, 1.0, 1_us}})}};
  return all;
}

/// All groups of one axis at once: `groups` of Ranks / groups, members as far apart as can be.
double time_of(const Cluster& cluster, CollectiveKind kind, Algorithm algorithm, Bytes bytes, int groups,
               Detail detail) {
  ScheduleBuilder b(Ranks);
  b.schedule.meshes = {Mesh("dense", {{"inner", groups}, {"outer", Ranks / groups}})};
  b.schedule.families = {GroupFamily::along("outer", b.schedule.meshes.front(), {"outer"})};
  b.op(0, Collective{kind, FamilyId(0), algorithm, bytes}, "comm");
  return make_simgrid_backend()->run(b.schedule, cluster, {detail, NetworkModel::Fluid}).step_time.si();
}

using Bounds = std::array<double, 4>;

struct Case {
  CollectiveKind kind;
  Algorithm algorithm;
  // Largest |aggregate / full − 1| accepted, of 64 B, 64 KiB, 1 MiB, 64 MiB, whatever the fabric and the
  // groups.
  Bounds bounds;
};

TEST_CASE("the aggregate form of concurrent collectives stays near their full expansion") {
  // Rings, trees and what goes in rounds of equal transfers: exact, but on a twisted torus, where steps have
  // unlike ways. Where transfers of one action have those, short or free ways are told from the others on
  // average only; of much to send that hardly matters. Rounds of several groups that meet on a link stretch
  // as a whole, where in full only those who share it do.
  const Bounds Exact{1e-6, 1e-6, 1e-6, 1e-6};
  const Case cases[] = {{AllReduce, Algorithm::Ring, {1e-5, 0.005, 0.055, 0.11}},
                        {AllReduce, Algorithm::Tree, Exact},
                        {AllReduce, Algorithm::Recursive, {1e-3, 1e-3, 0.035, 0.16}},
                        {AllReduce, Algorithm::Hierarchical, Exact},
                        {AllReduce, Algorithm::Bucket, {1e-3, 0.02, 0.2, 0.015}},
                        {AllReduce, Algorithm::Direct, {1e-3, 0.16, 0.12, 0.005}},
                        {AllGather, Algorithm::Ring, {1e-5, 0.005, 0.055, 0.11}},
                        {Broadcast, Algorithm::Recursive, Exact},
                        {Gather, Algorithm::Direct, {1e-3, 0.12, 0.24, 0.01}},
                        {AllToAll, Algorithm::Direct, {1e-3, 0.16, 0.12, 0.005}},
                        {AllToAll, Algorithm::Pairwise, {1e-3, 0.01, 0.03, 0.05}},
                        {AllToAll, Algorithm::Hierarchical, {1e-3, 0.1, 0.15, 0.005}},
                        {AllToAll, Algorithm::TwoHop, {1e-3, 0.1, 0.15, 0.005}}};
  const bool print = std::getenv("SYNCLINE_PRINT_GRID") != nullptr;
  for (const Case& one : cases) {
    CAPTURE(std::string(name_of(one.kind)));
    CAPTURE(std::string(name_of(one.algorithm)));
    std::array<double, 4> largest{};
    std::array<std::string, 4> where;
    for (const Fabric& fabric : fabrics()) {
      const Cluster cluster{build_topology(fabric.spec), ideal_device(), placement_in_order(Ranks)};
      for (const int groups : {1, 2, 8}) {
        std::vector<AcceleratorId> first;
        for (int i = 0; i < Ranks; i += groups) first.emplace_back(static_cast<std::uint32_t>(i));
        if (refusal_of(one.kind, one.algorithm, layout_of(first, cluster.topology))) continue;
        const std::array sizes{Bytes(64), 64_KiB, 1_MiB, 64_MiB};
        for (std::size_t s = 0; s < sizes.size(); ++s) {
          const double full = time_of(cluster, one.kind, one.algorithm, sizes[s], groups, Detail::Full);
          const double error =
              time_of(cluster, one.kind, one.algorithm, sizes[s], groups, Detail::Aggregate) / full - 1;
          CAPTURE(fabric.name);
          CAPTURE(groups);
          CAPTURE(sizes[s].si());
          CAPTURE(error);
          CHECK(std::abs(error) <= one.bounds[s]);
          if (std::abs(error) <= std::abs(largest[s])) continue;
          largest[s] = error;
          where[s] = fmt::format("{}, {}", fabric.name, groups);
        }
      }
    }
    if (!print) continue;
    fmt::print("| {}, {} |", name_of(one.kind), name_of(one.algorithm));
    for (std::size_t s = 0; s < where.size(); ++s)
      fmt::print(" {:+.2f} % ({}) |", 100 * largest[s], where[s]);
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace syncline
