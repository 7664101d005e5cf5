// One rank of each role played for all of them: the same figures as when everybody is, or a reason why not.
#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <string>

#include "backends/replay/replay.hpp"
#include "sim/network/fluid.hpp"
#include "sim/schedule/check.hpp"
#include "tests/support/small_schedules.hpp"

namespace syncline {
namespace {

using namespace literals;
using testing::ScheduleBuilder;
using testing::star;
using enum CollectiveKind;

RunResult run(const Schedule& schedule, const Cluster& cluster, const Cast& cast) {
  PlainNetwork network(link_capacities(cluster.topology));
  return replay(schedule, cluster, cast, Detail::Aggregate, network);
}
RunResult run_all(const Schedule& schedule, const Cluster& cluster) {
  return run(schedule, cluster, everybody(schedule));
}
RunResult run_folded(const Schedule& schedule, const Cluster& cluster) {
  return run(schedule, cluster, one_a_role(schedule));
}

// --- clusters
// ----------------------------------------------------------------------------------------------------------

Cluster nodes_on_a_tree(int nodes, int per_node, int nics, double oversubscription, bool rails,
                        int radix = 20) {
  TopologySpec spec;
  spec.name = "tree";
  spec.accelerators = nodes * per_node;
  spec.accelerators_per_node = per_node;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {400_GBps, 1.0, 500_ns}};
  spec.nic = NicSpec{nics, {100_GBps, 1.0, 500_ns}};
  spec.scale_out = FatTreeSpec{2, radix, {oversubscription}, rails, {50_GBps, 1.0, 1_us}};
  return {build_topology(spec), ideal_device(),
          placement_in_order(static_cast<std::size_t>(nodes * per_node))};
}
Cluster rails(int nodes) {
  return nodes_on_a_tree(nodes, 4, 4, 1, true, 64);
}  // one leaf a rail

Cluster torus(const std::vector<int>& shape) {
  TopologySpec spec;
  spec.name = "torus";
  spec.accelerators = 1;
  for (const int extent : shape) spec.accelerators *= extent;
  spec.scale_out = TorusSpec{shape, {}, static_cast<int>(shape.size()), {50_GBps, 1.0, 1_us}};
  const auto count = static_cast<std::size_t>(spec.accelerators);
  return {build_topology(spec), ideal_device(), placement_in_order(count)};
}

// --- a training step of stages that differ
// -------------------------------------------------------------------------------

enum class Sharding { Ddp, Zero1, Zero2, Fsdp, Experts };

struct Job {
  int tp = 1, dp = 1, pp = 1;
  Sharding sharding = Sharding::Ddp;
  bool eager = false;
};

constexpr int Microbatches = 4;
constexpr std::size_t Tensor = 0, Data = 1, Model = 2, Ends = 3;  // families

class StepBuilder : public ScheduleBuilder {
 public:
  explicit StepBuilder(const Job& job)
      : ScheduleBuilder(job.tp * job.dp * job.pp, static_cast<std::size_t>(job.pp)), job_(job) {
    const Mesh mesh("dense", {{"tp", job.tp}, {"dp", job.dp}, {"pp", job.pp}});
    const int replicas = job.tp * job.dp, world = replicas * job.pp;
    std::vector<std::vector<RankId>> ends;
    for (int r = 0; r < replicas; ++r)
      ends.push_back(
          {RankId(static_cast<std::size_t>(r)), RankId(static_cast<std::size_t>(world - replicas + r))});
    if (job.pp == 1) ends.clear();
    schedule.meshes = {mesh};
    schedule.families = {GroupFamily::along("tp", mesh, {"tp"}), GroupFamily::along("dp", mesh, {"dp"}),
                         GroupFamily::along("model", mesh, {"tp", "pp"}),
                         GroupFamily::listed("ends", world, ends)};
    for (int r = 0; r < world; ++r)
      schedule.role_of[static_cast<std::size_t>(r)] = RoleId(static_cast<std::size_t>(r / replicas));
    for (int stage = 0; stage < job.pp; ++stage) add_stage(stage);
  }

