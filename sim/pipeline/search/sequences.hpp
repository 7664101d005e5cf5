// An order as numbers, quick to change and to time again.
#pragma once

#include <limits>
#include <vector>

#include "sim/pipeline/order.hpp"
#include "sim/pipeline/search/task.hpp"

namespace syncline::pipeline::search {

/// A place in a rank's sequence.
struct Place {
  int rank = 0, at = 0;
};

class Sequences {
 public:
  /// A whole backward becomes its two halves.
  Sequences(const Task& task, const Order& order);

  /// Takes the action at `from` out and puts it where `to` is. Times are those of before until update().
  void move(int rank, int from, int to);
  [[nodiscard]] int size(int rank) const { return static_cast<int>(ranks_[rank].size()); }
  [[nodiscard]] int actions() const { return static_cast<int>(fixed_.size()); }

  /// Times everything. Gives up, and leaves no times, on a deadlock and as soon as the makespan must be above
  /// `most`.
  bool update(double most = std::numeric_limits<double>::infinity());
  /// Actions timed by all updates.
  [[nodiscard]] long timed() const { return timed_; }
  /// Of the last update; without the peak.
  [[nodiscard]] const Score& score() const { return score_; }
  /// Sum of the ranks' last ends: the smaller, the less is left to shorten.
  [[nodiscard]] double sum_of_ends() const { return sum_of_ends_; }
  /// Most memory held by a rank, or by any.
  [[nodiscard]] double peak(int rank) const;
  [[nodiscard]] double peak() const;
  /// Actions on the critical path that wait for nothing but the one before on their rank; last first.
  [[nodiscard]] std::vector<Place> critical() const;

  [[nodiscard]] Order order() const;

 private:
  // Actions by number: steps by step and microbatch, then weight gradients by stage and microbatch.
  [[nodiscard]] int number(const Action& action) const;
  [[nodiscard]] Action action(int number) const;
  void add_step(int step, int microbatch);

  static constexpr int None = -1;
  struct Fixed {
    double time = 0, memory = 0;
    double lag = 0;    // after its input's end
    int input = None;  // what it needs besides the one before it on its rank
    int rank = 0;
    int wakes = None;  // a rank other than its own, whose action of the next step needs this one
  };
  const Task* task_;
  std::vector<Fixed> fixed_;  // by action
  std::vector<double> work_;  // by rank: sum of its times
  std::vector<std::vector<int>> ranks_;
  // Of the last update.
  std::vector<double> ends_;  // by action
  std::vector<int> places_;   // by action, in its rank's sequence
  Score score_;
  double sum_of_ends_ = 0;
  long timed_ = 0;
};

}  // namespace syncline::pipeline::search
