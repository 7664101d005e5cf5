#include "tools/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::array Handled{SIGINT, SIGTERM, SIGHUP};
constexpr std::chrono::milliseconds TimeToEnd{5000};  // after SIGTERM; then SIGKILL
constexpr std::chrono::milliseconds BetweenLooks{50};

/// What Open MPI needs on few cores, without network or ssh, for several threads a rank. By its environment, so that a user's
/// own settings win, and other launchers pass over them.
const std::vector<std::pair<std::string, std::string>> OpenMpi{
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
    {"OMPI_MCA_mpi_yield_when_idle", "1"},
    {"OMPI_MCA_pml", "ob1"},
    {"OMPI_MCA_odls_base_sigkill_timeout", "1"},
    {"OPENBLAS_NUM_THREADS", "1"},
};
// On one machine.
const std::vector<std::pair<std::string, std::string>> OpenMpiAlone{
    {"OMPI_MCA_plm", "isolated"},
    {"OMPI_MCA_btl", "self,vader"},
};

bool in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  return all;
}

std::string with_ranks(std::string word, std::size_t ranks) {
  constexpr std::string_view Ranks = "{ranks}";
  if (const std::size_t at = word.find(Ranks); at != std::string::npos)
    word.replace(at, Ranks.size(), std::to_string(ranks));
  return word;
}

/// But for those that this process was started to ignore, as nohup does: blocked ones would come all the same.
sigset_t handled_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : Handled) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  return signals;
}

/// While it lives, the handled signals come by a file descriptor, and in no other way.
class Signals {
 public:
  Signals() {
    std::signal(SIGCHLD, SIG_DFL);  // where it is ignored, nobody can wait for a child's end
    const sigset_t signals = handled_signals();
    sigprocmask(SIG_BLOCK, &signals, &before_);
    file_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    close(file_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  [[nodiscard]] int file() const { return file_; }
  [[nodiscard]] const sigset_t& before() const { return before_; }
  /// The next one; 0: none.
  [[nodiscard]] int take() const {
    signalfd_siginfo info{};
    return read(file_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  int file_ = -1;
};

/// Of the child, between fork and exec: only calls that may be made there.
[[noreturn]] void become(char* const* arguments, char* const* environment, int output, const sigset_t& mask) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execvpe(arguments[0], arguments, environment);
  const char* const why = std::strerror(errno);
  static_cast<void>(!write(STDERR_FILENO, why, std::strlen(why)));
  _exit(127);
}

/// Texts as exec wants them.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

/// What is added does not replace what is there. Read from the system: a program that names `environ` has one of its own, and
/// the MPI of a sweep, whose symbols are looked up beside it, another.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> all;
  std::ifstream own("/proc/self/environ", std::ios::binary);
  for (std::string text; std::getline(own, text, '\0');) all.push_back(text);
  for (const auto& [name, value] : added)
    if (std::getenv(name.c_str()) == nullptr) all.push_back(name + "=" + value);
  return all;
}

/// A process and its group.
class Group {
 public:
  Group(const Launch& launch, const Signals& signals) {
    std::vector<std::string> command = launch.command, environment = environment_with(launch.environment);
    const std::vector<char*> arguments = pointers_to(command), variables = pointers_to(environment);
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
      throw EnvironmentError(fmt::format("pipe: {}", std::strerror(errno)));
    process_ = fork();
    if (process_ == 0) become(arguments.data(), variables.data(), ends[1], signals.before());
    close(ends[1]);
    output_ = ends[0];
    fcntl(output_, F_SETFL, O_NONBLOCK);
    if (process_ < 0) throw EnvironmentError(fmt::format("fork: {}", std::strerror(errno)));
    setpgid(process_, process_);
  }
  ~Group() {
    if (process_ > 0) kill(-process_, SIGKILL);
    close(output_);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] int output() const { return output_; }
  void signal(int number) const { kill(-process_, number); }
  /// Passes on what there is to read.
  /// @returns whether there may come more
  bool pass_on() const {
    std::array<char, 4096> text{};
    ssize_t size = 0;
    while ((size = read(output_, text.data(), text.size())) > 0)
      static_cast<void>(!write(STDERR_FILENO, text.data(), static_cast<std::size_t>(size)));
    return size < 0;
  }
  /// The process has ended: with which code.
  [[nodiscard]] std::optional<int> ended() const {
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) != process_) return std::nullopt;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t process_ = -1;
  int output_ = -1;
};

}  // namespace

std::optional<fs::path> companion_program(const std::string& name) {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& file : {folder / name, folder / ".." / "libexec" / "syncline" / name})
    if (access(file.c_str(), X_OK) == 0) return fs::weakly_canonical(file);
  return std::nullopt;
}

Launch launch_of(const LaunchOptions& options, const std::vector<std::string>& command) {
  Launch launch{{}, OpenMpi};
  if (!options.launcher.empty()) {
    for (const std::string& word : words_of(options.launcher))
      launch.command.push_back(with_ranks(word, options.processes));
  } else {
    if (!in_path("mpirun"))
      throw EnvironmentError(
          "there is no mpirun here; install Open MPI (Debian: openmpi-bin), or name another with --launcher");
    launch.command = {"mpirun", "-q", "-n", std::to_string(options.processes)};
    if (!options.hostfile.empty())
      launch.command.insert(launch.command.end(), {"--hostfile", options.hostfile});
    else
      launch.environment.insert(launch.environment.begin(), OpenMpiAlone.begin(), OpenMpiAlone.end());
  }
  launch.command.insert(launch.command.end(), command.begin(), command.end());
  return launch;
}

Ended run_to_end(const Launch& launch) {
  const Signals signals;
  const Group group(launch, signals);
  Ended result;
  Clock::time_point last;  // when all are killed
  bool speaks = true;
  while (true) {
    std::array<pollfd, 2> files{{{speaks ? group.output() : -1, POLLIN, 0}, {signals.file(), POLLIN, 0}}};
    poll(files.data(), files.size(), static_cast<int>(BetweenLooks.count()));
    speaks = speaks && group.pass_on();
    if (const int signal = signals.take(); signal != 0) {
      if (result.interrupted == 0) last = Clock::now() + TimeToEnd;
      result.interrupted = signal;
      group.signal(SIGTERM);
    }
    if (result.interrupted != 0 && Clock::now() > last) group.signal(SIGKILL);
    if (const std::optional<int> code = group.ended()) {
      group.pass_on();
      result.code = *code;
      return result;
    }
  }
}

}  // namespace syncline