 private:
  void add_stage(int stage) {
    const auto role = static_cast<std::size_t>(stage);
    schedule.roles[role].resident = {{MemoryCategory::Parameters, Bytes(1e9 * (1 + stage))}};
    std::vector<OpIndex> last;
    for (const bool forward : {true, false}) {
      const int from = stage + (forward ? -1 : 1), to = stage + (forward ? 1 : -1);
      for (int m = 0; m < Microbatches; ++m) {
        if (has(from)) last.push_back(exchange(role, false, from, last));
        last = {block(role, forward, last)};
        if (has(to)) last.push_back(exchange(role, true, to, last));
        if (!forward && (job_.sharding == Sharding::Zero2 || job_.sharding == Sharding::Fsdp))
          on(role, "dp", Data, ReduceScatter, 64_MB, last);
      }
    }
    if (job_.sharding == Sharding::Ddp) last = {on(role, "dp", Data, AllReduce, 200_MB, last)};
    if (job_.sharding == Sharding::Zero1) last = {on(role, "dp", Data, ReduceScatter, 200_MB, last)};
    if (job_.pp > 1 && (stage == 0 || stage == job_.pp - 1))
      last = {on(role, "dp", Ends, AllReduce, 30_MB, last)};
    last = {on(role, "dp", Model, AllReduce, Bytes(4), last)};
    if (job_.sharding == Sharding::Zero1) on(role, "dp", Data, AllGather, 200_MB, last);
  }

  [[nodiscard]] bool has(int stage) const { return stage >= 0 && stage < job_.pp; }

  OpIndex on(std::size_t role, const std::string& stream, std::size_t family, CollectiveKind kind,
             Bytes bytes, const std::vector<OpIndex>& after) {
    return op(role, Collective{kind, FamilyId(family), Algorithm::Auto, bytes}, stream, after);
  }

  OpIndex exchange(std::size_t role, bool send, int stage, const std::vector<OpIndex>& after) {
    const Peer peer{2, stage};
    const std::string stream =
        (send ? "send" : "recv") + std::string(stage > static_cast<int>(role) ? "-next" : "-prev");
    if (send) return op(role, Send{peer, 20_MB, 0, job_.eager}, stream, after);
    return op(role, Receive{peer, 20_MB, 0, job_.eager}, stream, {});
  }

  // Parts of a layer, each a collective behind a kernel.
  OpIndex block(std::size_t role, bool forward, std::vector<OpIndex> after) {
    if (job_.sharding == Sharding::Fsdp) after.push_back(on(role, "gather", Data, AllGather, 64_MB, {}));
    const Bytes held = forward ? 1_GB : Bytes(-1e9);
    const Seconds time = Seconds(1e-3 * (1 + 0.1 * static_cast<double>(role)));
    const OpIndex first = compute(role, "compute", {time}, after, {{MemoryCategory::Activations, held}});
    OpIndex second = on(role, "tp", Tensor, AllReduce, 16_MB, {first});
    if (job_.sharding == Sharding::Experts) second = on(role, "dp", Data, AllToAll, 32_MB, {second});
    return compute(role, "compute", {time}, {second});
  }

