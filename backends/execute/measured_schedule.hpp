// What ranks measured of a schedule, as a timeline.
#pragma once

#include <vector>

#include "backends/execute/plan.hpp"
#include "backends/execute/runtime.hpp"
#include "sim/timeline/timeline.hpp"

namespace syncline {

using RankTimes = std::vector<std::vector<OpTimes>>;  // [rank][op in its program], on one clock

/// Knows which ops of all ranks are one communication.
class MeasuredSchedule {
 public:
  /// `plan` stays where it is.
  explicit MeasuredSchedule(const ExecutionPlan& plan);

  /// Begins at 0. Data moves once the last member has come; an eager sender waits for nobody. Which algorithm carried out
  /// what is not known.
  [[nodiscard]] Timeline timeline(const RankTimes& times) const;

 private:
  struct Communication {
    std::vector<std::size_t> spans;  // its members'
    bool eager = false;              // the first is a sender that does not wait
  };
  const ExecutionPlan& plan_;
  std::vector<Communication> communications_;
};

}  // namespace syncline
