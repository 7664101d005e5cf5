// What only a GPU can show. Run by ctest where there is one.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "backends/cuda/call.hpp"
#include "backends/cuda/copy_communication.hpp"
#include "backends/cuda/cuda_runtime.hpp"
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/nccl_communication.hpp"
#include "backends/cuda/sizes.hpp"
#include "backends/execute/executor.hpp"
#include "backends/execute/thread_world.hpp"
#include "sim/schedule/text.hpp"
#include "sim/timeline/trace.hpp"

using namespace syncline;
using namespace syncline::cuda;
using namespace syncline::literals;

namespace {

constexpr int Skipped = 77;  // as CMakeLists.txt tells ctest

ExecutionPlan plan_of(const std::string& body, std::vector<Seconds> work_times) {
  ExecutionPlan plan;
  plan.schedule = read_schedule("syncline-schedule 1\nname \"by hand\"\n" + body + "end\n", "text");
  plan.work_times = std::move(work_times);
  plan.warmup = 1;
  plan.repeats = 3;
  plan.timeout = 20_s;
  return plan;
}

/// Calls `rank(world, number)` in a thread a rank; what one throws ends the test program with its text.
template <class Rank>
void in_threads(int ranks, const Rank& rank) {
  const auto worlds = thread_worlds(ranks);
  std::vector<std::jthread> threads;
  for (int number = 0; number < ranks; ++number)
    threads.emplace_back([&, number] {
      World& world = *worlds[static_cast<std::size_t>(number)];
      try {
        rank(world, number);
      } catch (const std::exception& error) {
        fmt::print(stderr, "rank {}: {}\n", number, error.what());
        world.abort(1);
      }
    });
}

Timeline measure(const ExecutionPlan& plan) {
  const auto ranks = static_cast<int>(plan.schedule.world_size());
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("syncline-gpu-test-{}", getpid());
  std::filesystem::create_directories(folder);
  Node node(plan, talk_of(count_gpus(), ranks, true));
  in_threads(ranks, [&](World& world, int rank) {
    const auto runtime = make_cuda_runtime(node, world, rank);
    execute(plan, world, *runtime, folder);
  });
  Timeline timeline = read_trace((folder / TimelineFile).string());
  std::filesystem::remove_all(folder);
  return timeline;
}

const Span& span_of(const Timeline& timeline, std::size_t rank, const std::string& name) {
  for (const Span& span : timeline.spans)
    if (span.rank == RankId(rank) && timeline.ops[span.op].tag.name == name) return span;
  FAIL("no span of " << name);
  std::abort();
}

Seconds length(const Span& span) {
  return span.end - span.start;
}

// --- contents of collectives ---

constexpr std::size_t Part = 160;  // numbers of 16 bits that a member has for another

/// What a rank sends: small whole numbers, whose sums bf16 holds exactly.
float sent(std::size_t rank, std::size_t element) {
  return static_cast<float>(rank + element % 5);
}

float sum_of_sent(std::size_t ranks, std::size_t element) {
  float sum = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) sum += sent(rank, element);
  return sum;
}

std::vector<float> expected(CollectiveKind kind, std::size_t me, std::size_t ranks) {
  const std::size_t whole = ranks * Part;
  const bool first = me == 0;
  struct {
    std::size_t count;
    std::function<float(std::size_t)> at;
  } result{};
  switch (kind) {
    case CollectiveKind::AllReduce: result = {whole, [=](auto e) { return sum_of_sent(ranks, e); }}; break;
    case CollectiveKind::AllGather: result = {whole, [=](auto e) { return sent(e / Part, e % Part); }}; break;
    case CollectiveKind::ReduceScatter:
      result = {Part, [=](auto e) { return sum_of_sent(ranks, me * Part + e); }};
      break;
    case CollectiveKind::Broadcast: result = {whole, [=](auto e) { return sent(0, e); }}; break;
    case CollectiveKind::Reduce:
      result = {first ? whole : 0, [=](auto e) { return sum_of_sent(ranks, e); }};
      break;
    case CollectiveKind::Scatter: result = {Part, [=](auto e) { return sent(0, me * Part + e); }}; break;
    case CollectiveKind::Gather:
      result = {first ? whole : 0, [=](auto e) { return sent(e / Part, e % Part); }};
      break;
    case CollectiveKind::Shift:
      result = {whole, [=](auto e) { return sent((me + ranks - 1) % ranks, e); }};
      break;
    case CollectiveKind::AllToAll:
      result = {whole, [=](auto e) { return sent(e / Part, me * Part + e % Part); }};
      break;
  }
  std::vector<float> values(result.count);
  for (std::size_t e = 0; e < values.size(); ++e) values[e] = result.at(e);
  return values;
}

