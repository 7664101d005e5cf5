// Work on many independent items in processes of their own: the simulation engine is one a process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace syncline {

struct WorkerOptions {
  int processes = 1;
  std::chrono::seconds limit{60};  // of processor time an item
};

struct WorkerCalls {
  /// In a worker: an item's result in one line, with its line end.
  std::function<std::string(std::size_t item)> work;
  /// In this process, in the order in which items end.
  std::function<void(std::size_t item, const std::string& line)> done;
  /// In place of done(): the worker ended on the way. Out of time, or else by what `how` says.
  std::function<void(std::size_t item, bool out_of_time, const std::string& how)> lost;
};

/// A process forked from this one that works on one item at a time. Dies with this process.
class WorkerProcess {
 public:
  struct End {
    bool out_of_time = false;
    std::string how;  // "signal 11 (Segmentation fault)", "exit code 1"
  };

  /// @param inherited  channels of other workers, which it closes on its side
  /// @throws EnvironmentError when no process can be made
  WorkerProcess(const std::function<std::string(std::size_t item)>& work, std::chrono::seconds limit,
                std::span<const int> inherited = {});
  ~WorkerProcess();  // ends the process, whatever it does
  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&& other) noexcept;

  void give(std::size_t item);
  [[nodiscard]] int channel() const { return channel_; }  // readable when it has answered or ended
  /// Waits for its answer; empty when it has ended.
  [[nodiscard]] std::string answer();
  /// Of one without an answer, or that is no longer needed: waits for its end.
  End end();

 private:
  pid_t process_ = -1;
  int channel_ = -1;
};

/// Every item once. A worker that is lost is replaced.
/// @throws EnvironmentError when no process can be made
void work_through(std::size_t items, const WorkerOptions& options, const WorkerCalls& calls);

}  // namespace syncline
