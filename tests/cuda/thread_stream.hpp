// A CUDA stream that is a thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

struct CUstream_st {
  CUstream_st() : thread([this](const std::stop_token& stop) { run(stop); }) {}

  void put(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex);
      queue.push_back(std::move(work));
    }
    changed.notify_all();
  }
  bool empty() {
    const std::lock_guard lock(mutex);
    return queue.empty() && !busy;
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    for (;;) {
      if (!changed.wait(lock, stop, [this] { return !queue.empty(); })) return;
      const std::function<void()> work = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      work();
      lock.lock();
      busy = false;
    }
  }

  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<std::function<void()>> queue;
  bool busy = false;
  std::jthread thread;  // last
};
