// Work on many independent items in processes of their own: the simulation engine is one a process.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
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

/// Every item once. A worker that is lost is replaced.
/// @throws EnvironmentError when no process can be made
void work_through(std::size_t items, const WorkerOptions& options, const WorkerCalls& calls);

}  // namespace syncline
