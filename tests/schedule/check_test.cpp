#include "sim/schedule/check.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include "tests/schedule/sketch.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

using Sentences = std::vector<std::string>;
constexpr auto AllReduce = CollectiveKind::AllReduce;
constexpr auto AllGather = CollectiveKind::AllGather;
constexpr double Nan = std::numeric_limits<double>::quiet_NaN(),
                 Infinity = std::numeric_limits<double>::infinity();

struct Row {
  std::string name;
  std::function<void(Schedule&)> change;  // of a sound schedule of four ranks
  Sentences found;
};

// Four ranks: a collective of all, one of each pair, and an exchange between 0 and 1 on their own streams.
Schedule sound() {
  Schedule schedule = sketch(4);
  for (Role& role : schedule.roles)
    role.program = {compute(), collective(AllGather, All, 64), collective(AllReduce, Pairs, 32, 1)};
  schedule.roles[0].program.push_back(send(1, 8, 2));
  schedule.roles[1].program.push_back(receive(0, 8, 2));
  return schedule;
}

void add(Schedule& schedule, std::size_t role, Op op) {
  schedule.roles[role].program.push_back(std::move(op));
}
Op& last(Schedule& schedule, std::size_t role) {
  return schedule.roles[role].program.back();
}
template <class Body>
Body& body(Schedule& schedule, std::size_t role, std::size_t op) {
  return std::get<Body>(schedule.roles[role].program[op].body);
}

void run(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    SUBCASE(row.name.c_str()) {
      CAPTURE(row.name);
      Schedule schedule = sound();
      row.change(schedule);
      CHECK(joined(check_schedule(schedule)) == joined(row.found));
    }
  }
}

}  // namespace

