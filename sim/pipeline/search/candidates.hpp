// The best of what was found.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "sim/pipeline/search/list_schedule.hpp"
#include "sim/pipeline/search/plan.hpp"

namespace syncline::pipeline::search {

/// Keeps the few best orders offered, by better(); the first of equals stays.
class Candidates {
 public:
  explicit Candidates(const Task& task);

  /// From here on no order is kept whose makespan or span is longer than this one's.
  void set_baseline(const Plan& plan);
  /// Passed over when incomplete.
  void offer(const Plan& plan);
  /// Made elsewhere; passed over when it does not keep the limit.
  void offer(const Order& order);
  /// A list schedule after each guide. Of a large task only those are made whole that do best on fewer
  /// microbatches.
  /// @param effort  actions planned, roughly
  void offer_guided(std::span<const Guide> guides, long effort);

  [[nodiscard]] bool empty() const { return kept_.empty(); }
  /// Whether the best is as short as any order can be.
  [[nodiscard]] bool shortest() const { return !kept_.empty() && shortest(kept_.front().score); }
  /// The best after improve() has been at each that was kept; what it does not shorten is left as it was.
  /// @param budget  actions timed for each; where these are few for so large a task, improve() is left out
  /// @pre something was kept
  [[nodiscard]] Order best(long budget);

 private:
  struct Kept {
    Score score;
    Order order;
  };
  [[nodiscard]] bool shortest(const Score& score) const;
  [[nodiscard]] bool wanted(const Score& score) const;
  void keep(Kept candidate);

  const Task& task_;
  const double least_makespan_;
  std::vector<Kept> kept_;  // best first
  Score most_{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
};

}  // namespace syncline::pipeline::search
