// Work on many independent items in the processes of an MPI job, on one machine or several: rank 0 hands
// items out and takes the answers, the others work, each in a process of its own, so that an item that
// crashes costs itself alone.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tools/workers.hpp"

namespace syncline {

struct MpiPlugin;

/// "Open MPI 4.1.4"; empty when the program is built without MPI, or it is not there.
[[nodiscard]] std::string mpi_library();

/// Whether mpirun or srun started this process as one of an MPI job: told by its environment, without MPI.
[[nodiscard]] inline bool started_by_mpi() {
  // Of Open MPI's own launcher, and of any that speaks PMIx or PMI, such as srun.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

/// The MPI job that this process is one of. One a program.
class MpiJob {
 public:
  /// @throws EnvironmentError when the program has no MPI
  MpiJob();
  /// Sends the others home, where that has not been done.
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// On rank 0: every item once. A rank that falls silent is given no more; when all are gone, this process
  /// works.
  /// @param numbers  of the items, as serve() gives them to its work; `calls` count from 0 as those of
  /// work_through() do
  /// @param task     what the ranks work on; the same on all of them
  /// @throws EnvironmentError when a rank has another task: it reads other files
  void work_through(const std::vector<std::size_t>& numbers, const WorkerOptions& options,
                    const WorkerCalls& calls, const std::string& task);

  /// On the other ranks: works until rank 0 has no more. `calls.done` and `calls.lost` are not used.
  void serve(const WorkerOptions& options, const WorkerCalls& calls, const std::string& task);

 private:
  const MpiPlugin* mpi_;
  int rank_ = 0, size_ = 1;
  std::vector<bool> at_work_;  // rank 0: by rank
  bool some_lost_ = false;
};

}  // namespace syncline
