#include "sim/schedule/text.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "sim/schedule/check.hpp"
#include "tests/schedule/random_schedule.hpp"
#include "tests/schedule/sketch.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

// Every kind of line and every key.
const std::string Sample = R"(syncline-schedule 1
name "two stages \"by hand\""
job tokens=131072 model-flop=6.3e+15 hardware-flop=8e+15 precision=fp8
mesh dense axes=dp:4,pp:2
mesh expert axes=ep:8
family dp mesh=dense axes=dp
family ends groups=0,7/1,6/2-5
stream compute
stream "pp send"
library deepep-h100
exchange uneven counts=0,1*3/2,0,4,5/1,2.5,0,0/0*4 node-members=2 to-nodes=0,1.5/6,0/2.5,0/0,0
exchange even counts=7*4:8
load experts family=dp factors=1.5,0.5*3,1*4
work 0 "layer forward"
  kernel gemm bf16 grouped m=16384 n=4096 k=1024 batch=2 flop=137438953472 hbm-bytes=176160768
  kernel attention fp16 backward m=128 n=256 k=64 batch=8
  kernel elementwise fp32 hbm-bytes=1024
work 1 "fixed"
  kernel fixed bf16 seconds=0.005
role 0 "first stage" ranks=0-3
  resident parameters bytes=4015130624
  resident optimizer bytes=12045391872
  op 0 collective all-gather family=dp bytes=436224000 stream=compute phase=F layer=3 name=all-gather memory=gathered-parameters:+436224000
  op 1 compute work=0 stream=compute phase=F layer=3 microbatch=0 chunk=1 after=0 memory=activations:+1024,gathered-parameters:-436224000
  op 2 send to=pp:1 bytes=1e+06 message=7 eager stream="pp send" after=0,1
  op 3 host-work seconds=1e-05
  op 4 host-wait op=2
  op 5 collective all-to-all family=ends bytes=8 algorithm=direct stream=compute
  op 6 collective all-to-all family=dp bytes=4096 algorithm=two-hop exchange=uneven library=deepep-h100 call=2e-05 least=0.001 units=20 stream=compute
  op 7 compute work=1 load=experts stream=compute after=6 memory=activations:+2048*load,gradients:-1*load
  op 8 collective all-to-all family=dp bytes=4096 exchange=uneven back stream=compute
role 1 "last stage" ranks=4-7
  op 0 receive from=pp:0 bytes=1e+06 message=7 eager stream="pp send"
  op 1 send to=5 bytes=0 stream=compute
speed rank=3 factor=1.25
end
)";

Schedule sample_schedule() {
  Schedule s;
  s.name = "two stages \"by hand\"";
  s.job = {131072, Flop(6.3e15), Flop(8e15), Precision::Fp8};
  s.meshes.emplace_back("dense", std::vector<MeshAxis>{{"dp", 4}, {"pp", 2}});
  s.meshes.emplace_back("expert", std::vector<MeshAxis>{{"ep", 8}});
  s.families.push_back(GroupFamily::along("dp", s.meshes[0], {"dp"}));
  const auto ranks = [](std::initializer_list<std::size_t> list) {
    return std::vector<RankId>(list.begin(), list.end());
  };
  s.families.push_back(GroupFamily::listed("ends", 8, {ranks({0, 7}), ranks({1, 6}), ranks({2, 3, 4, 5})}));
  s.streams = {"compute", "pp send"};
  s.libraries = {"deepep-h100"};
  s.exchanges = {
      {"uneven", 4, {0, 1, 1, 1, 2, 0, 4, 5, 1, 2.5, 0, 0, 0, 0, 0, 0}, 2, {0, 1.5, 6, 0, 2.5, 0, 0, 0}},
      {"even", 4, std::vector<double>(32, 7), 0, {}}};
  s.loads = {{"experts", FamilyId(0), {1.5, 0.5, 0.5, 0.5, 1, 1, 1, 1}}};

  Kernel gemm, attention, elementwise, fixed;
  gemm.kind = KernelClass::Gemm;
  gemm.m = 16384, gemm.n = 4096, gemm.k = 1024, gemm.batch = 2, gemm.grouped = true;
  gemm.flop = Flop(137438953472), gemm.hbm = Bytes(176160768);
  attention.kind = KernelClass::Attention;
  attention.precision = Precision::Fp16;
  attention.backward = true;
  attention.m = 128, attention.n = 256, attention.k = 64, attention.batch = 8;
  elementwise.precision = Precision::Fp32;
  elementwise.hbm = Bytes(1024);
  fixed.kind = KernelClass::Fixed;
  fixed.fixed = Seconds(0.005);
  s.works = {{"layer forward", {gemm, attention, elementwise}}, {"fixed", {fixed}}};

  s.roles.resize(2);
  s.roles[0].name = "first stage";
  s.roles[0].resident = {{MemoryCategory::Parameters, Bytes(4015130624)},
                         {MemoryCategory::Optimizer, Bytes(12045391872)}};
  Op gather = op(Collective{CollectiveKind::AllGather, FamilyId(0), Algorithm::Auto, Bytes(436224000)}, 0, {},
                 {Phase::Forward, 3, -1, -1, "all-gather"});
  gather.memory = {{MemoryCategory::GatheredParameters, Bytes(436224000)}};
  Op layer = op(Compute{WorkId(0)}, 0, {OpIndex(0)}, {Phase::Forward, 3, 0, 1, ""});
  layer.memory = {{MemoryCategory::Activations, Bytes(1024)},
                  {MemoryCategory::GatheredParameters, Bytes(-436224000)}};
  Op dispatch = op(Collective{CollectiveKind::AllToAll, FamilyId(0), Algorithm::TwoHop, Bytes(4096), 1,
                              ExchangeId(0), false, LibraryId(0), 20, Seconds(2e-05), Seconds(0.001)});
  Op experts = op(Compute{WorkId(1)}, 0, {OpIndex(6)});
  experts.load = LoadId(0);
  experts.memory = {{MemoryCategory::Activations, Bytes(2048), true},
                    {MemoryCategory::Gradients, Bytes(-1), true}};
  const Op combine = op(Collective{CollectiveKind::AllToAll, FamilyId(0), Algorithm::Auto, Bytes(4096), 1,
                                   ExchangeId(0), true});
  s.roles[0].program = {gather,
                        layer,
                        op(Send{{1, 1}, Bytes(1e6), 7, true}, 1, {OpIndex(0), OpIndex(1)}),
                        op(HostWork{Seconds(1e-5)}),
                        op(HostWait{OpIndex(2)}),
                        op(Collective{CollectiveKind::AllToAll, FamilyId(1), Algorithm::Direct, Bytes(8)}),
                        dispatch,
                        experts,
                        combine};
  s.roles[1].name = "last stage";
  s.roles[1].program = {op(Receive{{1, 0}, Bytes(1e6), 7, true}, 1), op(Send{{-1, 5}, Bytes(0), 0, false})};
  for (std::size_t rank = 0; rank < 8; ++rank) s.role_of.push_back(RoleId(rank / 4));
  s.speeds = {{RankId(3), 1.25}};
  return s;
}

}  // namespace

