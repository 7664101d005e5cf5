#include "tools/backend_run.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backends/execute/rank_progress.hpp"
#include "sim/core/error.hpp"
#include "sim/timeline/trace.hpp"
#include "tools/subcommand.hpp"
#include "tools/terminal.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t RanksACore = 16;  // on one machine: more share a core than tell anything

/// What carries a schedule out.
struct Carrier {
  const char* name;
  const char* program;
  bool process_a_rank;  // else one process holds all ranks of a machine
  const char* missing;  // why the program may not be there
};
constexpr std::array Carriers{
    Carrier{"mpi", "syncline-rank-mpi", true,
            "build it where there is an MPI library (Debian: libopenmpi-dev)"},
    Carrier{"cuda", "syncline-rank-cuda", false, "build it with -D SYNCLINE_CUDA=ON where there is nvcc"},
};

const Carrier& carrier_named(const std::string& name) {
  return *std::ranges::find(Carriers, name, &Carrier::name);
}

std::vector<std::string> carrier_names() {
  std::vector<std::string> names;
  for (const Carrier& carrier : Carriers) names.emplace_back(carrier.name);
  return names;
}

/// The folder in which a plan and what is measured lie; a temporary one is removed at the end.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& given) : temporary_(given.empty()) {
    std::error_code failed;
    if (temporary_) {
      std::string name = (fs::temp_directory_path() / "syncline-execute-XXXXXX").string();
      if (mkdtemp(name.data()) == nullptr) throw EnvironmentError("cannot make a folder in " + name);
      path_ = name;
    } else {
      fs::create_directories(given, failed);
      if (failed)
        throw EnvironmentError(fmt::format("cannot make the folder {}: {}", given, failed.message()));
      path_ = fs::absolute(given);
      remove_results();
    }
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (temporary_) fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  /// Of an earlier run.
  void remove_results() const {
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
      const std::string file = entry.path().filename();
      if (file == TimelineFile || file == ExecutionFile || file.starts_with(ProgressFilePrefix))
        fs::remove(entry.path());
    }
  }

  bool temporary_;
  fs::path path_;
};

/// Its thread takes no signals: one that did would end this process before the ranks, and leave the folder behind.
std::unique_ptr<WaitingLine> waiting_line(std::size_t ranks) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  auto line = std::make_unique<WaitingLine>(fmt::format("executing on {} ranks", ranks));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return line;
}

/// Whether any rank has come so far as to say what it is at.
bool any_began(const fs::path& folder, const Schedule& schedule) {
  return std::ranges::any_of(read_progress(folder, schedule),
                             [](const RankTrace& rank) { return rank.stage != RankStage::Absent; });
}

/// Says what went wrong, by the exit code of the ranks' programs; they have said the rest.
/// @throws EnvironmentError, std::logic_error
void tell_failure(int code, const std::string& died) {
  constexpr int OfSignals = 128;
  if (code == BadEnvironment) throw EnvironmentError("the ranks could not execute the schedule; see above");
  if (code == OurBug) throw std::logic_error("a rank broke a promise; see above");
  const std::string who = died.empty() ? "a rank died" : died;
  if (code == CheckFailed)
    spdlog::error("a rank hung or failed, see above; all ranks were ended");
  else if (code > OfSignals)
    spdlog::error("{}, by signal {} ({}); all ranks were ended", who, code - OfSignals,
                  strsignal(code - OfSignals));
  else if (!died.empty())
    spdlog::error("{}, with exit code {}; all ranks were ended", who, code);
  else
    throw EnvironmentError(fmt::format("the ranks ended with exit code {}; see above", code));
}

}  // namespace

