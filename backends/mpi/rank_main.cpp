// The program `syncline-rank-mpi FOLDER`: one rank of a plan, started by `syncline execute` through mpirun or srun.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "backends/execute/executor.hpp"
#include "backends/execute/rank_progress.hpp"
#include "backends/mpi/mpi_backend.hpp"
#include "sim/core/error.hpp"

namespace syncline {
namespace {

// As those of the program syncline.
constexpr int BadInput = 2, BadEnvironment = 3, OurBug = 4;
constexpr int OfSignals = 128;
constexpr unsigned SecondsToBegin = 60;  // in which MPI has to bring the ranks together

sigset_t end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  return signals;
}

/// The rank ends with the process that started it, sleeps as long as it is told to (the system else adds up to 50 us), and
/// does not wait for ever for ranks that never come. No thread is interrupted by who tells it to end.
void prepare_process() {
  const sigset_t signals = end_signals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_TIMERSLACK, 1UL);
  alarm(SecondsToBegin);
}

/// For all of the process's life: ends it when it is told to, and notes that it was.
void heed_end_signals(std::shared_ptr<RankProgress> progress) {
  std::thread([progress = std::move(progress)] {
    const sigset_t signals = end_signals();
    int signal = 0;
    sigwait(&signals, &signal);
    progress->set(RankStage::Told);
    _exit(OfSignals + signal);
  }).detach();
}

/// Says what is wrong, and ends all ranks.
/// @param progress  null until it is made
template <class Run>
void or_abort(World& world, const std::shared_ptr<RankProgress>& progress, const Run& run) {
  const auto end = [&](int code, const char* what) {
    if (progress) progress->set(RankStage::Failed);
    fmt::print(stderr, "rank {}: {}\n", world.rank(), what);
    std::fflush(stderr);
    world.abort(code);
  };
  try {
    run();
  } catch (const InputError& error) {
    end(BadInput, error.what());
  } catch (const EnvironmentError& error) {
    end(BadEnvironment, error.what());
  } catch (const std::bad_alloc&) {
    end(BadEnvironment, "out of memory");
  } catch (const std::exception& error) {
    end(OurBug, error.what());
  }
}

void run_rank(const char* folder) {
  const ExecutionPlan plan = read_plan(folder);
  const std::unique_ptr<World> world = make_mpi_world();
  alarm(0);
  std::shared_ptr<RankProgress> progress;
  or_abort(*world, progress, [&] {
    progress = std::make_shared<RankProgress>(folder, static_cast<std::size_t>(world->rank()),
                                              plan.schedule.streams.size());
    heed_end_signals(progress);
    const auto ranks = plan.schedule.world_size();
    if (ranks != static_cast<std::size_t>(world->size()))
      throw EnvironmentError(
          fmt::format("the schedule is of {} ranks, and {} processes were started", ranks, world->size()));
    const std::unique_ptr<Runtime> runtime = make_mpi_runtime(plan, *world, *progress);
    execute(plan, *world, *runtime, folder);
    progress->set(RankStage::Done);
  });
}

}  // namespace
}  // namespace syncline

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: syncline-rank-mpi FOLDER, by mpirun; syncline execute does it\n");
    return syncline::BadInput;
  }
  try {
    syncline::prepare_process();
    syncline::run_rank(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return syncline::BadEnvironment;
  }
}
