// Sends that hold nobody up: somebody has to see them to their end.
#pragma once

#include <mpi.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace syncline::mpi {

/// A thread that looks after sends which have begun; it sleeps while there are none.
class EagerSends {
 public:
  EagerSends() = default;
  ~EagerSends();
  EagerSends(const EagerSends&) = delete;
  EagerSends& operator=(const EagerSends&) = delete;

  /// From any thread.
  void take(MPI_Request send);
  /// Until all that were taken have ended.
  /// @throws EnvironmentError when one of them fails
  void wait();

 private:
  void look_after(const std::stop_token& stop);

  std::mutex mutex_;  // of all below but the thread
  std::condition_variable_any changed_;
  std::vector<MPI_Request> fresh_;
  std::size_t open_ = 0;  // fresh ones included
  std::exception_ptr failure_;
  std::jthread thread_;  // begins with the first send
};

}  // namespace syncline::mpi
