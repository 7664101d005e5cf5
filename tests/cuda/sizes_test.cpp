#include "backends/cuda/sizes.hpp"

#include <doctest/doctest.h>

#include "backends/cuda/buffers.hpp"
#include "sim/core/error.hpp"

using namespace syncline;
using namespace syncline::cuda;
using namespace syncline::literals;

namespace {

CollectiveTask task(CollectiveKind kind, std::uint32_t position, Bytes bytes) {
  return {kind, 0, position, bytes};
}

}  // namespace

TEST_CASE("sizes are whole words of 16 bytes, and of nothing there is nothing") {
  CHECK(padded(0_B) == 0);
  CHECK(padded(1_B) == 16);
  CHECK(padded(16_B) == 16);
  CHECK(padded(16.5_B) == 32);
  CHECK(part_of(0_B, 4) == 16);  // a collective of no bytes is one all the same
  CHECK(part_of(64_B, 4) == 16);
  CHECK(part_of(100_B, 4) == 32);  // 25
  CHECK(part_of(100_B, 1) == 112);
  CHECK(offsets_of(std::vector<Bytes>{20_B, 0_B, 16_B}) == std::vector<std::size_t>{0, 32, 32, 48});
}

TEST_CASE("a collective's buffers hold its parts, or the whole, by kind and place") {
  using enum CollectiveKind;
  const struct {
    CollectiveKind kind;
    BufferBytes first, other;
  } rows[] = {
      // 4 members, 640 bytes: parts of 160
      {AllReduce, {640, 640}, {640, 640}},     {AllGather, {160, 640}, {160, 640}},
      {ReduceScatter, {640, 160}, {640, 160}}, {Broadcast, {640, 640}, {0, 640}},
      {Reduce, {640, 640}, {640, 0}},          {Scatter, {640, 160}, {0, 160}},
      {Gather, {160, 640}, {160, 0}},          {Shift, {640, 640}, {640, 640}},
  };
  for (const auto& row : rows) {
    CAPTURE(name_of(row.kind));
    CHECK(buffer_bytes(task(row.kind, 0, 640_B), 4) == row.first);
    CHECK(buffer_bytes(task(row.kind, 2, 640_B), 4) == row.other);
  }
  CollectiveTask exchange = task(AllToAll, 1, 100_B);
  exchange.to = {10_B, 0_B, 33_B};
  exchange.from = {0_B, 0_B, 5_B};
  CHECK(buffer_bytes(exchange, 3) == BufferBytes{64, 16});  // 16 + 0 + 48
}

TEST_CASE("a stream's buffers are those of its largest op, and a wire has a slot for each eager message") {
  RankProgram program;
  program.channels = {{0, {RankId(0), RankId(1)}, "dp 0 on a"}};
  program.wires = {{0, RankId(0), RankId(1)}};
  program.steps = {{task(CollectiveKind::AllGather, 0, 64_B), StreamId(0), {}},
                   {task(CollectiveKind::ReduceScatter, 0, 640_B), StreamId(0), {}},
                   {TransferTask{true, RankId(1), 0, 0, 0, 100_B, true}, StreamId(1), {}},
                   {TransferTask{true, RankId(1), 0, 1, 0, 200_B, true}, StreamId(1), {}},
                   {TransferTask{true, RankId(1), 0, 2, 0, 900_B, false}, StreamId(1), {}}};
  const RankBytes bytes = rank_bytes(program, ComputeBy::PlannedTime, {});
  REQUIRE(bytes.streams.size() == 2);
  CHECK(bytes.streams[0].send == 640);
  CHECK(bytes.streams[0].receive == 320);
  CHECK(bytes.streams[1].send == 912);
  CHECK(bytes.staging == std::vector<Staging>{{208, 2}});
  CHECK(bytes.total() == 640 + 320 + 912 + 2 * 208);
}

TEST_CASE("products, passes and their workspace are held by the stream only where kernels are run") {
  Work work{"layer", {}};
  Kernel gemm;
  gemm.kind = KernelClass::Gemm;
  gemm.m = 16, gemm.n = 32, gemm.k = 64;
  Kernel pass;
  pass.kind = KernelClass::Elementwise;
  pass.hbm = 6000_B;  // 3000 read: 3008, and as many written
  work.kernels = {gemm, pass};
  RankProgram program;
  program.steps = {{ComputeTask{&work, 1, 1_ms}, StreamId(0), {}}};
  const ComputeLimits limits{1 << 20, 1 << 30, 1 << 10};
  const StreamBytes bytes = rank_bytes(program, ComputeBy::Kernels, limits).streams[0];
  CHECK(bytes == StreamBytes{0, 0, 16 * 64 * 2, 32 * 64 * 2, 16 * 32 * 2, 4096, 1024});
  CHECK(rank_bytes(program, ComputeBy::Kernels, {1 << 20, 1024, 0}).streams[0].passed == 1024);  // goes round
  CHECK(rank_bytes(program, ComputeBy::PlannedTime, limits).total() == 0);
}

TEST_CASE("buffers that do not fit are refused with the figures") {
  RankBytes bytes;
  bytes.streams.resize(1);
  bytes.streams[0].send = 3'000'000'000;
  CHECK_NOTHROW(require_memory(bytes, RankId(0), 4'000'000'000, 8'000'000'000, 1'000'000'000));
  CHECK_THROWS_WITH_AS(require_memory(bytes, RankId(2), 3'999'999'999, 8'000'000'000, 1'000'000'000),
                       "the buffers of rank 2 take 3 GB, and 1 GB are kept for libraries, but of the 8 GB of "
                       "the GPU 4 GB are free",
                       EnvironmentError);
}