std::uint16_t to_bf16(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

float from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

constexpr const char* Kinds[] = {"all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce",
                                 "scatter",    "gather",     "shift",          "all-to-all"};

ExecutionPlan collectives(int ranks) {
  std::string text = fmt::format(
      "mesh dense axes=dp:{}\nfamily dp mesh=dense axes=dp\nstream comm\nrole 0 \"all\" ranks={}\n", ranks,
      ranks == 1 ? "0" : fmt::format("0-{}", ranks - 1));
  int op = 0;
  for (const char* kind : Kinds)
    text += fmt::format("  op {} collective {} family=dp bytes={} stream=comm name={}\n", op++, kind,
                        static_cast<std::size_t>(ranks) * Part * 2, kind);
  return plan_of(text, {});
}

/// Runs each collective once and returns what is wrong, a line each.
std::string check_collectives(int ranks, Talk talk) {
  const ExecutionPlan plan = collectives(ranks);
  Node node(plan, talk);
  std::mutex mutex;
  std::string wrong;
  in_threads(ranks, [&](World& world, int number) {
    const auto rank = static_cast<std::size_t>(number);
    const RankProgram& program = node.programs[rank];
    check(cudaSetDevice(talk == Talk::Copies ? 0 : number), "cudaSetDevice");
    check(preload_kernels(), "preload_kernels");
    const RankBuffers buffers(rank_bytes(program, ComputeBy::PlannedTime, {}));
    cudaStream_t made = nullptr;
    if (talk == Talk::Nccl)
      check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    const Stream stream =
        talk == Talk::Nccl ? Stream(made) : node.shared->partitions.make_stream(program.rank.value(), 0);
    const std::unique_ptr<Communication> communication =
        talk == Talk::Nccl
            ? make_nccl_communication({program, node.programs, buffers, 16, 0}, world)
            : make_copy_communication({program, buffers, node.shared->driver, node.shared->place, 8}, world);
    const StreamBytes& bytes = buffers.bytes_of(StreamId(0));
    for (std::uint32_t op = 0; op < program.steps.size(); ++op) {
      const auto& task = std::get<CollectiveTask>(program.steps[op].task);
      std::vector<std::uint16_t> data(bytes.send / 2);
      for (std::size_t e = 0; e < data.size(); ++e) data[e] = to_bf16(sent(rank, e));
      check(cudaMemcpy(buffers.of(StreamId(0)).send, data.data(), bytes.send, cudaMemcpyHostToDevice),
            "cudaMemcpy");
      check(cudaMemset(buffers.of(StreamId(0)).receive, 0xff, bytes.receive), "cudaMemset");
      check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      world.barrier();
      communication->launch(op, stream.get(), task);
      check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
      data.resize(bytes.receive / 2);
      check(cudaMemcpy(data.data(), buffers.of(StreamId(0)).receive, bytes.receive, cudaMemcpyDeviceToHost),
            "cudaMemcpy");
      const std::vector<float> wanted = expected(task.kind, rank, static_cast<std::size_t>(ranks));
      for (std::size_t e = 0; e < wanted.size(); ++e) {
        if (from_bf16(data[e]) == wanted[e]) continue;
        const std::lock_guard lock(mutex);
        wrong += fmt::format("{} at rank {}: element {} is {}, not {}\n", Kinds[op], rank, e,
                             from_bf16(data[e]), wanted[e]);
        break;
      }
      world.barrier();
    }
  });
  return wrong;
}

}  // namespace

TEST_CASE("a spin lasts as long as it is told, but for what launching takes") {
  check(cudaSetDevice(0), "cudaSetDevice");
  check(preload_kernels(), "preload_kernels");
  const Event start = make_event(), end = make_event();
  for (const int microseconds : {20, 200, 2000}) {
    std::vector<float> lengths;
    for (int i = 0; i < 9; ++i) {
      check(cudaEventRecord(start.get(), nullptr), "cudaEventRecord");
      check(launch_spin(nullptr, static_cast<std::uint64_t>(microseconds) * 1000), "launch_spin");
      check(cudaEventRecord(end.get(), nullptr), "cudaEventRecord");
      check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
      check(cudaEventElapsedTime(&lengths.emplace_back(), start.get(), end.get()), "cudaEventElapsedTime");
    }
    std::ranges::sort(lengths);
    const double median = lengths[4] * 1000;
    CAPTURE(median);
    CHECK(median > microseconds - 2);
    CHECK(median < microseconds + 20);
  }
}

