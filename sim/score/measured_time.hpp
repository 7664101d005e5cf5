// The step time that a row was measured at, from whichever figure its source printed.
#pragma once

#include <optional>
#include <string>

#include "sim/config/scenario.hpp"
#include "sim/core/quantity.hpp"
#include "sim/score/training_row.hpp"

namespace syncline::score {

struct MeasuredTime {
  Seconds step;
  std::string from;  // the column
};

/// In this order: the step time itself; tokens or samples per second; FLOP/s by the source's own count; its MFU by
/// that count and the device's peak in the row's precision. The count is the cell `flop_count`, which rules fill in:
///   causal       model_flop(): attention's lower triangle
///   full-square  6 per token and matrix parameter, and the whole square of attention: 12·L·h·s a token
///   recomputed   megatron_flop(): the whole square, and each layer forward twice
/// @returns nothing where the row has none of these
/// @throws InputError when flop_count is none of these
[[nodiscard]] std::optional<MeasuredTime> measured_time(const TrainingRow& row, const Scenario& scenario);

/// The row has one of these figures.
[[nodiscard]] bool has_measured_time(const TrainingRow& row);

/// FLOP of a step by one of the counts.
/// @throws std::invalid_argument when there is no such count
[[nodiscard]] Flop counted_flop(const Scenario& scenario, const std::string& count);

}  // namespace syncline::score
