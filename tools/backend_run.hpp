// Plans carried out by a backend's programs: what `execute` and `calibrate --backend` have in common.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "backends/execute/plan.hpp"
#include "sim/timeline/timeline.hpp"
#include "tools/launcher.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace syncline {

struct BackendOptions {
  std::string backend = "mpi";
  LaunchOptions launch{};      // but for the number of processes
  bool virtual_ranks = false;  // GPUs: several ranks on one
  std::string rescue{};        // file for the timeline of what was measured before ranks failed or were ended; empty: none
  std::string folder{};        // where plans and what is measured lie; empty: a temporary one for each
};
/// --backend, --launcher, --hostfile, --virtual-ranks, --work-folder.
/// @returns the first of them
CLI::Option* add_backend_options(CLI::App& app, BackendOptions& options);

/// What ranks left behind.
struct Measured {
  ExecutionRecord record;
  Timeline timeline;  // of the step that is shown
};

class BackendRun {
 public:
  /// @throws InputError        options that do not go together
  /// @throws EnvironmentError  the backend's program is not there
  explicit BackendRun(BackendOptions options);

  /// Nothing when a rank died or hung: that has been said. A signal that asks this process to end does so, when all ranks are
  /// gone.
  /// @param origin  file or flag that the number of ranks is from, for messages
  /// @throws InputError        more ranks than one machine can hold
  /// @throws EnvironmentError  the environment lacks something
  [[nodiscard]] std::optional<Measured> run(const ExecutionPlan& plan, const std::string& origin) const;

 private:
  void rescue(const std::filesystem::path& timeline) const;
  [[nodiscard]] bool several_machines() const;
  [[nodiscard]] LaunchOptions launch_options(std::size_t ranks) const;
  [[nodiscard]] Ended launch(std::size_t ranks, const std::string& folder) const;

  BackendOptions options_;
  std::string program_;
  bool process_a_rank_ = true;
};

}  // namespace syncline
