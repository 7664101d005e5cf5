#include "backends/execute/rank_program.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "sim/schedule/check.hpp"
#include "tests/execute/plans.hpp"

using namespace syncline;
using namespace syncline::test;

TEST_CASE("a rank's program has its own groups, peers and times") {
  const ExecutionPlan plan = two_stages();
  REQUIRE(check_schedule(plan.schedule).empty());
  const RankProgram program = rank_program(plan, RankId(1));
  REQUIRE(program.steps.size() == 8);

  const auto& send = std::get<TransferTask>(program.steps[1].task);
  CHECK(send.sends);
  CHECK(send.peer == RankId(3));
  CHECK(send.bytes == Bytes(4096));
  CHECK(program.wires[send.wire].sender == RankId(1));
  CHECK(program.wires[send.wire].receiver == RankId(3));

  const auto& backward = std::get<ComputeTask>(program.steps[3].task);
  CHECK(backward.work->name == "backward");
  CHECK(backward.factor == 1.5);  // second of its group's loads
  CHECK(backward.planned == Seconds(0.03));
  CHECK(program.steps[3].after == std::vector<std::uint32_t>{2});  // op 0 is before it in its own stream

  const auto& reduce = std::get<CollectiveTask>(program.steps[4].task);
  CHECK(program.channels[reduce.channel].members == std::vector<RankId>{RankId(0), RankId(1)});
  CHECK(program.channels[reduce.channel].name == "dp 0 on dp");
  CHECK(reduce.position == 1);
}

TEST_CASE("a slow rank takes its factor of the planned time") {
  const RankProgram program = rank_program(two_stages(), RankId(3));
  CHECK(std::get<ComputeTask>(program.steps[1].task).planned.si() == doctest::Approx(0.015));
}

TEST_CASE("an exchange gives every pair its bytes, and what was received goes back") {
  const ExecutionPlan plan = two_stages();
  // 10 items are of 2 members: one is 100 · 2 / 10 = 20 bytes. Counts 1,2/3,4.
  const auto task = [&](std::size_t rank, std::size_t op) {
    return std::get<CollectiveTask>(rank_program(plan, RankId(rank)).steps[op].task);
  };
  CHECK(task(0, 6).to == std::vector<Bytes>{Bytes(20), Bytes(40)});
  CHECK(task(0, 6).from == std::vector<Bytes>{Bytes(20), Bytes(60)});
  CHECK(task(1, 6).to == std::vector<Bytes>{Bytes(60), Bytes(80)});
  CHECK(task(1, 6).from == std::vector<Bytes>{Bytes(40), Bytes(80)});
  CHECK(task(0, 7).to == task(0, 6).from);
  CHECK(task(0, 7).from == task(0, 6).to);
  CHECK(task(2, 6).to == std::vector<Bytes>{Bytes(50), Bytes(50)});  // without counts: to all alike
}

TEST_CASE("all ranks number channels and wires alike, and ends of a wire agree on tags") {
  const std::vector<RankProgram> programs = rank_programs(two_stages());
  std::map<std::uint32_t, std::vector<RankId>> channels;
  std::map<std::uint32_t, std::pair<RankId, RankId>> wires;
  using End = std::tuple<std::uint32_t, int, int>;  // wire, message, tag
  std::multiset<End> sent, received;
  for (const RankProgram& program : programs) {
    for (const Channel& channel : program.channels) {
      const auto [known, is_new] = channels.try_emplace(channel.number, channel.members);
      CHECK(known->second == channel.members);
    }
    for (const Wire& wire : program.wires) {
      const auto [known, is_new] = wires.try_emplace(wire.number, wire.sender, wire.receiver);
      CHECK(known->second == std::pair(wire.sender, wire.receiver));
    }
    for (const Step& step : program.steps)
      if (const auto* transfer = std::get_if<TransferTask>(&step.task))
        (transfer->sends ? sent : received)
            .insert({program.wires[transfer->wire].number, transfer->message, transfer->tag});
  }
  CHECK(channels.size() == 2);  // one a stage
  CHECK(wires.size() == 4);     // two pairs, both ways
  CHECK(sent == received);
  CHECK(sent.size() == 4);
}

TEST_CASE("transfers with one message number are told apart by their tag, in order") {
  const ExecutionPlan plan = plan_of(R"(mesh dense axes=pp:2
stream s
role 0 "a" ranks=0
  op 0 send to=1 bytes=1 message=4 stream=s
  op 1 send to=1 bytes=2 message=4 stream=s
  op 2 send to=1 bytes=3 message=9 stream=s
role 1 "b" ranks=1
  op 0 receive from=0 bytes=1 message=4 stream=s
  op 1 receive from=0 bytes=2 message=4 stream=s
  op 2 receive from=0 bytes=3 message=9 stream=s
)",
                                     {});
  for (const std::size_t rank : {0, 1}) {
    const RankProgram program = rank_program(plan, RankId(rank));
    const auto tag = [&](std::size_t op) { return std::get<TransferTask>(program.steps[op].task).tag; };
    CHECK(tag(0) == 0);
    CHECK(tag(1) == 1);
    CHECK(tag(2) == 0);
  }
}

TEST_CASE("an op is described for messages") {
  const ExecutionPlan plan = two_stages();
  const RankProgram program = rank_program(plan, RankId(0));
  CHECK(describe(plan, program, 0) == "forward for 10 ms, F microbatch 0");
  CHECK(describe(plan, program, 1) == "send of 4.096 kB to rank 2, F microbatch 0");
  CHECK(describe(plan, program, 4) == "all-reduce of 8.192 kB with dp 0 on dp, B");
  CHECK(describe(plan, program, 5) == "host wait for op 4");
}