  Job job_;
};

// --- folded and not
// ------------------------------------------------------------------------------------------------------

struct Agreement {
  double time;   // largest relative difference accepted
  double links;  // of the bytes on a link
};

void check_agreement(const Schedule& schedule, const Cluster& cluster, Agreement agreement) {
  REQUIRE(check_schedule(schedule) == std::vector<std::string>{});
  REQUIRE(check_schedule(schedule, true) == std::vector<std::string>{});
  const RunResult all = run_all(schedule, cluster), folded = run_folded(schedule, cluster);
  CAPTURE(all.step_time.si());
  CAPTURE(folded.step_time.si());
  CHECK(std::abs(folded.step_time / all.step_time - 1) <= agreement.time);
  CHECK(folded.bytes_sent.si() == doctest::Approx(all.bytes_sent.si()).epsilon(1e-9));

  REQUIRE(folded.memory.size() == all.memory.size());
  for (std::size_t rank = 0; rank < all.memory.size(); ++rank) {
    CAPTURE(rank);
    CHECK(folded.memory[rank].peak == all.memory[rank].peak);
    CHECK(folded.memory[rank].at_peak == all.memory[rank].at_peak);
  }
  REQUIRE(folded.links.size() == all.links.size());
  for (std::size_t i = 0; i < all.links.size(); ++i) {
    CHECK(folded.links[i].link == all.links[i].link);
    CHECK(folded.links[i].carried.si() ==
          doctest::Approx(all.links[i].carried.si()).epsilon(agreement.links));
  }
  REQUIRE(folded.collectives.size() == all.collectives.size());
  for (std::size_t i = 0; i < all.collectives.size(); ++i) {
    CHECK(folded.collectives[i].family == all.collectives[i].family);
    CHECK(folded.collectives[i].count == all.collectives[i].count);
    CHECK(folded.collectives[i].nodes_spanned == all.collectives[i].nodes_spanned);
    CHECK(folded.collectives[i].bytes_between_nodes == all.collectives[i].bytes_between_nodes);
    CHECK(folded.collectives[i].total_bytes_between_nodes.si() ==
          doctest::Approx(all.collectives[i].total_bytes_between_nodes.si()).epsilon(1e-12));
  }
}

TEST_CASE("where ranks of a role stand alike, a folded step is the whole one") {
  struct Row {
    std::string name;
    Job job;
    Cluster cluster;
  };
  using enum Sharding;
  std::vector<Row> rows;
  rows.push_back({"8 ranks, dp over rails", {4, 2, 1, Ddp, false}, rails(2)});
  rows.push_back({"16 ranks, two stages", {4, 2, 2, Ddp, false}, rails(4)});
  rows.push_back({"32 ranks, two stages, eager", {4, 4, 2, Zero1, true}, rails(8)});
  rows.push_back({"64 ranks, four stages", {4, 4, 4, Zero2, false}, rails(16)});
  rows.push_back({"64 ranks, ZeRO-3 and tp", {4, 16, 1, Fsdp, false}, rails(16)});
  rows.push_back({"32 ranks, ZeRO-3 and stages", {4, 4, 2, Fsdp, false}, rails(8)});
  rows.push_back({"two replicas share a node's NICs", {2, 8, 2, Ddp, false}, rails(8)});
  rows.push_back({"16 ranks on a switch", {2, 4, 2, Zero2, false}, star(16, 50_GBps, 1_us)});
  rows.push_back({"experts on a switch", {2, 8, 1, Experts, false}, star(16, 50_GBps, 1_us)});
  rows.push_back({"experts over rails", {4, 4, 1, Experts, false}, rails(4)});
  rows.push_back({"ZeRO-3 over all of a torus", {1, 64, 1, Fsdp, false}, torus({4, 4, 4})});
  rows.push_back({"ZeRO-3 on planes of a torus, tp on its rows", {4, 16, 1, Fsdp, false}, torus({4, 4, 4})});
  for (const Row& row : rows) {
    CAPTURE(row.name);
    check_agreement(StepBuilder(row.job).schedule, row.cluster, {1e-9, 1e-9});
  }
}

TEST_CASE("where they do not, it is near: the slowest of the siblings counts for all") {
  struct Row {
    std::string name;
    Job job;
    Cluster cluster;
  };
  using enum Sharding;
  std::vector<Row> rows;
  rows.push_back({"a stage on two leaves", {4, 4, 4, Zero2, false}, nodes_on_a_tree(16, 4, 4, 1, true)});
  rows.push_back({"leaves without rails", {4, 4, 4, Ddp, false}, nodes_on_a_tree(16, 4, 4, 1, false)});
  rows.push_back({"4:1, without rails", {4, 4, 4, Zero2, false}, nodes_on_a_tree(16, 4, 4, 4, false)});
  rows.push_back({"one NIC for two", {4, 8, 2, Fsdp, false}, nodes_on_a_tree(16, 4, 2, 2, false)});
  rows.push_back({"stages on a torus", {4, 4, 4, Zero1, false}, torus({4, 4, 4})});
  rows.push_back({"experts on a tree", {4, 16, 1, Experts, false}, nodes_on_a_tree(16, 4, 4, 1, false)});
  for (const Row& row : rows) {
    CAPTURE(row.name);
    check_agreement(StepBuilder(row.job).schedule, row.cluster, {0.015, 1e-9});
  }
}

TEST_CASE("one rank a role is played, in its own name, and stands for the others") {
  const Schedule schedule = StepBuilder({2, 4, 2, Sharding::Ddp, false}).schedule;
  const RunResult result = run_folded(schedule, star(16, 50_GBps, 1_us));
  CHECK(result.timeline.ranks == 16);
  REQUIRE(result.timeline.spans.size() ==
          schedule.roles[0].program.size() + schedule.roles[1].program.size());
  CHECK(result.timeline.spans.front().rank == RankId(0));
  CHECK(result.timeline.spans.back().rank == RankId(8));
  REQUIRE(result.player_of.size() == 16);
  for (std::size_t rank = 0; rank < 16; ++rank) CHECK(result.player_of[rank] == RankId(rank < 8 ? 0 : 8));
}

TEST_CASE("without a timeline step time and memory are the same") {
  const Schedule schedule = StepBuilder({2, 4, 2, Sharding::Ddp, false}).schedule;
  const Cluster cluster = star(16, 50_GBps, 1_us);
  for (const Cast& cast : {everybody(schedule), one_a_role(schedule)}) {
    PlainNetwork network(link_capacities(cluster.topology));
    const RunResult bare = replay(schedule, cluster, cast, Detail::Aggregate, network, false);
    const RunResult result = run(schedule, cluster, cast);
    CHECK(bare.timeline.spans.empty());
    CHECK(bare.timeline.ops.empty());
    CHECK(bare.step_time == result.step_time);
    REQUIRE(bare.memory.size() == 16);
    for (std::size_t rank = 0; rank < 16; ++rank) CHECK(bare.memory[rank].peak == result.memory[rank].peak);
  }
}

TEST_CASE("links that are always equally full are simulated once, and all are counted") {
  // A ring over 8 ranks of a star loads 16 links alike: 2·7 steps of 8 MB / 8 over each, and one flow in the
  // network.
  ScheduleBuilder b(8);
  b.schedule.meshes = {Mesh("dense", {{"tp", 2}, {"dp", 4}})};
  b.schedule.families = {GroupFamily::along("dp", b.schedule.meshes[0], {"tp", "dp"})};
  b.collective(0, "dp", AllReduce, 8_MB);
  const RunResult result = run_folded(b.schedule, star(8, 1_GBps, 0_us));
  CHECK(result.engine.flows == 1);
  CHECK(result.step_time.si() == doctest::Approx(14e-3).epsilon(1e-9));
  REQUIRE(result.links.size() == 16);
  for (const LinkLoad& load : result.links) CHECK(load.carried.si() == doctest::Approx(14e6).epsilon(1e-12));
}

TEST_CASE("replicas that share a link share it when folded too") {
  // Two pairs of ranks over one NIC of 50 GB/s a node: 1 GB in two transfers of 0.5 GB each way takes twice
  // 10 ms.
  TopologySpec spec;
  spec.name = "one NIC";
  spec.accelerators = 4;
  spec.accelerators_per_node = 2;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {400_GBps, 1.0, 0_us}};
  spec.nic = NicSpec{1, {100_GBps, 1.0, 0_us}};
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::IdealSwitch, {50_GBps, 1.0, 0_us}};
  const Cluster cluster{build_topology(spec), ideal_device(), placement_in_order(4)};
  ScheduleBuilder b(4, 2);
  b.schedule.meshes = {Mesh("dense", {{"dp", 2}, {"pp", 2}})};
  b.schedule.families = {GroupFamily::along("dp", b.schedule.meshes[0], {"dp"})};
  b.schedule.role_of = {RoleId(0), RoleId(0), RoleId(1), RoleId(1)};
  b.op(0, Send{{1, 1}, 500_MB, 0, false}, "send");
  b.op(1, Receive{{1, 0}, 500_MB, 0, false}, "recv");
  const RunResult result = run_folded(b.schedule, cluster);
  CHECK(result.step_time.si() == doctest::Approx(20e-3).epsilon(1e-9));
  CHECK(result.bytes_sent == 1_GB);
}

