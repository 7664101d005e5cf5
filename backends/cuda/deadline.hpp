// A time by which something must have ended.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "sim/core/quantity.hpp"

namespace syncline::cuda {

/// Calls `late` from a thread of its own unless it is destroyed before the time is over.
class Deadline {
 public:
  Deadline(Seconds time, std::function<void()> late)
      : thread_([this, time, act = std::move(late)] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, std::chrono::duration<double>(time.si()), [this] { return over_; }))
            act();
        }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // last: begins when the others are there
};

}  // namespace syncline::cuda