CLI::Option* add_backend_options(CLI::App& app, BackendOptions& options) {
  CLI::Option* backend = app.add_option("--backend", options.backend, "What carries it out")
                             ->capture_default_str()
                             ->check(CLI::IsMember(carrier_names()));
  CLI::Option* launcher =
      app.add_option("--launcher", options.launch.launcher,
                     "In place of mpirun, such as 'srun -K -n {ranks}'; needs --work-folder on a file "
                     "system that all machines see")
          ->type_name("COMMAND");
  app.add_option("--hostfile", options.launch.hostfile,
                 "Machines, as mpirun takes them; needs --work-folder likewise")
      ->type_name("FILE")
      ->excludes(launcher);
  app.add_flag("--virtual-ranks", options.virtual_ranks,
               "By GPUs: several ranks on one, each on a part of it");
  app.add_option("--work-folder", options.folder,
                 "Where the plan and what is measured lie (default: a temporary one)")
      ->type_name("FOLDER");
  return backend;
}

BackendRun::BackendRun(BackendOptions options) : options_(std::move(options)) {
  const Carrier& carrier = carrier_named(options_.backend);
  process_a_rank_ = carrier.process_a_rank;
  if (options_.folder.empty() && several_machines())
    refuse("--work-folder", "is needed with --hostfile and --launcher: a folder that all machines see");
  if (options_.virtual_ranks && process_a_rank_) refuse("--virtual-ranks", "is of GPUs; add --backend cuda");
  const std::optional<fs::path> program = companion_program(carrier.program);
  if (!program)
    throw EnvironmentError(
        fmt::format("there is no {} beside syncline; {}", carrier.program, carrier.missing));
  program_ = program->string();
}

bool BackendRun::several_machines() const {
  return !options_.launch.hostfile.empty() || !options_.launch.launcher.empty();
}

std::optional<Measured> BackendRun::run(const ExecutionPlan& plan, const std::string& origin) const {
  const std::size_t ranks = plan.schedule.world_size();
  const std::size_t most = RanksACore * std::max(1U, std::thread::hardware_concurrency());
  if (ranks > most && !several_machines())
    refuse(origin,
           fmt::format(
               "{} ranks are too many for this machine ({}); give machines by --hostfile or --launcher, or "
               "fewer ranks",
               ranks, most));
  std::optional<Measured> measured;
  int interrupted = 0;
  {
    const WorkFolder folder(options_.folder);
    write_plan(folder.path(), plan);
    const Ended ended = launch(ranks, folder.path().string());
    interrupted = ended.interrupted;
    if (interrupted == 0 && ended.code != 0 && process_a_rank_ && !any_began(folder.path(), plan.schedule))
      throw EnvironmentError(
          fmt::format("no rank began, exit code {}; see whether this works: {}", ended.code,
                      fmt::join(launch_of(launch_options(ranks), {"hostname"}).command, " ")));
    if (interrupted != 0 || ended.code != 0) rescue(folder.path() / TimelineFile);
    if (interrupted == 0 && ended.code != 0)
      tell_failure(ended.code, who_died(folder.path(), plan));
    else if (interrupted == 0 && !fs::exists(folder.path() / ExecutionFile))
      throw EnvironmentError("the launcher ended well, but no rank measured anything; does it start {ranks} processes?");
    else if (interrupted == 0)
      measured = {read_record(folder.path()), read_trace((folder.path() / TimelineFile).string())};
  }
  if (interrupted != 0) raise(interrupted);  // as if it had never been held back
  return measured;
}

void BackendRun::rescue(const fs::path& timeline) const {
  if (options_.rescue.empty() || !fs::exists(timeline)) return;
  write_trace(options_.rescue, read_trace(timeline.string()));
  spdlog::info("what was measured before that is in {}", options_.rescue);
}

Ended BackendRun::launch(std::size_t ranks, const std::string& folder) const {
  std::vector<std::string> command{program_, folder};
  if (options_.virtual_ranks) command.emplace_back("--virtual-ranks");
  const std::unique_ptr<WaitingLine> waiting = waiting_line(ranks);
  if (!process_a_rank_ && !several_machines()) return run_to_end({command, {}});
  return run_to_end(launch_of(launch_options(ranks), command));
}

LaunchOptions BackendRun::launch_options(std::size_t ranks) const {
  LaunchOptions launch = options_.launch;
  launch.processes = ranks;
  return launch;
}

}  // namespace syncline
