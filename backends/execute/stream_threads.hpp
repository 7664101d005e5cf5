// Streams as threads: one each, which carries out what is put into it, one op after another. For runtimes on
// processors.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "backends/execute/runtime.hpp"

namespace syncline {

/// The streams of a Runtime, and their events; its calls of the same names have the same meaning.
class StreamThreads {
 public:
  /// Carries an op out, and returns when it has ended. May throw; then all streams are asked to stop, and
  /// what is thrown comes out of synchronize() and finish().
  using Work = std::function<void(const std::stop_token&)>;

  /// @param ops  of the rank's program
  /// @param now  called from all threads
  StreamThreads(std::size_t streams, std::size_t ops, std::function<Seconds()> now);
  /// What has not begun never does; what runs is asked to stop, and waited for.
  ~StreamThreads();

  void begin();
  void wait_for(StreamId stream, std::uint32_t op);
  void launch(StreamId stream, std::uint32_t op, Work work);
  void synchronize(std::uint32_t op);
  [[nodiscard]] std::vector<OpTimes> finish();
  [[nodiscard]] std::vector<bool> ended() const;

 private:
  struct Item {
    std::uint32_t op = 0;
    std::vector<std::uint32_t> after;
    Work work;
  };
  struct Stream {
    std::deque<Item> queue;
    std::vector<std::uint32_t> after;  // of the next op that is put into it
    std::int64_t awaited = -1;         // the op that its first one waits for; -1: none
    std::condition_variable changed;
    std::jthread thread;  // begins with the first op
  };

  void run(Stream& stream);
  void wait(std::unique_lock<std::mutex>& lock, Stream& stream, std::uint32_t op);
  void end(std::uint32_t op, const OpTimes& times);
  void fail(std::exception_ptr failure);

  std::function<Seconds()> now_;
  mutable std::mutex mutex_;  // of all below
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<OpTimes> times_;
  std::vector<bool> ended_;
  std::size_t open_ = 0;  // ops that were launched and have not ended
  std::int64_t host_awaits_ = -1;
  std::condition_variable host_;
  std::exception_ptr failure_;
  std::stop_source stop_;
};

}  // namespace syncline
