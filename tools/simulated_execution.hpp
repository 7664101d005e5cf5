// What is simulated of a schedule that is, or was, carried out.
#pragma once

#include "backends/execute/plan.hpp"
#include "sim/timeline/result.hpp"
#include "tools/question.hpp"

namespace syncline {

/// As the scenario asks for; but planned time passes as fast beside communication as alone.
/// @throws std::invalid_argument when the cluster lacks what the schedule needs
[[nodiscard]] RunResult simulate_executed(const Question& question, ComputeBy compute);

/// By what a measured timeline's compute took its time, as its header says; by planned time where that does not say.
[[nodiscard]] ComputeBy compute_of(const Timeline& measured);

}  // namespace syncline
