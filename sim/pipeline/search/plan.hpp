// An order in the making.
#pragma once

#include <vector>

#include "sim/pipeline/order.hpp"
#include "sim/pipeline/search/task.hpp"

namespace syncline::pipeline::search {

/// Actions put on ranks one after another, each as soon as rank and inputs allow; so the times are those of a
/// replay.
class Plan {
 public:
  explicit Plan(const Task& task);

  [[nodiscard]] const Task& task() const { return *task_; }
  [[nodiscard]] int done(int step) const { return done_[step]; }
  [[nodiscard]] bool left(int step) const { return done_[step] < task_->microbatches; }
  /// When the inputs of the step's next microbatch are there; infinity while what makes them is not planned.
  [[nodiscard]] double arrival(int step) const;

  [[nodiscard]] double now(int rank) const { return ranks_[rank].now; }
  [[nodiscard]] double held(int rank) const { return ranks_[rank].held; }
  /// Idle time since the rank's first forward.
  [[nodiscard]] double idle(int rank) const { return ranks_[rank].idle; }
  [[nodiscard]] double longest_idle() const { return longest_idle_; }
  [[nodiscard]] int weights_waiting(int rank) const;
  /// The weight gradient that has waited longest, and its time. @pre one waits
  [[nodiscard]] Action next_weight(int rank) const;
  [[nodiscard]] double weight_time(int rank) const;
  /// Whether `more` may be added to what the rank holds.
  [[nodiscard]] bool fits(int rank, double more) const;

  /// The step's next microbatch. Without its inputs, beyond the last, or over the limit the plan is spoilt.
  void put(int step);
  /// The weight gradient that has waited longest; spoils the plan when there is none.
  void put_weight(int rank);
  /// Weight gradients, until `more` fits.
  void make_room(int rank, double more);
  /// Weight gradients that end before `arrival`. @returns the idle time left [s], 0 when no weight gradient
  /// waits
  double fill_until(int rank, double arrival);
  void put_all_weights();

  /// Whether something was put that cannot run or does not fit; nothing was changed then.
  [[nodiscard]] bool spoilt() const { return spoilt_; }
  /// Everything put, and not spoilt.
  [[nodiscard]] bool complete() const;
  [[nodiscard]] Score score() const;
  [[nodiscard]] Order order() const;

 private:
  struct Rank {
    double now = 0, held = 0, peak = 0, idle = 0;
    double first_start = -1;  // none yet
    std::vector<Action> actions;
    std::vector<Action> inputs;  // input gradients in their order; the first `weights` have theirs
    int weights = 0;
  };
  void add(Rank& rank, Action action, double start, double time, double memory);
  [[nodiscard]] std::size_t cell(int step, int microbatch) const {
    return microbatch * task_->path.size() + step;
  }

  const Task* task_;
  std::vector<int> done_;     // by step
  std::vector<double> ends_;  // by microbatch and step
  std::vector<Rank> ranks_;
  double longest_idle_ = 0;
  bool spoilt_ = false;
};

}  // namespace syncline::pipeline::search
