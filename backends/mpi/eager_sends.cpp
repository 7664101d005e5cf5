#include "backends/mpi/eager_sends.hpp"

#include <utility>

#include "backends/mpi/mpi_call.hpp"

namespace syncline::mpi {

EagerSends::~EagerSends() {
  thread_.request_stop();
}

void EagerSends::take(MPI_Request send) {
  const std::lock_guard lock(mutex_);
  fresh_.push_back(send);
  ++open_;
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { look_after(stop); });
  changed_.notify_all();
}

void EagerSends::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || open_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

void EagerSends::look_after(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !fresh_.empty(); })) {
    std::vector<MPI_Request> sends = std::exchange(fresh_, {});
    lock.unlock();
    std::exception_ptr failure;
    try {
      wait_all(sends, stop);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    open_ -= sends.size();
    if (failure) failure_ = failure;
    changed_.notify_all();
  }
}

}  // namespace syncline::mpi
