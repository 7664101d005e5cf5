// One GPU divided among ranks: green contexts, each with multiprocessors of its own.
#pragma once

#include <vector>

#include "backends/cuda/buffer.hpp"
#include "backends/cuda/driver.hpp"

namespace syncline::cuda {

/// All share the device's memory and its primary context, which stays current; what is launched in a
/// partition's stream runs on the partition's multiprocessors.
class Partitions {
 public:
  /// @throws EnvironmentError  when the device cannot be divided so
  Partitions(const Driver& driver, int device, unsigned ranks);
  ~Partitions();
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;

  /// To be destroyed before the partitions.
  [[nodiscard]] Stream make_stream(unsigned rank, int priority) const;
  [[nodiscard]] int multiprocessors_each() const { return each_; }
  [[nodiscard]] int multiprocessors() const { return all_; }

 private:
  const Driver& driver_;
  int each_ = 0, all_ = 0;
  std::vector<CUgreenCtx> contexts_;  // by rank
};

}  // namespace syncline::cuda
