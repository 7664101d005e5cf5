// How items go through an MPI job. Messages are item numbers to workers and short texts from them.
#include "tools/mpi_workers.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "sim/core/error.hpp"
#include "sim/core/host.hpp"
#include "tools/mpi_plugin.hpp"

namespace syncline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int ItemTag = 1;    // rank 0 to a worker: an item, or GoHome
constexpr int AnswerTag = 2;  // a worker to rank 0: a kind, then text
constexpr std::uint64_t GoHome = ~std::uint64_t{0};
enum Kind : char { Ready = 'r', Done = 'd', Late = 't', Ended = 'e', Alive = 'a' };

constexpr std::chrono::milliseconds BetweenSigns{1000};  // of life, from a worker
constexpr std::chrono::seconds Silence{30};              // after which a worker is taken for lost
constexpr std::chrono::microseconds BetweenLooks{200};   // of rank 0, which leaves the processor to others

/// The plugin: beside the program, or where it is installed; null without one, and where its MPI is not
/// there.
const MpiPlugin* load_plugin() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& file : {folder / MpiPluginFile, folder / ".." / "lib" / "syncline" / MpiPluginFile}) {
    // Its own symbols first: libsimgrid, which is in this program, has an MPI of the same names.
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library == nullptr) continue;
    if (void* const entry = dlsym(library, MpiPluginEntry))
      return reinterpret_cast<MpiPluginFunction>(entry)();
  }
  return nullptr;
}

void send_item(const MpiPlugin& mpi, int to, std::uint64_t item) {
  mpi.send(to, ItemTag, &item, sizeof item);
}

void answer(const MpiPlugin& mpi, Kind kind, const std::string& text) {
  const std::string message = static_cast<char>(kind) + text;
  mpi.send(0, AnswerTag, message.data(), message.size());
}

std::uint64_t receive_item(const MpiPlugin& mpi) {
  std::uint64_t item = GoHome;
  mpi.receive(0, ItemTag, &item, sizeof item);
  return item;
}

struct Message {
  int from = 0;
  Kind kind = Alive;
  std::string text;
};

/// The next answer of any worker, if one is there.
std::optional<Message> take_message(const MpiPlugin& mpi) {
  int from = 0;
  std::size_t size = 0;
  if (!mpi.look(AnswerTag, &from, &size)) return std::nullopt;
  std::string text(size, '\0');
  mpi.receive(from, AnswerTag, text.data(), size);
  return Message{from, static_cast<Kind>(text.front()), text.substr(1)};
}

/// What rank 0 knows of the others.
class Desk {
 public:
  Desk(const MpiPlugin& mpi, const std::vector<std::size_t>& numbers, const WorkerCalls& calls,
       std::string task, std::vector<bool>& at_work)
      : mpi_(mpi),
        numbers_(numbers),
        calls_(calls),
        task_(std::move(task)),
        at_work_(at_work),
        workers_(at_work.size()) {
    for (Worker& worker : workers_) worker.heard = Clock::now();
  }

  /// @returns whether a worker was lost
  bool run() {
    while (busy()) {
      if (const std::optional<Message> message = take_message(mpi_))
        hear(*message);
      else
        std::this_thread::sleep_for(BetweenLooks);
      give_up_silent();
    }
    return lost_;
  }
  [[nodiscard]] std::size_t next() const { return next_; }

 private:
  struct Worker {
    std::optional<std::size_t> item;
    Clock::time_point heard;
  };

  [[nodiscard]] bool busy() const {
    for (std::size_t rank = 1; rank < workers_.size(); ++rank)
      if (at_work_[rank]) return true;
    return false;
  }

  void hear(const Message& message) {
    const auto rank = static_cast<std::size_t>(message.from);
    Worker& worker = workers_[rank];
    worker.heard = Clock::now();
    if (message.kind == Alive) return;
    if (!at_work_[rank])
      return send_item(mpi_, message.from, GoHome);  // taken for lost, and back: its item is written off
    if (message.kind == Ready && message.text != task_)
      throw EnvironmentError(fmt::format("rank {} of the MPI job reads other files than rank 0 on {}: {}",
                                         message.from, host_name(), message.text));
    if (worker.item) settle(*worker.item, message);
    give_next(message.from);
  }

