// The ranks that execute a schedule together: what they tell each other besides the schedule's own traffic.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace syncline {

/// From one thread a rank, but for abort().
class World {
 public:
  virtual ~World() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  virtual void barrier() = 0;
  virtual void send(int to, std::span<const std::byte> bytes) = 0;
  [[nodiscard]] virtual std::vector<std::byte> receive(int from) = 0;
  /// Ends all ranks, this one too. From any thread.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

}  // namespace syncline
