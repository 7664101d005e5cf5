#include "backends/cuda/options.hpp"

#include <cstdlib>
#include <string_view>

#include "sim/core/error.hpp"

namespace syncline::cuda {

RankOptions parse_options(std::span<const char* const> arguments) {
  RankOptions options;
  for (const std::string_view argument : arguments) {
    if (argument == "--virtual-ranks")
      options.virtual_ranks = true;
    else if (argument == "--help" || argument == "-h")
      options.help = true;
    else if (argument.starts_with("-"))
      throw InputError(Diagnostic{{}, unknown_name("option", argument, {"--help", "--virtual-ranks"})});
    else if (options.folder.empty())
      options.folder = argument;
    else
      throw InputError(
          Diagnostic{{}, "one folder is expected, \"" + std::string(argument) + "\" is a second one"});
  }
  if (options.folder.empty() && !options.help)
    throw InputError(Diagnostic{{},
                                "the folder of the plan is missing; `syncline execute --backend cuda` writes "
                                "one and starts this program"});
  return options;
}

std::optional<int> local_process(const std::function<const char*(const char*)>& variable) {
  struct Launcher {
    const char* processes;
    const char* local;
  };
  constexpr Launcher Launchers[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},  // Open MPI
                                    {"PMI_SIZE", "MPI_LOCALRANKID"},             // MPICH, Intel MPI
                                    {"SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}};  // srun
  for (const Launcher& launcher : Launchers) {
    const char* processes = variable(launcher.processes);
    const char* local = variable(launcher.local);
    if (processes != nullptr && local != nullptr && std::atoi(processes) > 1) return std::atoi(local);
  }
  return std::nullopt;
}

std::string usage() {
  return "Usage: syncline-rank-cuda FOLDER [--virtual-ranks]\n"
         "Executes the plan in FOLDER on the GPUs of this machine, a rank a GPU, and leaves a timeline "
         "there. Under mpirun or\n"
         "srun, one process a rank, it does so on several machines.\n"
         "`syncline execute --backend cuda` writes the plan and starts this program.\n"
         "  --virtual-ranks  where GPUs are fewer than ranks: all ranks on the first GPU, each on "
         "multiprocessors of its own\n"
         "Exit codes: 0 done, 1 a rank failed, 2 wrong input, 3 no driver or too few GPUs.\n";
}

}  // namespace syncline::cuda