  void settle(std::size_t item, const Message& message) {
    if (message.kind == Done)
      calls_.done(item, message.text);
    else
      calls_.lost(item, message.kind == Late, message.text);
  }

  void give_next(int rank) {
    Worker& worker = workers_[static_cast<std::size_t>(rank)];
    worker.item.reset();
    if (next_ == numbers_.size()) {
      at_work_[static_cast<std::size_t>(rank)] = false;
      return send_item(mpi_, rank, GoHome);
    }
    worker.item = next_++;
    send_item(mpi_, rank, numbers_[*worker.item]);
  }

  void give_up_silent() {
    for (std::size_t rank = 1; rank < workers_.size(); ++rank) {
      Worker& worker = workers_[rank];
      if (!at_work_[rank] || Clock::now() - worker.heard < Silence) continue;
      at_work_[rank] = false;
      lost_ = true;
      if (worker.item)
        calls_.lost(*worker.item, false, fmt::format("its MPI rank, {}, falling silent", rank));
    }
  }

  const MpiPlugin& mpi_;
  const std::vector<std::size_t>& numbers_;
  std::size_t next_ = 0;
  const WorkerCalls& calls_;
  std::string task_;
  std::vector<bool>& at_work_;
  std::vector<Worker> workers_;
  bool lost_ = false;
};

/// Waits for a worker's answer, and tells rank 0 meanwhile that this rank is alive.
std::string await(const MpiPlugin& mpi, WorkerProcess& process) {
  pollfd channel{process.channel(), POLLIN, 0};
  while (poll(&channel, 1, static_cast<int>(BetweenSigns.count())) == 0) answer(mpi, Alive, "");
  return process.answer();
}

}  // namespace

std::string mpi_library() {
  const MpiPlugin* const mpi = load_plugin();
  if (mpi == nullptr) return "";
  const std::string whole = mpi->library();
  return whole.substr(0, whole.find_first_of(",\n"));
}

MpiJob::MpiJob() : mpi_(load_plugin()) {
  if (mpi_ == nullptr)
    throw EnvironmentError(
        "this is one process of an MPI job, but the program has no MPI; install it (Debian: "
        "libopenmpi-dev openmpi-bin) and build again, or start it without mpirun");
  mpi_->begin(&rank_, &size_);
  if (rank_ == 0) at_work_.assign(static_cast<std::size_t>(size_), true);
}

MpiJob::~MpiJob() {
  for (int rank = 1; rank_ == 0 && rank < size_; ++rank)
    if (at_work_[static_cast<std::size_t>(rank)]) send_item(*mpi_, rank, GoHome);
  if (some_lost_) {
    std::fflush(nullptr);  // everything is written; end() would wait for the dead
    mpi_->abort(1);
  }
  mpi_->end();
}

void MpiJob::work_through(const std::vector<std::size_t>& numbers, const WorkerOptions& options,
                          const WorkerCalls& calls, const std::string& task) {
  Desk desk(*mpi_, numbers, calls, task, at_work_);
  some_lost_ = desk.run();
  const std::size_t first = desk.next();  // of those that nobody was left for
  syncline::work_through(numbers.size() - first, options,
                         {[&](std::size_t item) { return calls.work(first + item); },
                          [&](std::size_t item, const std::string& line) { calls.done(first + item, line); },
                          [&](std::size_t item, bool out_of_time, const std::string& how) {
                            calls.lost(first + item, out_of_time, how);
                          }});
}

void MpiJob::serve(const WorkerOptions& options, const WorkerCalls& calls, const std::string& task) {
  answer(*mpi_, Ready, task);
  std::optional<WorkerProcess> process;
  for (std::uint64_t item = receive_item(*mpi_); item != GoHome; item = receive_item(*mpi_)) {
    if (!process) process.emplace(calls.work, options.limit);
    process->give(item);
    const std::string line = await(*mpi_, *process);
    if (!line.empty()) {
      answer(*mpi_, Done, line);
      continue;
    }
    const WorkerProcess::End end = process->end();
    process.reset();
    answer(*mpi_, end.out_of_time ? Late : Ended, end.how);
  }
}

}  // namespace syncline