TEST_CASE("virtual ranks' collectives leave what they must, on one GPU") {
  for (const int ranks : {2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(check_collectives(ranks, Talk::Copies) == "");
  }
}

TEST_CASE("NCCL's collectives leave what they must, on as many GPUs as there are") {
  CHECK(check_collectives(1, Talk::Nccl) == "");
  if (const int gpus = std::min(count_gpus(), 8); gpus > 1) CHECK(check_collectives(gpus, Talk::Nccl) == "");
}

TEST_CASE("planned times are kept, streams keep their order, and what comes after waits") {
  const ExecutionPlan plan = plan_of(R"(mesh dense axes=dp:4
family dp mesh=dense axes=dp
stream compute
stream dp
work 0 "short"
work 1 "long"
role 0 "all" ranks=0-3
  op 0 compute work=0 stream=compute name=a
  op 1 collective all-reduce family=dp bytes=1048576 stream=dp after=0 name=reduce
  op 2 compute work=1 stream=compute name=b
  op 3 compute work=0 stream=compute after=1 name=c
speed rank=2 factor=3
)",
                                     {200_us, 1_ms});
  const Timeline timeline = measure(plan);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const double factor = rank == 2 ? 3 : 1;
    CHECK(length(span_of(timeline, rank, "a")).si() == doctest::Approx(200e-6 * factor).epsilon(0.1));
    CHECK(length(span_of(timeline, rank, "b")).si() == doctest::Approx(1e-3 * factor).epsilon(0.05));
    const Seconds slack = 3_us;  // of events
    CHECK(span_of(timeline, rank, "b").start + slack >= span_of(timeline, rank, "a").end);
    CHECK(span_of(timeline, rank, "reduce").start + slack >= span_of(timeline, rank, "a").end);
    CHECK(span_of(timeline, rank, "c").start + slack >= span_of(timeline, rank, "reduce").end);
    // The reduction waits for rank 2's first op, and hides behind the long one.
    CHECK(span_of(timeline, rank, "reduce").end + 50_us >= span_of(timeline, 2, "a").end);
  }
}

TEST_CASE("a send waits for its receiver unless it is eager") {
  for (const bool eager : {false, true}) {
    CAPTURE(eager);
    const std::string mode = eager ? " eager" : "";
    const Timeline timeline =
        measure(plan_of("mesh dense axes=pp:2\nstream compute\nstream pp\nwork 0 \"busy\"\n"
                        "role 0 \"first\" ranks=0\n"
                        "  op 0 send to=pp:1 bytes=1048576 stream=pp name=send" +
                            mode +
                            "\nrole 1 \"second\" ranks=1\n"
                            "  op 0 compute work=0 stream=compute name=busy\n"
                            "  op 1 receive from=pp:0 bytes=1048576 stream=pp after=0 name=receive" +
                            mode + "\n",
                        {5_ms}));
    if (eager)
      CHECK(length(span_of(timeline, 0, "send")) < 2_ms);
    else
      CHECK(length(span_of(timeline, 0, "send")) > 4_ms);
    CHECK(span_of(timeline, 1, "receive").start >= span_of(timeline, 1, "busy").end - 3_us);
  }
}

TEST_CASE("kernels of every class are run, and more work takes more time") {
  ExecutionPlan plan = plan_of(R"(mesh dense axes=dp:1
family dp mesh=dense axes=dp
stream compute
work 0 "small"
  kernel gemm bf16 m=1024 n=1024 k=1024 flop=2147483648 hbm-bytes=6291456
  kernel gemm fp16 m=1000 n=1000 k=1000 flop=2000000000 hbm-bytes=6000000
  kernel gemm tf32 m=512 n=512 k=512 flop=268435456 hbm-bytes=3145728
  kernel gemm fp32 m=512 n=512 k=512 flop=268435456 hbm-bytes=3145728
  kernel attention bf16 batch=8 m=1024 n=1024 k=128 flop=2147483648 hbm-bytes=8388608
  kernel elementwise bf16 hbm-bytes=16777216
  kernel gather bf16 hbm-bytes=16777216
  kernel optimizer fp32 hbm-bytes=16777216
  kernel fixed bf16 seconds=1e-05
work 1 "large"
  kernel gemm bf16 m=8192 n=8192 k=8192 flop=1099511627776 hbm-bytes=402653184
role 0 "all" ranks=0
  op 0 compute work=0 stream=compute name=small
  op 1 compute work=1 stream=compute name=large
)",
                               {1_ms, 1_ms});
  plan.compute = ComputeBy::Kernels;
  const Timeline timeline = measure(plan);
  CHECK(length(span_of(timeline, 0, "small")) > 50_us);
  CHECK(length(span_of(timeline, 0, "large")) > 500_us);  // 1.1 TFLOP: no GPU has 2.2 PFLOP/s of dense bf16
}

int main(int argc, char** argv) {
  static_cast<void>(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0));
  try {
    static_cast<void>(count_gpus());
  } catch (const EnvironmentError& error) {
    fmt::print("skipped: {}\n", error.what());
    return Skipped;
  }
  return doctest::Context(argc, argv).run();
}
