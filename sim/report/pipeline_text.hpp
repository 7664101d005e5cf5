// The bubble of a pipeline in words.
#pragma once

#include <functional>
#include <string>

#include "sim/report/pipeline_metrics.hpp"
#include "sim/report/summary.hpp"

namespace syncline {

/// How a time is written: with a unit, or plain where the input had none.
using TimeText = std::function<std::string(Seconds)>;

/// "bubble 3 = 20.0 % of the total = 25.0 % of the ideal 12; 20.0 % of the longest rank's span".
[[nodiscard]] std::string bubble_line(const PipelineMetrics& metrics, const TimeText& time);

/// By phase and cause, mean of ranks: a table of five lines.
[[nodiscard]] std::string bubble_table(const PipelineMetrics& metrics, const TimeText& time);

/// "4 4 3 2", or the range when there are many: "1 to 24; 24 on rank 0", "4 on every rank".
[[nodiscard]] std::string peaks_text(const std::vector<int>& by_rank);

/// A pipeline of blocks of fixed time, without a model: about FLOP and tokens there is nothing to say.
[[nodiscard]] bool is_textbook(const RunSummary& run);
/// True where bytes went over links.
[[nodiscard]] bool carries_data(const RunSummary& run);

}  // namespace syncline
