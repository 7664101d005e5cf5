// The figures of a folded run are those of the whole job.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/report/gantt.hpp"
#include "sim/report/summary.hpp"
#include "tests/support/small_schedules.hpp"

namespace syncline {
namespace {

using namespace literals;
using testing::ScheduleBuilder;
using testing::star;

// Four ranks of one role and two of another, which works longer: stages of unlike width, six ranks in one
// group.
Schedule unlike_roles() {
  ScheduleBuilder b(6, 2);
  b.schedule.role_of = {RoleId(0), RoleId(0), RoleId(0), RoleId(0), RoleId(1), RoleId(1)};
  for (std::size_t role = 0; role < 2; ++role) {
    b.schedule.roles[role].resident = {
        {MemoryCategory::Parameters, Bytes(1e9 * (1.0 + static_cast<double>(role)))}};
    const OpIndex first = b.compute(role, "compute", {role == 0 ? 2_ms : 5_ms});
    const OpIndex reduce = b.collective(role, "dp", CollectiveKind::AllReduce, 6_MB, {first});
    b.compute(role, "compute", {1_ms}, {reduce});
  }
  b.schedule.job = {600, Flop(6e9), Flop(6e9), Precision::Bf16};
  return b.schedule;
}

Device device() {
  Device device = ideal_device();
  device.peak = {{Precision::Bf16, FlopPerSecond(1e12)}};
  device.memory = Bytes(1.5e9);
  return device;
}

RunSummary summary_of(const Schedule& schedule, bool fold) {
  const Cluster cluster = star(6, 10_GBps, 1_us, device());
  RunOptions options;
  options.fold = fold;
  return summarise(make_simgrid_backend()->run(schedule, cluster, options), schedule, cluster, {});
}

TEST_CASE("every figure of a folded run is that of the run in which everybody is simulated") {
  const Schedule schedule = unlike_roles();
  const RunSummary all = summary_of(schedule, false), folded = summary_of(schedule, true);
  for (const std::string& metric : metric_names()) {
    CAPTURE(metric);
    const auto expected = metric_value(all, metric), found = metric_value(folded, metric);
    REQUIRE(found.has_value() == expected.has_value());
    if (expected) CHECK(*found == doctest::Approx(*expected).epsilon(1e-9));
  }
  // 4 ranks compute for 3 ms, 2 for 6; so in the mean for 4.
  CHECK(metric_value(folded, "compute-time").value() == doctest::Approx(4e-3));
  CHECK(folded.checks_hold());

  REQUIRE(folded.memory.has_value());
  CHECK(folded.memory->rank == RankId(4));
  CHECK(folded.memory->ranks_out_of_memory == 2);
  REQUIRE(folded.link_kinds.size() == all.link_kinds.size());
  for (std::size_t i = 0; i < all.link_kinds.size(); ++i) {
    CHECK(folded.link_kinds[i].used == all.link_kinds[i].used);
    CHECK(folded.link_kinds[i].mean == doctest::Approx(all.link_kinds[i].mean));
  }
  REQUIRE(folded.collectives.size() == 1);
  CHECK(folded.collectives[0].mean_waiting->si() == doctest::Approx(all.collectives[0].mean_waiting->si()));
  CHECK(folded.metrics->traffic[0].kernels == 6);
}

TEST_CASE("a folded run says so, in the table and in JSON") {
  const Schedule schedule = unlike_roles();
  const RunSummary all = summary_of(schedule, false), folded = summary_of(schedule, true);
  CHECK(summary_table(folded).find("\nfolded: 2 of 6 ranks simulated, one a role\n") != std::string::npos);
  CHECK(summary_table(all).find("folded") == std::string::npos);
  CHECK(nlohmann::json::parse(summary_json(folded))["ranks_simulated"] == 2);
  CHECK(nlohmann::json::parse(summary_json(folded))["ranks"] == 6);
  CHECK(nlohmann::json::parse(summary_json(all))["ranks_simulated"] == 6);
}

TEST_CASE("a picture shows the ranks that were simulated, by their own numbers") {
  const Schedule schedule = unlike_roles();
  RunOptions options;
  options.fold = true;
  const RunResult result = make_simgrid_backend()->run(schedule, star(6, 10_GBps, 1_us, device()), options);
  const std::string picture = gantt(result.timeline, {});
  CHECK(picture.find("rank 0 compute") != std::string::npos);
  CHECK(picture.find("rank 4 compute") != std::string::npos);
  CHECK(picture.find("not drawn") == std::string::npos);
  CHECK(gantt(result.timeline, {.most_ranks = 1}).find("ranks 0 to 0 of 6; the others are not drawn") !=
        std::string::npos);
}

TEST_CASE("a pipeline's bubble is the same when each stage is simulated once") {
  // Two stages, two replicas: F and B of 1 and 2 ms; ranks (dp, pp).
  ScheduleBuilder b(4, 2);
  b.schedule.meshes = {Mesh("dense", {{"dp", 2}, {"pp", 2}})};
  b.schedule.families = {};
  b.schedule.role_of = {RoleId(0), RoleId(0), RoleId(1), RoleId(1)};
  const auto block = [&](std::size_t role, Phase phase, int microbatch, std::vector<OpIndex> after) {
    const OpIndex op = b.compute(role, "compute", {phase == Phase::Forward ? 1_ms : 2_ms}, std::move(after));
    b.schedule.roles[role].program.back().tag = {phase, -1, microbatch, 0, ""};
    return op;
  };
  for (int m = 0; m < 2; ++m) {
    const OpIndex first = block(0, Phase::Forward, m, {});
    b.op(0, Send{{1, 1}, 1_MB, 0, false}, "send", {first});
    const OpIndex came = b.op(1, Receive{{1, 0}, 1_MB, 0, false}, "recv");
    block(1, Phase::Forward, m, {came});
    const OpIndex back = block(1, Phase::Backward, m, {});
    b.op(1, Send{{1, 0}, 1_MB, 0, false}, "send", {back});
  }
  for (int m = 0; m < 2; ++m) {
    const OpIndex came = b.op(0, Receive{{1, 1}, 1_MB, 0, false}, "recv");
    block(0, Phase::Backward, m, {came});
  }
  const RunSummary all = summary_of(b.schedule, false), folded = summary_of(b.schedule, true);
  REQUIRE(folded.pipeline.has_value());
  REQUIRE(folded.pipeline->ranks.size() == 4);
  for (std::size_t rank = 0; rank < 4; ++rank)
    CHECK(folded.pipeline->ranks[rank].busy.si() == doctest::Approx(all.pipeline->ranks[rank].busy.si()));
  CHECK(folded.pipeline->bubble_of_total == doctest::Approx(all.pipeline->bubble_of_total));
  CHECK(folded.pipeline->bubble_of_total > 0.1);
}

TEST_CASE("groups that do not lie on nodes as those that stand for them are warned of") {
  // Pairs of six ranks on nodes of two, or of three: there the second pair lies on both.
  for (const int per_node : {2, 3}) {
    ScheduleBuilder b(6);
    b.schedule.meshes.emplace_back("pairs", std::vector<MeshAxis>{{"tp", 2}, {"replica", 3}});
    b.schedule.families.push_back(GroupFamily::along("tp", b.schedule.meshes.back(), {"tp"}));
    b.op(0, Collective{CollectiveKind::AllGather, FamilyId(1), Algorithm::Ring, 2_MB}, "tp");
    TopologySpec spec;
    spec.name = "pod";
    spec.accelerators = 6;
    spec.accelerators_per_node = per_node;
    spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {100_GBps, 1.0, 0_us}};
    spec.nic = NicSpec{per_node, {100_GBps, 1.0, 0_us}};
    spec.scale_out = FatTreeSpec{2, 16, {}, false, {10_GBps, 1.0, 0_us}};
    const Cluster cluster{build_topology(spec), device(), placement_in_order(6)};
    for (const bool fold : {false, true}) {
      CAPTURE(per_node);
      CAPTURE(fold);
      RunOptions options;
      options.fold = fold;
      const RunResult result = make_simgrid_backend()->run(b.schedule, cluster, options);
      const RunSummary run = summarise(result, b.schedule, cluster, {});
      REQUIRE(run.warnings.size() == (fold && per_node == 3 ? 1 : 0));
      if (!run.warnings.empty())
        CHECK(run.warnings[0].starts_with("folded, but groups \"tp\" do not all lie on nodes alike"));
    }
  }
}

TEST_CASE("full detail is not folded") {
  const Schedule schedule = unlike_roles();
  RunOptions options;
  options.fold = true;
  options.detail = Detail::Full;
  CHECK_THROWS_WITH_AS(
      (void)make_simgrid_backend()->run(schedule, star(6, 10_GBps, 1_us), options),
      "full detail plays every transfer of every rank and cannot be folded; ask for aggregate detail",
      std::invalid_argument);
}

}  // namespace
}  // namespace syncline