TEST_SUITE("schedule text") {
  TEST_CASE("a schedule is written as the format says and read back as the same value") {
    CHECK(schedule_text(sample_schedule()) == Sample);
    CHECK(read_schedule(Sample, "sample") == sample_schedule());
    std::ostringstream out;
    write_schedule(out, sample_schedule());
    CHECK(out.str() == Sample);
  }

  TEST_CASE("any schedule survives write, read, write without a byte changed") {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
      CAPTURE(seed);
      const Schedule schedule = random_schedule(seed);
      const std::string text = schedule_text(schedule);
      const Schedule again = read_schedule(text, "random");
      REQUIRE(again == schedule);
      REQUIRE(schedule_text(again) == text);
    }
  }

  TEST_CASE("rank lists are written in ranges and read in any form") {
    struct Row {
      std::vector<std::size_t> ranks;  // of role 1; the others play role 0
      std::string written, others;
    };
    const Row rows[] = {
        {{}, "", "0-9"},
        {{4}, "4", "0-3,5-9"},
        {{4, 5}, "4,5", "0-3,6-9"},
        {{4, 5, 6}, "4-6", "0-3,7-9"},
        {{0, 2, 4, 6, 8}, "0-8:2", "1-9:2"},
        {{0, 1, 2, 5, 9}, "0-2,5,9", "3,4,6-8"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.written);
      Schedule schedule = sketch(10);
      schedule.roles.resize(2);
      schedule.role_of.assign(10, RoleId(0));
      for (const std::size_t rank : row.ranks) schedule.role_of[rank] = RoleId(1);
      const std::string text = schedule_text(schedule);
      CHECK(text.find("role 0 \"r0\" ranks=" + row.others + "\n") != std::string::npos);
      CHECK(text.find("role 1 \"r1\" ranks=" + row.written + "\n") != std::string::npos);
      CHECK(read_schedule(text, "ranks") == schedule);
    }
  }

  TEST_CASE("comments, blank lines, indentation, key order, tabs and line ends of Windows do not matter") {
    const std::string plain =
        "syncline-schedule 1\nname \"a\"\nmesh dense axes=dp:2\nstream s\nwork 0 \"w\"\nrole 0 \"r\" "
        "ranks=0,1\n"
        "  op 0 compute work=0 stream=s layer=1\nend\n";
    const std::string loose =
        "syncline-schedule 1 \r\n\r\n# a comment\r\nname a # not \"b\"\r\n\t mesh dense   "
        "axes=dp:2\r\nstream \"s\"\r\n"
        "work 0 w\r\nrole 0 r ranks=1,0\r\nop 0 compute\tlayer=1 stream=s work=0\r\n  end\r\n\r\n# the end";
    CHECK(read_schedule(loose, "loose") == read_schedule(plain, "plain"));
  }

  TEST_CASE("the example of the manual is written as the program writes it, and is sound") {
    std::ifstream file(SYNCLINE_SOURCE_DIR "/docs/schedule-format.md");
    std::stringstream page;
    page << file.rdbuf();
    const std::string manual = page.str();
    const std::size_t begin = manual.find(ScheduleTextHeader);
    const std::size_t end = manual.find("```", begin);
    REQUIRE(begin != std::string::npos);
    REQUIRE(end != std::string::npos);
    const std::string example = manual.substr(begin, end - begin);
    const Schedule schedule = read_schedule(example, "manual");
    CHECK(schedule_text(schedule) == example);
    CHECK(joined(check_schedule(schedule)) == "");
  }
}
