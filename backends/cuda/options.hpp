// The command line of syncline-rank-cuda, and the environment that it needs.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace syncline::cuda {

struct RankOptions {
  std::filesystem::path folder;  // of the plan
  bool virtual_ranks = false;    // several ranks on one GPU, where GPUs are fewer than ranks
  bool help = false;
};

/// @param arguments  without the program's name
/// @throws InputError  for one that is not known, or when the folder is missing
[[nodiscard]] RankOptions parse_options(std::span<const char* const> arguments);

/// Under mpirun or Slurm, with more than one process: which of its machine's this process is. None: it was
/// started alone.
/// @param variable  of the environment, by name; null where it is not set
[[nodiscard]] std::optional<int> local_process(const std::function<const char*(const char*)>& variable);

/// What --help prints.
[[nodiscard]] std::string usage();

}  // namespace syncline::cuda
