#include "backends/execute/scale.hpp"

#include <doctest/doctest.h>

#include "sim/schedule/check.hpp"
#include "sim/schedule/text.hpp"
#include "tests/execute/plans.hpp"

namespace syncline {
namespace {

const std::string Body = R"(mesh dense axes=dp:2
family dp mesh=dense axes=dp
stream compute
stream dp
work 0 "layer"
  kernel gemm bf16 m=100 n=64 k=32 flop=409600 hbm-bytes=20000
  kernel attention bf16 batch=4 m=64 n=48 k=16 flop=786432 hbm-bytes=30000
  kernel elementwise bf16 hbm-bytes=1000
  kernel fixed bf16 seconds=0.004
role 0 "all" ranks=0-1
  op 0 compute work=0 stream=compute memory=activations:+64
  op 1 collective all-reduce family=dp bytes=1001 stream=dp
  op 2 host-work seconds=0.002
  op 3 collective broadcast family=dp bytes=1 stream=dp
  op 4 collective gather family=dp bytes=0 stream=dp
)";

Schedule example() {
  return test::plan_of(Body, {Seconds(1)}).schedule;
}
Bytes bytes_of(const Schedule& schedule, std::size_t op) {
  return std::get<Collective>(schedule.roles[0].program[op].body).bytes;
}

TEST_SUITE("execute: scale") {
  TEST_CASE("work, messages and times are multiplied, and what ops hold in memory is not") {
    const Schedule half = scaled(example(), 0.5);
    const std::vector<Kernel>& kernels = half.works[0].kernels;
    CHECK(kernels[0].m == 50);
    CHECK(kernels[0].n == 64);
    CHECK(kernels[0].k == 32);
    CHECK(kernels[0].flop == Flop(204800));  // 409600 / 2
    CHECK(kernels[1].m == 32);
    CHECK(kernels[1].batch == 4);
    CHECK(kernels[2].hbm == Bytes(500));
    CHECK(kernels[3].fixed == Seconds(0.002));
    CHECK(bytes_of(half, 1) == Bytes(501));  // 500.5, rounded to whole bytes
    CHECK(bytes_of(half, 3) == Bytes(1));    // something stays something
    CHECK(bytes_of(half, 4) == Bytes(0));
    CHECK(std::get<HostWork>(half.roles[0].program[2].body).duration == Seconds(0.001));
    CHECK(half.roles[0].program[0].memory[0].bytes == Bytes(64));
  }

  TEST_CASE(
      "a product keeps a row however small the scale, and the schedule stays one that can be written and "
      "read") {
    const Schedule small = scaled(example(), 1e-6);
    CHECK(small.works[0].kernels[0].m == 1);
    CHECK(check_schedule(small).empty());
    CHECK(read_schedule(schedule_text(small), "text") == small);
  }

  TEST_CASE("a scale of 1 changes nothing") {
    CHECK(scaled(example(), 1) == example());
  }
}

}  // namespace
}  // namespace syncline