// --- refusals
// ------------------------------------------------------------------------------------------------------------

TEST_CASE("what cannot be folded is refused, with the reason") {
  const Job job{2, 2, 2, Sharding::Ddp, false};  // ranks 0-3 are stage 0, 4-7 stage 1
  const std::string refusal = "the ranks of a role cannot be folded: ";

  SUBCASE("a rank with a speed of its own") {
    Schedule schedule = StepBuilder(job).schedule;
    schedule.speeds = {{RankId(5), 1.5}};
    CHECK_THROWS_WITH_AS((void)one_a_role(schedule), (refusal + "rank 5 has a speed of its own").c_str(),
                         std::invalid_argument);
  }
  SUBCASE("groups of unlike roles") {
    Schedule schedule = StepBuilder(job).schedule;
    schedule.families[Ends] = GroupFamily::listed(
        "ends", 8,
        {{RankId(0), RankId(4)}, {RankId(5), RankId(1)}, {RankId(2), RankId(6)}, {RankId(3), RankId(7)}});
    CHECK_THROWS_WITH_AS(
        (void)one_a_role(schedule),
        (refusal + "in family \"ends\" the group of rank 5 does not hold the roles of the group of "
                   "rank 4, which stands for it, in their order")
            .c_str(),
        std::invalid_argument);
  }
  SUBCASE("players of roles that meet are in different groups") {
    Schedule schedule = StepBuilder(job).schedule;
    schedule.families[Ends] = GroupFamily::listed(
        "ends", 8,
        {{RankId(0), RankId(5)}, {RankId(1), RankId(4)}, {RankId(2), RankId(6)}, {RankId(3), RankId(7)}});
    CHECK_THROWS_WITH_AS(
        (void)one_a_role(schedule),
        (refusal + "in family \"ends\" roles \"role0\" and \"role1\" meet, but ranks 0 and 4, which "
                   "stand for them, are in different groups")
            .c_str(),
        std::invalid_argument);
  }
  SUBCASE("a peer that does not stand for its role") {
    ScheduleBuilder b(3, 2);
    b.schedule.role_of = {RoleId(0), RoleId(1), RoleId(1)};
    b.send(0, "send", 2, 1_MB);
    CHECK_THROWS_WITH_AS(
        (void)one_a_role(b.schedule),
        (refusal + "rank 0, which stands for role \"role0\", exchanges with rank 2, but rank 1 stands "
                   "for role \"role1\"")
            .c_str(),
        std::invalid_argument);
  }
  SUBCASE("a peer by number of a role that several ranks play") {
    ScheduleBuilder b(3, 2);
    b.schedule.role_of = {RoleId(0), RoleId(1), RoleId(1)};
    b.send(1, "send", 0, 1_MB);
    CHECK_THROWS_WITH_AS((void)one_a_role(b.schedule),
                         (refusal + "role \"role1\" of 2 ranks names a peer by its number, rank 0").c_str(),
                         std::invalid_argument);
  }
  SUBCASE("peers of unlike roles") {
    ScheduleBuilder b(4, 3);  // ranks (dp, pp): 0 and 1 play role 0 and send along pp, to roles 1 and 2
    b.schedule.meshes = {Mesh("dense", {{"dp", 2}, {"pp", 2}})};
    b.schedule.role_of = {RoleId(0), RoleId(0), RoleId(1), RoleId(2)};
    b.op(0, Send{{1, 1}, 1_MB, 0, false}, "send");
    CHECK_THROWS_WITH_AS(
        (void)one_a_role(b.schedule),
        (refusal +
         "rank 1 exchanges with role \"role2\", but rank 0, which stands for it, with role \"role1\"")
            .c_str(),
        std::invalid_argument);
  }
  SUBCASE("ranks of a role that stand at different places along the axis") {
    ScheduleBuilder b(3, 2);
    b.schedule.meshes = {Mesh("dense", {{"pp", 3}})};
    b.schedule.role_of = {RoleId(0), RoleId(1), RoleId(0)};
    b.op(0, Send{{0, 1}, 1_MB, 0, false}, "send");
    CHECK_THROWS_WITH_AS(
        (void)one_a_role(b.schedule),
        (refusal + "rank 2 exchanges along axis \"pp\" from 2, but rank 0, which stands for it, from 0")
            .c_str(),
        std::invalid_argument);
  }
  SUBCASE("a broadcast by ring") {
    ScheduleBuilder b(4);
    b.collective(0, "dp", Broadcast, 1_MB, {}, Algorithm::Ring);
    CHECK_THROWS_WITH_AS((void)run_folded(b.schedule, star(4, 1_GBps, 0_us)),
                         (refusal + "a broadcast by ring goes piece by piece").c_str(),
                         std::invalid_argument);
  }
}

