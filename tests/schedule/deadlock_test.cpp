#include <doctest/doctest.h>

#include "sim/schedule/check.hpp"
#include "tests/schedule/sketch.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

using Sentences = std::vector<std::string>;
using Programs = std::vector<std::vector<Op>>;

// Rank i plays programs[i].
Schedule with(Programs programs) {
  Schedule schedule = sketch(static_cast<int>(programs.size()));
  for (std::size_t r = 0; r < programs.size(); ++r) schedule.roles[r].program = std::move(programs[r]);
  return schedule;
}

constexpr auto AllReduce = CollectiveKind::AllReduce;

struct Row {
  std::string name;
  Programs programs;
  std::string deadlock;  // empty: sound
};

}  // namespace

TEST_SUITE("deadlock") {
  TEST_CASE("a schedule that cannot move is refused with who waits for whom") {
    const Row rows[] = {
        {"both send first in one stream, each held up by its own send",
         {{send(1, 8), receive(1, 8)}, {send(0, 8), receive(0, 8)}},
         "deadlock: rank 0 (send \"F microbatch 0 send\" in stream s0, op 0) waits for rank 1 to receive; "
         "rank 1 (receive \"F microbatch 0 receive\" in stream s0, op 1) stands behind op 0 in its stream; "
         "rank 1 (send \"F microbatch 0 send\" in stream s0, op 0) waits for rank 0 to receive; "
         "rank 0 (receive \"F microbatch 0 receive\" in stream s0, op 1) stands behind op 0 in its stream"},
        {"both receive first in one stream",
         {{receive(1, 8), send(1, 8)}, {receive(0, 8), send(0, 8)}},
         "deadlock: rank 0 (receive \"F microbatch 0 receive\" in stream s0, op 0) waits for rank 1 to send; "
         "rank 1 (send \"F microbatch 0 send\" in stream s0, op 1) stands behind op 0 in its stream; "
         "rank 1 (receive \"F microbatch 0 receive\" in stream s0, op 0) waits for rank 0 to send; "
         "rank 0 (send \"F microbatch 0 send\" in stream s0, op 1) stands behind op 0 in its stream"},
        {"two families' collectives in one stream, in swapped order",
         {{collective(AllReduce, All, 8), collective(AllReduce, Pairs, 4)},
          {collective(AllReduce, Pairs, 4), collective(AllReduce, All, 8)}},
         "deadlock: rank 0 (all-reduce \"F gather\" in stream s0, op 0) waits for rank 1 to join; "
         "rank 1 (all-reduce \"F gather\" in stream s0, op 1) stands behind op 0 in its stream; "
         "rank 1 (all-reduce \"F gather\" in stream s0, op 0) waits for rank 0 to join; "
         "rank 0 (all-reduce \"F gather\" in stream s0, op 1) stands behind op 0 in its stream"},
        {"each host waits for its send before it issues the receive",
         {{send(1, 8), host_wait(0), receive(1, 8, 1)}, {send(0, 8), host_wait(0), receive(0, 8, 1)}},
         "deadlock: rank 0 (send \"F microbatch 0 send\" in stream s0, op 0) waits for rank 1 to receive; "
         "rank 1 (receive \"F microbatch 0 receive\" in stream s1, op 2) is not issued before the host is "
         "past op 1; "
         "rank 1 (host wait \"other\", op 1) waits for op 0 to end; "
         "rank 1 (send \"F microbatch 0 send\" in stream s0, op 0) waits for rank 0 to receive; "
         "rank 0 (receive \"F microbatch 0 receive\" in stream s1, op 2) is not issued before the host is "
         "past op 1; "
         "rank 0 (host wait \"other\", op 1) waits for op 0 to end"},
        {"each receives on its own stream but only after it has sent",
         {{send(1, 8), op(Receive{{-1, 1}, Bytes(8), 0, false}, 1, {OpIndex(0)}, tag("in"))},
          {send(0, 8), op(Receive{{-1, 0}, Bytes(8), 0, false}, 1, {OpIndex(0)}, tag("in"))}},
         "deadlock: rank 0 (send \"F microbatch 0 send\" in stream s0, op 0) waits for rank 1 to receive; "
         "rank 1 (receive \"F in\" in stream s1, op 1) comes after op 0; "
         "rank 1 (send \"F microbatch 0 send\" in stream s0, op 0) waits for rank 0 to receive; "
         "rank 0 (receive \"F in\" in stream s1, op 1) comes after op 0"},
        {"three ranks in a ring, each sending to the next before it receives; rank 0 waits for them outside "
         "the ring",
         {{receive(1, 8)},
          {send(2, 8), receive(3, 8), send(0, 8)},
          {send(3, 8), receive(1, 8)},
          {send(1, 8), receive(2, 8)}},
         "deadlock: rank 1 (send \"F microbatch 0 send\" in stream s0, op 0) waits for rank 2 to receive; "
         "rank 2 (receive \"F microbatch 0 receive\" in stream s0, op 1) stands behind op 0 in its stream; "
         "rank 2 (send \"F microbatch 0 send\" in stream s0, op 0) waits for rank 3 to receive; "
         "rank 3 (receive \"F microbatch 0 receive\" in stream s0, op 1) stands behind op 0 in its stream; "
         "rank 3 (send \"F microbatch 0 send\" in stream s0, op 0) waits for rank 1 to receive; "
         "rank 1 (receive \"F microbatch 0 receive\" in stream s0, op 1) stands behind op 0 in its stream"},
        {"eager receives before the sends that feed them",
         {{receive(1, 8, 0, 0, true), send(1, 8, 0, 0, true)},
          {receive(0, 8, 0, 0, true), send(0, 8, 0, 0, true)}},
         "deadlock: rank 0 (receive \"F microbatch 0 receive\" in stream s0, op 0) waits for rank 1 to send; "
         "rank 1 (send \"F microbatch 0 send\" in stream s0, op 1) stands behind op 0 in its stream; "
         "rank 1 (receive \"F microbatch 0 receive\" in stream s0, op 0) waits for rank 0 to send; "
         "rank 0 (send \"F microbatch 0 send\" in stream s0, op 1) stands behind op 0 in its stream"},

        {"one rank sends first, the other receives first",
         {{send(1, 8), receive(1, 8)}, {receive(0, 8), send(0, 8)}},
         ""},
        {"crossing sends on streams of their own",
         {{send(1, 8), receive(1, 8, 1)}, {send(0, 8), receive(0, 8, 1)}},
         ""},
        {"crossing eager sends in one stream",
         {{send(1, 8, 0, 0, true), receive(1, 8, 0, 0, true)},
          {send(0, 8, 0, 0, true), receive(0, 8, 0, 0, true)}},
         ""},
        {"swapped order of two families on streams of their own",
         {{collective(AllReduce, All, 8), collective(AllReduce, Pairs, 4, 1)},
          {collective(AllReduce, Pairs, 4, 1), collective(AllReduce, All, 8)}},
         ""},
        {"a host wait for an op that ends on its own",
         {{compute(), host_wait(0), send(1, 8)}, {host_work(1), receive(0, 8)}},
         ""},
        {"empty programs", {{}, {}, {}}, ""},
    };
    for (const Row& row : rows) {
      SUBCASE(row.name.c_str()) {
        CAPTURE(row.name);
        CHECK(joined(check_schedule(with(row.programs))) == row.deadlock);
      }
    }
  }

  TEST_CASE("1F1B passes with sends and receives on their own streams and fails with all in one") {
    // Four stages, six microbatches: stage p forwards 4 - p microbatches ahead, then alternates forward and
    // backward.
    constexpr int Stages = 4, Microbatches = 6;
    const auto program = [&](int stage, bool own_streams) {
      std::vector<Op> ops;
      const std::size_t forward_in = own_streams ? 1 : 0, forward_out = own_streams ? 2 : 0,
                        backward_in = own_streams ? 3 : 0, backward_out = own_streams ? 4 : 0;
      const auto pass = [&](int from, int to, std::size_t in, std::size_t out, int microbatch) {
        std::vector<OpIndex> after;
        if (from >= 0 && from < Stages) {
          after.push_back(OpIndex(ops.size()));
          ops.push_back(receive(from, 8, in, microbatch));
        }
        ops.push_back(compute(0, after));
        if (to < 0 || to >= Stages) return;
        Op out_op = send(to, 8, out, microbatch);
        out_op.after = {OpIndex(ops.size() - 1)};
        ops.push_back(out_op);
      };
      int forward = 0, backward = 0;
      while (backward < Microbatches) {
        const bool ahead = forward < Microbatches && forward - backward < Stages - stage;
        if (ahead)
          pass(stage - 1, stage + 1, forward_in, forward_out, forward++);
        else
          pass(stage + 1, stage - 1, backward_in, backward_out, backward++);
      }
      return ops;
    };
    for (const bool own_streams : {true, false}) {
      CAPTURE(own_streams);
      Programs programs;
      for (int stage = 0; stage < Stages; ++stage) programs.push_back(program(stage, own_streams));
      Schedule schedule = with(std::move(programs));
      schedule.streams = {"compute", "forward-in", "forward-out", "backward-in", "backward-out"};
      const Sentences found = check_schedule(schedule);
      if (own_streams) {
        CHECK(joined(found) == "");
      } else {
        // Stage 2 runs F0 F1 B0, stage 3 runs F0 B0 F1: F1 goes down while B0 comes up, and neither receives.
        CHECK(joined(found) ==
              "deadlock: rank 2 (send \"F microbatch 1 send\" in stream compute, op 5) waits for rank 3 to "
              "receive; "
              "rank 3 (receive \"F microbatch 1 receive\" in stream compute, op 4) stands behind op 3 in its "
              "stream; "
              "rank 3 (send \"F microbatch 0 send\" in stream compute, op 3) waits for rank 2 to receive; "
              "rank 2 (receive \"F microbatch 0 receive\" in stream compute, op 6) stands behind op 5 in its "
              "stream");
      }
    }
  }

  TEST_CASE("a cycle through very many ranks is told in part") {
    Programs programs;
    for (int r = 0; r < 100; ++r) programs.push_back({send((r + 1) % 100, 8), receive((r + 99) % 100, 8)});
    const Sentences found = check_schedule(with(std::move(programs)));
    REQUIRE(found.size() == 1);
    // 100 sends that wait and 100 receives behind them; 24 are told.
    CHECK(found.front().ends_with("; and so on, 176 more waits back to the first"));
  }

  TEST_CASE("ranks that share a role are told apart by their coordinates") {
    // One role on a ring of four cannot be written with a rank number; two roles along an axis can.
    Schedule schedule = sketch(2);
    schedule.meshes = {Mesh("dense", {{"dp", 3}, {"pp", 2}})};
    schedule.families.clear();
    schedule.role_of = {RoleId(0), RoleId(0), RoleId(0), RoleId(1), RoleId(1), RoleId(1)};
    const Op to_last = op(Send{{1, 1}, Bytes(8), 0, false}), to_first = op(Send{{1, 0}, Bytes(8), 0, false});
    const Op from_last = op(Receive{{1, 1}, Bytes(8), 0, false}),
             from_first = op(Receive{{1, 0}, Bytes(8), 0, false});
    schedule.roles[0].program = {to_last, from_last};
    SUBCASE("in step") {
      schedule.roles[1].program = {from_first, to_first};
      CHECK(joined(check_schedule(schedule)) == "");
    }
    SUBCASE("crossing") {
      schedule.roles[1].program = {to_first, from_first};
      const Sentences found = check_schedule(schedule);
      REQUIRE(found.size() == 1);
      CHECK(found.front().starts_with(
          "deadlock: rank 0 (send \"other\" in stream s0, op 0) waits for rank 3 to receive; "));
    }
  }

  TEST_CASE("a step of 16384 ranks with 300 ops each is checked") {
    // 64 replicas of 16 stages of 16 tensor-parallel ranks; per microbatch and direction: receive, compute,
    // all-reduce, compute, send.
    constexpr int Stages = 16, Microbatches = 32;
    Schedule schedule;
    schedule.meshes.emplace_back("dense", std::vector<MeshAxis>{{"tp", 16}, {"dp", 64}, {"pp", Stages}});
    schedule.families.push_back(GroupFamily::along("tp", schedule.meshes.front(), {"tp"}));
    schedule.families.push_back(GroupFamily::along("dp", schedule.meshes.front(), {"dp"}));
    schedule.streams = {"compute", "tp", "in", "out", "dp"};
    schedule.works.push_back({"w", {}});
    for (std::size_t r = 0; r < 16384; ++r) schedule.role_of.push_back(RoleId(r / 1024));
    std::size_t ops = 0;
    for (int stage = 0; stage < Stages; ++stage) {
      std::vector<Op> program;
      const auto add = [&](Op op) {
        if (!program.empty()) op.after = {OpIndex(program.size() - 1)};
        program.push_back(std::move(op));
      };
      for (const int step : {1, -1})
        for (int m = 0; m < Microbatches; ++m) {
          const int from = stage - step, to = stage + step;
          if (from >= 0 && from < Stages) add(op(Receive{{2, from}, Bytes(8), 0, false}, 2));
          add(compute());
          add(collective(AllReduce, FamilyId(0), 64, 1));
          add(compute());
          if (to >= 0 && to < Stages) add(op(Send{{2, to}, Bytes(8), 0, false}, 3));
        }
      for (int layer = 0; layer < 8; ++layer)
        add(collective(CollectiveKind::ReduceScatter, FamilyId(1), 64, 4));
      ops += program.size() * 1024;
      schedule.roles.push_back({"stage " + std::to_string(stage), std::move(program), {}});
    }
    // Inner stages: 2 x 32 x 5 + 8 = 328 ops; the two at the ends have 2 x 32 fewer: (14 x 328 + 2 x 264) x
    // 1024.
    CHECK(ops == 5242880);
    CHECK(joined(check_schedule(schedule)) == "");

    schedule.roles[15].program.pop_back();
    const Sentences found = check_schedule(schedule);
    CHECK(joined(found) == "");  // all members of that group play role 15 alike
  }
}
