// `syncline calibrate --backend`: figures of the machine at hand, measured here and now.
#pragma once

#include <string>

#include "tools/backend_run.hpp"
#include "tools/subcommand.hpp"

namespace syncline {

struct MachineRequest {
  BackendOptions backend{};
  int ranks = 4;
  std::string largest = "64MiB";  // of collectives
  int repeats = 8;                // of each
  bool kernels = false;           // products and memory, too
  std::string topology{};         // whose nodes and links these are; empty: one node, all its ranks on a switch
  std::string device{};           // that has all other figures; empty: a bare processor
  std::string folder{};           // where the files are written
};

/// The options of `calibrate` itself, beside its subcommands.
void add_machine_options(CLI::App& app, MachineRequest& request);

/// Writes topology.yaml, device.yaml, and what was measured as tables.
[[nodiscard]] ExitCode calibrate_machine(const MachineRequest& request);

}  // namespace syncline
