#include "tools/workers.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

[[noreturn]] void fail(const char* call) {
  throw EnvironmentError(fmt::format("{} failed: {}", call, std::strerror(errno)));
}

bool write_all(int to, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t count = send(to, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += static_cast<std::size_t>(count);
  }
  return true;
}

/// What arrives, up to the end of a line; empty when the other end is gone.
std::string read_line(int from) {
  std::string line;
  while (line.empty() || line.back() != '\n') {
    char buffer[4096];
    const ssize_t count = recv(from, buffer, sizeof buffer, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return "";
    line.append(buffer, static_cast<std::size_t>(count));
  }
  return line;
}

/// The kernel ends the process by SIGPROF when it has used so much processor time from now on.
void limit_processor_time(std::chrono::seconds limit) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(limit.count());
  setitimer(ITIMER_PROF, &timer, nullptr);
}

/// The life of a worker.
[[noreturn]] void labour(int channel, const std::function<std::string(std::size_t)>& work,
                         std::chrono::seconds limit) {
  for (std::string line = read_line(channel); !line.empty(); line = read_line(channel)) {
    limit_processor_time(limit);
    std::string answer;
    try {
      answer = work(std::stoul(line));
    } catch (...) {
      _exit(1);
    }
    if (!write_all(channel, answer)) break;
  }
  _exit(0);
}

class Pool {
 public:
  Pool(std::size_t items, const WorkerOptions& options, const WorkerCalls& calls)
      : items_(items), options_(options), calls_(calls) {}

  void run() {
    const auto wanted = std::min(items_, static_cast<std::size_t>(std::max(1, options_.processes)));
    while (workers_.size() < wanted) start();
    while (!workers_.empty()) serve();
  }

 private:
  struct Worker {
    WorkerProcess process;
    std::size_t item = 0;
  };

  /// A worker with the next item.
  void start() {
    std::vector<int> channels;
    for (const Worker& worker : workers_) channels.push_back(worker.process.channel());
    workers_.push_back({WorkerProcess(calls_.work, options_.limit, channels), 0});
    give_next(workers_.size() - 1);
  }

  void give_next(std::size_t at) {
    if (next_ == items_) return static_cast<void>(retire(at));
    workers_[at].item = next_++;
    workers_[at].process.give(workers_[at].item);
  }

  WorkerProcess::End retire(std::size_t at) {
    Worker worker = std::move(workers_[at]);
    workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(at));
    return worker.process.end();
  }

  /// Waits for one worker or more to answer.
  void serve() {
    std::vector<pollfd> waiting;
    for (const Worker& worker : workers_) waiting.push_back({worker.process.channel(), POLLIN, 0});
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) fail("poll");
    for (std::size_t i = waiting.size(); i-- > 0;)
      if (waiting[i].revents != 0) answered(i);
  }

  void answered(std::size_t at) {
    const std::size_t item = workers_[at].item;
    const std::string line = workers_[at].process.answer();
    if (!line.empty()) {
      calls_.done(item, line);
      return give_next(at);
    }
    const WorkerProcess::End end = retire(at);
    calls_.lost(item, end.out_of_time, end.how);
    if (next_ < items_) start();
  }

  std::size_t items_, next_ = 0;
  const WorkerOptions& options_;
  const WorkerCalls& calls_;
  std::vector<Worker> workers_;
};

}  // namespace

WorkerProcess::WorkerProcess(const std::function<std::string(std::size_t)>& work, std::chrono::seconds limit,
                             std::span<const int> inherited) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  std::fflush(nullptr);  // nothing may be written twice
  process_ = fork();
  if (process_ < 0) fail("fork");
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    for (const int channel : inherited) close(channel);
    labour(ends[1], work, limit);
  }
  close(ends[1]);
  channel_ = ends[0];
}

WorkerProcess::~WorkerProcess() {
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  static_cast<void>(end());
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept
    : process_(std::exchange(other.process_, -1)), channel_(std::exchange(other.channel_, -1)) {}

WorkerProcess& WorkerProcess::operator=(WorkerProcess&& other) noexcept {
  std::swap(process_, other.process_);
  std::swap(channel_, other.channel_);
  return *this;
}

void WorkerProcess::give(std::size_t item) {
  static_cast<void>(write_all(channel_, fmt::format("{}\n", item)));
}

std::string WorkerProcess::answer() {
  return read_line(channel_);
}

WorkerProcess::End WorkerProcess::end() {
  close(std::exchange(channel_, -1));
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  if (!WIFSIGNALED(status)) return {false, fmt::format("exit code {}", WEXITSTATUS(status))};
  const int signal = WTERMSIG(status);
  return {signal == SIGPROF, fmt::format("signal {} ({})", signal, strsignal(signal))};
}

void work_through(std::size_t items, const WorkerOptions& options, const WorkerCalls& calls) {
  Pool(items, options, calls).run();
}

}  // namespace syncline
