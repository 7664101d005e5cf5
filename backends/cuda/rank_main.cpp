// The program `syncline-rank-cuda`: the ranks of a plan on the GPUs of a machine, a thread a rank; or, as one
// process of an MPI job, one rank of it.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <thread>

#include "backends/cuda/call.hpp"
#include "backends/cuda/cuda_runtime.hpp"
#include "backends/cuda/options.hpp"
#include "backends/execute/executor.hpp"
#include "backends/execute/rank_progress.hpp"
#include "backends/execute/thread_world.hpp"
#ifdef SYNCLINE_CUDA_MPI
#include "backends/mpi/mpi_backend.hpp"
#endif

namespace syncline::cuda {
namespace {

enum Exit : int { Done = 0, Failed = 1, BadInput = 2, BadEnvironment = 3, OurBug = 4 };

/// Tells the exception that is being handled.
int tell(const std::string& who) {
  try {
    throw;
  } catch (const InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return BadInput;
  } catch (const CallFailed& error) {
    fmt::print(stderr, "error: {}{}\n", who, error.what());
    return Failed;
  } catch (const EnvironmentError& error) {
    fmt::print(stderr, "error: {}{}\n", who, error.what());
    return BadEnvironment;
  } catch (const std::exception& error) {
    fmt::print(stderr, "syncline-rank-cuda: this is a bug in syncline: {}{}\n", who, error.what());
    return OurBug;
  }
}

/// What the ranks of this process are at, for who started it: one that fails ends the others, which did not
/// die by themselves.
class ProcessProgress {
 public:
  ProcessProgress(const std::filesystem::path& folder, int first, int count, std::size_t streams)
      : first_(first) {
    for (int rank = first; rank < first + count; ++rank)
      ranks_.push_back(std::make_unique<RankProgress>(folder, static_cast<std::size_t>(rank), streams));
  }
  void done(int rank) { ranks_[static_cast<std::size_t>(rank - first_)]->set(RankStage::Done); }
  void failed(int rank) {
    for (const auto& other : ranks_) other->set(RankStage::Told);
    ranks_[static_cast<std::size_t>(rank - first_)]->set(RankStage::Failed);
  }

 private:
  const int first_;
  std::vector<std::unique_ptr<RankProgress>> ranks_;
};

/// What fails ends all ranks, while the runtime is still there: to free it might take for ever.
void run_rank(Node& node, World& world, int device, const std::filesystem::path& folder,
              ProcessProgress& progress) {
  const std::unique_ptr<Runtime> runtime = make_cuda_runtime(node, world, device);
  try {
    execute(node.plan, world, *runtime, folder);
    progress.done(world.rank());
  } catch (...) {
    const int code = tell(fmt::format("rank {}: ", world.rank()));
    progress.failed(world.rank());
    world.abort(code);
  }
}

void run_threads(const ExecutionPlan& plan, const RankOptions& options, int gpus) {
  const auto ranks = static_cast<int>(plan.schedule.world_size());
  Node node(plan, talk_of(gpus, ranks, options.virtual_ranks));
  const std::vector<std::unique_ptr<World>> worlds = thread_worlds(ranks);
  ProcessProgress progress(options.folder, 0, ranks, plan.schedule.streams.size());
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      run_rank(node, *worlds[static_cast<std::size_t>(rank)], rank, options.folder, progress);
    });
}

/// As one process of a job.
void run_process(const ExecutionPlan& plan, const RankOptions& options, int gpus, int local) {
  if (options.virtual_ranks)
    refuse("--virtual-ranks",
           "ranks that share a GPU are threads of one process; start the program without mpirun or srun");
#ifdef SYNCLINE_CUDA_MPI
  const std::unique_ptr<World> world = make_mpi_world();
  const auto ranks = static_cast<int>(plan.schedule.world_size());
  if (world->size() != ranks)
    throw EnvironmentError(fmt::format("the job has {} processes, the schedule {} ranks; start one a rank",
                                       world->size(), ranks));
  try {
    if (local >= gpus)
      throw EnvironmentError(
          fmt::format("a rank has no GPU: it is the {}th of this machine, which has {}", local + 1, gpus));
    Node node(plan, Talk::Nccl);
    ProcessProgress progress(options.folder, world->rank(), 1, plan.schedule.streams.size());
    run_rank(node, *world, local, options.folder, progress);
  } catch (...) {
    world->abort(tell(fmt::format("rank {}: ", world->rank())));
  }
#else
  static_cast<void>(plan);
  static_cast<void>(gpus);
  throw EnvironmentError(
      fmt::format("this is process {} of an MPI job, and syncline was built without MPI", local));
#endif
}

void run(const RankOptions& options) {
  // As many hardware queues as there can be, so that streams which wait for other ranks hold up no others.
  static_cast<void>(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0));
  const ExecutionPlan plan = read_plan(options.folder);
  const int gpus = count_gpus();
  if (const std::optional<int> local = local_process([](const char* name) { return std::getenv(name); }))
    run_process(plan, options, gpus, *local);
  else
    run_threads(plan, options, gpus);
}

}  // namespace
}  // namespace syncline::cuda

int main(int argc, char** argv) {
  using namespace syncline::cuda;
  try {
    const RankOptions options =
        parse_options(std::span<const char* const>(argv + 1, static_cast<std::size_t>(argc - 1)));
    if (options.help)
      std::fputs(usage().c_str(), stdout);
    else
      run(options);
    return Done;
  } catch (...) {
    return tell("");
  }
}
