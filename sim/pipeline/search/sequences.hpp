// An order as numbers, quick to change and to time again.
#pragma once

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
  [[nodiscard]] int actions() const { return static_cast<int>(times_.size()); }

  /// Times everything. @returns false on a deadlock, which leaves no times
  bool update();
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
  struct Input {
    int action = None;  // of another number; none: ready from the start
    double lag = 0;
  };
  const Task* task_;
  std::vector<double> times_, memory_;  // by action
  std::vector<Input> inputs_;           // by action
  std::vector<std::vector<int>> ranks_;
  // Of the last update.
  std::vector<double> ends_;  // by action
  std::vector<int> places_;   // by action, in its rank's sequence
  Score score_;
  double sum_of_ends_ = 0;
};

}  // namespace syncline::pipeline::search