TEST_SUITE("schedule checks") {
  TEST_CASE("a sound schedule has no findings") {
    CHECK(joined(check_schedule(sound())) == "");
  }

  TEST_CASE("ids out of range, sizes that are none, and waits for later ops are found") {
    run({
        {"no mesh",
         [](Schedule& s) { s.meshes.clear(); },
         {"the schedule has no mesh", "family \"all\" lies along mesh \"dense\", which the schedule lacks"}},
        {"a mesh of another size",
         [](Schedule& s) {
           s.meshes.emplace_back("expert", std::vector<MeshAxis>{{"ep", 8}});
         },
         {"mesh \"expert\" has 8 ranks, but 4 ranks have a role"}},
        {"two streams of one name",
         [](Schedule& s) { s.streams[2] = "s0"; },
         {"two streams are named \"s0\""}},
        {"two meshes of one name",
         [](Schedule& s) { s.meshes.push_back(s.meshes[0]); },
         {"two meshes are named \"dense\""}},
        {"two families of one name",
         [](Schedule& s) { s.families.push_back(s.families[0]); },
         {"two families are named \"all\""}},
        {"role",
         [](Schedule& s) { s.role_of[3] = RoleId(9); },
         {"rank 3: there is no role 9; the schedule has 4"}},
        {"stream",
         [](Schedule& s) { last(s, 0).stream = StreamId(7); },
         {"op 3 (\"F microbatch 0 send\") of role \"r0\": there is no stream 7; the schedule has 3"}},
        {"work",
         [](Schedule& s) { body<Compute>(s, 2, 0).work = WorkId(5); },
         {"op 0 (\"F layer\") of role \"r2\": there is no work 5; the schedule has 1"}},
        {"family",
         [](Schedule& s) { body<Collective>(s, 2, 1).family = FamilyId(5); },
         {"op 1 (\"F gather\") of role \"r2\": there is no family 5; the schedule has 2"}},
        {"family of another world",
         [](Schedule& s) { s.families.push_back(GroupFamily::listed("x", 8, {{RankId(0)}})); },
         {"family \"x\" is made for 8 ranks; the schedule has 4"}},
        {"family along a mesh that is not there",
         [](Schedule& s) {
           s.families.push_back(GroupFamily::along("x", Mesh("expert", {{"ep", 4}}), {"ep"}));
         },
         {"family \"x\" lies along mesh \"expert\", which the schedule lacks"}},
        {"empty group",
         [](Schedule& s) {
           s.families.push_back(GroupFamily::listed("x", 4, {{RankId(0)}, {}}));
         },
         {"family \"x\": group 1 is empty"}},
        {"after itself",
         [](Schedule& s) { last(s, 0).after = {OpIndex(3)}; },
         {"op 3 (\"F microbatch 0 send\") of role \"r0\" waits for op 3, which does not come before it"}},
        {"after in disorder",
         [](Schedule& s) {
           last(s, 0).after = {OpIndex(2), OpIndex(1)};
         },
         {"op 3 (\"F microbatch 0 send\") of role \"r0\": the ops in `after` must ascend, each once"}},
        {"host wait for what comes later",
         [](Schedule& s) { add(s, 0, host_wait(5)); },
         {"op 4 (\"other\") of role \"r0\": the host waits for op 5, which it has not issued yet"}},
        {"host op that comes after another op",
         [](Schedule& s) { add(s, 0, op(HostWork{Seconds(1)}, 0, {OpIndex(1)})); },
         {"op 4 (\"other\") of role \"r0\": a host op has no `after` and no memory; let a host wait stand "
          "before it"}},
        {"collective in no chunks",
         [](Schedule& s) { body<Collective>(s, 1, 1).chunks = 0; },
         {"op 1 (\"F gather\") of role \"r1\": 0 chunks; expected 1 to 65536"}},
        {"collective in more chunks than can be",
         [](Schedule& s) { body<Collective>(s, 1, 1).chunks = 65537; },
         {"op 1 (\"F gather\") of role \"r1\": 65537 chunks; expected 1 to 65536"}},
        {"collective of negative bytes",
         [](Schedule& s) { body<Collective>(s, 1, 1).bytes = Bytes(-64); },
         {"op 1 (\"F gather\") of role \"r1\": bytes is -64; expected a finite number, 0 or more"}},
        {"send of nan",
         [](Schedule& s) { body<Send>(s, 0, 3).bytes = Bytes(Nan); },
         {"op 3 (\"F microbatch 0 send\") of role \"r0\": bytes is nan; expected a finite number, 0 or "
          "more"}},
        {"receive of infinity",
         [](Schedule& s) { body<Receive>(s, 1, 3).bytes = Bytes(Infinity); },
         {"op 3 (\"F microbatch 0 receive\") of role \"r1\": bytes is inf; expected a finite number, 0 or "
          "more"}},
        {"negative message",
         [](Schedule& s) { body<Send>(s, 0, 3).message = -1; },
         {"op 3 (\"F microbatch 0 send\") of role \"r0\": message is -1; expected a finite number, 0 or "
          "more"}},
        {"host work of negative time",
         [](Schedule& s) { add(s, 0, host_work(-1)); },
         {"op 4 (\"other\") of role \"r0\": duration is -1; expected a finite number, 0 or more"}},
        {"infinite memory effect",
         [](Schedule& s) {
           last(s, 0).memory = {{MemoryCategory::Gradients, Bytes(-Infinity)}};
         },
         {"op 3 (\"F microbatch 0 send\") of role \"r0\": memory effect on gradients is not finite"}},
        {"negative resident memory",
         [](Schedule& s) {
           s.roles[1].resident = {{MemoryCategory::Parameters, Bytes(-1)}};
         },
         {"role \"r1\": resident parameters is -1; expected a finite number, 0 or more"}},
        {"kernel",
         [](Schedule& s) {
           Kernel kernel;
           kernel.flop = Flop(-1);
           kernel.hbm = Bytes(Nan);
           kernel.fixed = Seconds(Infinity);
           kernel.m = -2;
           s.works[0].kernels = {kernel};
         },
         {"work 0 \"w\", kernel 0: FLOP is -1; expected a finite number, 0 or more",
          "work 0 \"w\", kernel 0: HBM bytes is nan; expected a finite number, 0 or more",
          "work 0 \"w\", kernel 0: fixed time is inf; expected a finite number, 0 or more",
          "work 0 \"w\", kernel 0: m is -2; expected 0 or more"}},
        {"job",
         [](Schedule& s) { s.job.tokens = -1; },
         {"job: tokens is -1; expected a finite number, 0 or more"}},
        {"speed",
         [](Schedule& s) {
           s.speeds = {{RankId(2), 1.5}, {RankId(1), 0.0}, {RankId(4), 1.0}};
         },
         {"speed of rank 1: factor is 0; expected more than 0",
          "speed of rank 1: ranks must ascend, each once",
          "speed of rank 4: there is no rank 4; the schedule has 4"}},
        {"peer outside the world",
         [](Schedule& s) {
           body<Send>(s, 0, 3).to = {-1, 4};
         },
         {"op 3 (\"F microbatch 0 send\") of role \"r0\": its peer is rank 4; there are 4 ranks"}},
        {"negative peer",
         [](Schedule& s) {
           body<Send>(s, 0, 3).to = {-1, -3};
         },
         {"op 3 (\"F microbatch 0 send\") of role \"r0\": its peer is rank -3; there are 4 ranks"}},
        {"axis that the mesh lacks",
         [](Schedule& s) {
           body<Send>(s, 0, 3).to = {1, 0};
         },
         {"op 3 (\"F microbatch 0 send\") of role \"r0\": mesh \"dense\" has no axis 1"}},
        {"coordinate outside its axis",
         [](Schedule& s) {
           body<Send>(s, 0, 3).to = {0, 4};
         },
         {"op 3 (\"F microbatch 0 send\") of role \"r0\": its peer has coordinate 4 on axis \"pp\" of size "
          "4"}},
        {"peer is the rank itself",
         [](Schedule& s) {
           body<Send>(s, 0, 3).to = {0, 0};
         },
         {"rank 0 sends to itself, op 3 (\"F microbatch 0 send\") of role \"r0\""}},
        {"a collective outside every group",
         [](Schedule& s) {
           s.families.push_back(GroupFamily::listed("some", 4, {{RankId(0), RankId(1)}}));
           for (std::size_t r = 0; r < 3; ++r) add(s, r, collective(AllReduce, FamilyId(2), 8));
         },
         {"rank 2 is in no group of family \"some\", but issues a collective of it, op 3 (\"F gather\") of "
          "role \"r2\""}},
    });
  }

  TEST_CASE("members of a group that do not issue the same collectives are found, with the place") {
    run({
        {"another kind",
         [](Schedule& s) { body<Collective>(s, 2, 1).kind = AllReduce; },
         {"family \"all\" in stream \"s0\": as collective 0 rank 0 issues all-gather of 64 B, op 1 (\"F "
          "gather\") of role "
          "\"r0\", but rank 2 of its group issues all-reduce of 64 B, op 1 (\"F gather\") of role \"r2\""}},
        {"other bytes",
         [](Schedule& s) { body<Collective>(s, 3, 2).bytes = Bytes(33); },
         {"family \"pairs\" in stream \"s1\": as collective 0 rank 2 issues all-reduce of 32 B, op 2 (\"F "
          "gather\") of role "
          "\"r2\", but rank 3 of its group issues all-reduce of 33 B, op 2 (\"F gather\") of role \"r3\""}},
        {"another algorithm",
         [](Schedule& s) { body<Collective>(s, 1, 2).algorithm = Algorithm::Direct; },
         {"family \"pairs\" in stream \"s1\": as collective 0 rank 0 issues all-reduce of 32 B, op 2 (\"F "
          "gather\") of role "
          "\"r0\", but rank 1 of its group issues all-reduce of 32 B by direct, op 2 (\"F gather\") of role "
          "\"r1\""}},
        {"other chunks",
         [](Schedule& s) { body<Collective>(s, 1, 2).chunks = 4; },
         {"family \"pairs\" in stream \"s1\": as collective 0 rank 0 issues all-reduce of 32 B, op 2 (\"F "
          "gather\") of role "
          "\"r0\", but rank 1 of its group issues all-reduce of 32 B in 4 chunks, op 2 (\"F gather\") of "
          "role "
          "\"r1\""}},
        {"two of one family in swapped order",
         [](Schedule& s) {
           for (std::size_t r = 0; r < 4; ++r) {
             add(s, r, collective(AllGather, All, r == 1 ? 10 : 20));
             add(s, r, collective(AllGather, All, r == 1 ? 20 : 10));
           }
         },
         {"family \"all\" in stream \"s0\": as collective 1 rank 0 issues all-gather of 20 B, op 4 (\"F "
          "gather\") of role "
          "\"r0\", but rank 1 of its group issues all-gather of 10 B, op 4 (\"F gather\") of role \"r1\""}},
        {"one more than the others",
         [](Schedule& s) { add(s, 3, collective(AllGather, All, 16)); },
         {"family \"all\" in stream \"s0\": rank 0 issues 1 collectives, but rank 3 of its group issues 2; "
          "the first that "
          "only rank 3 issues is op 3 (\"F gather\") of role \"r3\""}},
        {"in another stream",
         [](Schedule& s) { s.roles[1].program[2].stream = StreamId(2); },
         {"family \"pairs\" in stream \"s1\": rank 0 issues 1 collectives, but rank 1 of its group issues 0; "
          "the first that "
          "only rank 0 issues is op 2 (\"F gather\") of role \"r0\"",
          "family \"pairs\" in stream \"s2\": rank 0 issues 0 collectives, but rank 1 of its group issues 1; "
          "the first that "
          "only rank 1 issues is op 2 (\"F gather\") of role \"r1\""}},
        {"groups of one family may differ from each other",
         [](Schedule& s) {
           for (const std::size_t r : {0, 1}) body<Collective>(s, r, 2).bytes = Bytes(1000);
         },
         {}},
    });
  }

  TEST_CASE("sends and receives that do not meet are found, with their ops") {
    run({
        {"a send without its receive",
         [](Schedule& s) { add(s, 0, send(1, 8, 2, 7)); },
         {"rank 0 sends 2 times to rank 1 (message 0), which receives 1 times; the first send without its "
          "receive is op 4 "
          "(\"F microbatch 7 send\") of role \"r0\""}},
        {"a receive without its send",
         [](Schedule& s) { add(s, 1, receive(2, 8, 2, 5)); },
         {"rank 2 sends 0 times to rank 1 (message 0), which receives 1 times; the first receive without its "
          "send is op 4 "
          "(\"F microbatch 5 receive\") of role \"r1\""}},
        {"another message number",
         [](Schedule& s) { body<Send>(s, 0, 3).message = 4; },
         {"rank 0 sends 1 times to rank 1 (message 4), which receives 0 times; the first send without its "
          "receive is op 3 "
          "(\"F microbatch 0 send\") of role \"r0\"",
          "rank 0 sends 0 times to rank 1 (message 0), which receives 1 times; the first receive without its "
          "send is op 3 "
          "(\"F microbatch 0 receive\") of role \"r1\""}},
        {"other bytes",
         [](Schedule& s) { body<Receive>(s, 1, 3).bytes = Bytes(9); },
         {"rank 0 sends 8 B, op 3 (\"F microbatch 0 send\") of role \"r0\", but rank 1 receives 9 B, op 3 "
          "(\"F microbatch 0 "
          "receive\") of role \"r1\""}},
        {"eager at one end",
         [](Schedule& s) { body<Send>(s, 0, 3).eager = true; },
         {"rank 0 sends eagerly, op 3 (\"F microbatch 0 send\") of role \"r0\", but rank 1 receives by "
          "rendezvous, op 3 (\"F "
          "microbatch 0 receive\") of role \"r1\""}},
        {"the same peer by number and by axis is one channel",
         [](Schedule& s) {
           add(s, 0, op(Send{{0, 1}, Bytes(16), 0, false}, 2, {}, tag("by-axis")));
           add(s, 1, receive(0, 16, 2));
         },
         {}},
    });
  }

  TEST_CASE("a fault in very many ranks is told in twenty sentences and a count") {
    Schedule schedule = sketch(100);
    for (std::size_t r = 0; r < 100; ++r) add(schedule, r, host_work(-1));
    const Sentences found = check_schedule(schedule);
    REQUIRE(found.size() == 21);
    CHECK(found.back() == "... and 80 more findings");
  }
}
