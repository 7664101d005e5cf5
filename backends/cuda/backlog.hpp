// How far a host runs ahead of a stream.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace syncline::cuda {

/// The commands of a stream that may not have ended. A full hardware queue (1024 commands and more) blocks
/// the call that launches the next, and with it all threads of the process that launch; the host waits before
/// it comes to that.
class Backlog {
 public:
  /// @param most  commands in the stream at once
  explicit Backlog(int most) : most_(most) {}

  /// An op is to follow. The earlier op that must have ended before; nullopt: none.
  std::optional<std::uint32_t> add(std::uint32_t op, int commands) {
    std::optional<std::uint32_t> awaited;
    while (!ops_.empty() && commands_ + commands > most_) {
      awaited = ops_.front().op;
      commands_ -= ops_.front().commands;
      ops_.pop_front();
    }
    ops_.push_back({op, commands});
    commands_ += commands;
    return awaited;
  }
  void clear() {
    ops_.clear();
    commands_ = 0;
  }

 private:
  struct Entry {
    std::uint32_t op;
    int commands;
  };
  const int most_;
  int commands_ = 0;
  std::deque<Entry> ops_;
};

}  // namespace syncline::cuda