TEST_CASE("what is wrong among all is wrong among those who play") {
  ScheduleBuilder b(4, 2);  // both stages send before they receive
  b.schedule.meshes = {Mesh("dense", {{"dp", 2}, {"pp", 2}})};
  b.schedule.role_of = {RoleId(0), RoleId(0), RoleId(1), RoleId(1)};
  for (const int stage : {0, 1}) {
    const auto role = static_cast<std::size_t>(stage);
    const OpIndex sent = b.op(role, Send{{1, 1 - stage}, 1_MB, 0, false}, "send");
    b.op(role, Receive{{1, 1 - stage}, 1_MB, 0, false}, "recv", {sent});
  }
  const std::vector<std::string> found = check_schedule(b.schedule, true);
  CHECK(found == check_schedule(b.schedule));
  REQUIRE(found.size() == 1);
  CHECK(found.front().starts_with("deadlock: rank 0"));

  std::get<Receive>(b.schedule.roles[1].program[1].body).bytes = 2_MB;
  const std::vector<std::string> all = check_schedule(b.schedule);  // of rank 0 and of rank 1
  REQUIRE(all.size() == 2);
  CHECK(check_schedule(b.schedule, true) == std::vector<std::string>{all.front()});
}

TEST_CASE("a schedule that cannot be folded is checked for all") {
  ScheduleBuilder b(3, 2);
  b.schedule.role_of = {RoleId(0), RoleId(1), RoleId(1)};
  b.send(0, "send", 2, 1_MB);
  CHECK(check_schedule(b.schedule, true) == check_schedule(b.schedule));
  CHECK(check_schedule(b.schedule, true).size() == 1);
}

TEST_CASE("a role that one rank plays stands for itself") {
  ScheduleBuilder b(2, 2);
  b.one_role_a_rank();
  b.send(0, "send", 1, 1_MB);
  b.receive(1, "recv", 0, 1_MB);
  b.schedule.speeds = {};
  CHECK_FALSE(one_a_role(b.schedule).folded());
  CHECK(run_folded(b.schedule, star(2, 1_GBps, 0_us)).player_of.empty());
}

}  // namespace
}  // namespace syncline
