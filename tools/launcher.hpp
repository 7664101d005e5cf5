// Starts the processes that execute a schedule, and sees to it that none is left behind.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace syncline {

/// How the ranks of a job are started.
struct LaunchOptions {
  std::size_t processes = 1;
  std::string hostfile;  // for mpirun; empty: all on this machine
  std::string launcher;  // "srun -K -n {ranks}", in place of mpirun; empty: mpirun
};

struct Launch {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // added where not set by the user
};

/// A program that is installed with this one: beside it, or in ../libexec/syncline; nothing where it is not.
[[nodiscard]] std::optional<std::filesystem::path> companion_program(const std::string& name);

/// @param command  the program and its arguments, of one process
/// @throws EnvironmentError when there is no mpirun, and no other launcher is given
[[nodiscard]] Launch launch_of(const LaunchOptions& options, const std::vector<std::string>& command);

/// How the launched ended.
struct Ended {
  int code = 0;  // exit code; 128 + the number of the signal that ended it
  int interrupted =
      0;  // the signal by which this process was asked to end, and had all end: SIGINT, SIGTERM, SIGHUP; 0: none
};

/// Runs it to its end in a process group of its own; what it prints goes to stderr. A SIGINT, SIGTERM or
/// SIGHUP to this process ends it; nothing of the group is there any more afterwards, and it does not
/// outlive this process either.
/// @throws EnvironmentError when it cannot be started
[[nodiscard]] Ended run_to_end(const Launch& launch);

}  // namespace syncline
