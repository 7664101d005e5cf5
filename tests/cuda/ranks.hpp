// Ranks on a device, in threads of the test.
#pragma once

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

namespace syncline::cuda::test {

/// Of the test program: with how many GPUs to try, and whether times are those of GPUs or of threads that
/// stand for them.
[[nodiscard]] std::vector<int> gpu_counts();
[[nodiscard]] bool times_are_real();

inline ExecutionPlan plan_of(const std::string& body, std::vector<Seconds> work_times) {
  ExecutionPlan plan;
  plan.schedule = read_schedule("syncline-schedule 1\nname \"by hand\"\n" + body + "end\n", "text");
  plan.work_times = std::move(work_times);
  plan.warmup = 1;
  plan.repeats = 3;
  plan.timeout = Seconds(20);
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

inline Timeline measure(const ExecutionPlan& plan, int gpus) {
  const auto ranks = static_cast<int>(plan.schedule.world_size());
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("syncline-gpu-test-{}", getpid());
  std::filesystem::create_directories(folder);
  Node node(plan, talk_of(gpus, ranks, true));
  in_threads(ranks, [&](World& world, int rank) {
    const auto runtime = make_cuda_runtime(node, world, rank);
    execute(plan, world, *runtime, folder);
  });
  Timeline timeline = read_trace((folder / TimelineFile).string());
  std::filesystem::remove_all(folder);
  return timeline;
}

inline const Span& span_of(const Timeline& timeline, std::size_t rank, const std::string& name) {
  for (const Span& span : timeline.spans)
    if (span.rank == RankId(rank) && timeline.ops[span.op].tag.name == name) return span;
  throw std::logic_error("no span of " + name);
}

inline Seconds length(const Span& span) {
  return span.end - span.start;
}

// --- contents of collectives ---

inline constexpr std::size_t Part = 160;  // numbers of 16 bits that a member has for another

/// What a rank sends: small whole numbers, whose sums bf16 holds exactly.
inline float sent(std::size_t rank, std::size_t element) {
  return static_cast<float>(rank + element % 5);
}

inline float sum_of_sent(std::size_t ranks, std::size_t element) {
  float sum = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) sum += sent(rank, element);
  return sum;
}

inline std::vector<float> expected(CollectiveKind kind, std::size_t me, std::size_t ranks) {
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

inline std::uint16_t to_bf16(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

inline float from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

inline constexpr const char* Kinds[] = {"all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce",
                                        "scatter",    "gather",     "shift",          "all-to-all"};

inline ExecutionPlan collectives(int ranks) {
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
inline std::string check_collectives(int ranks, Talk talk) {
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

}  // namespace syncline::cuda::test
