// A building block made into a whole schedule: repeated, squeezed, its ends reordered, its idle slots filled.
//
// Source: Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), section 3; what the
// paper leaves open is as in the authors' public scheduler.
#pragma once

#include <optional>
#include <vector>

#include "sim/pipeline/search/block_rows.hpp"
#include "sim/pipeline/search/task.hpp"

namespace syncline::pipeline::search {

/// Every action takes one slot, whatever its time.
class BlockSchedule {
 public:
  /// @pre the task's stages lie in a V
  explicit BlockSchedule(const Task& task);

  /// Makes the schedule of a block; the one before is forgotten.
  /// @param most_held  activations a rank may hold, from the start of F to the end of W
  /// @returns          false where the block makes no schedule within that
  [[nodiscard]] bool make(const BuildingBlock& block, int most_held);

  /// Of what was made, with the task's times and without the peak; nothing on a deadlock.
  [[nodiscard]] std::optional<Score> score();
  [[nodiscard]] Order order() const;

 private:
  template <class Time>
  struct Step {
    Time time, hop;  // hop: after its input
  };
  template <class Time>
  using Steps = std::vector<Step<Time>>;
  template <class Time, class Visit>
  bool run(const Steps<Time>& steps, std::vector<Time>& ends, const Visit& visit);
  bool squeeze();
  void fill_idle_slots(int most_held);
  bool fill(int rank, int slot, int room);

  // Steps are numbered as in the task, weight gradients behind them.
  [[nodiscard]] int step(Slot what, int rank) const;
  [[nodiscard]] int input(int step) const;
  [[nodiscard]] int at(int step, int microbatch) const { return step * microbatches_ + microbatch; }

  const Task& task_;
  const int steps_;
  int microbatches_ = 0;  // in the rows: for a while more than the task's
  Rows rows_;
  Steps<int> slots_;
  Steps<double> seconds_;
  // By step, and by step and microbatch; kept for their storage.
  std::vector<int> done_, slot_ends_;
  std::vector<double> second_ends_;
};

}  // namespace syncline::pipeline::search
