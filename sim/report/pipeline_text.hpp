// The bubble of a pipeline in words.
#pragma once

#include <functional>
#include <string>

#include "sim/report/pipeline_metrics.hpp"

namespace syncline {

/// How a time is written: with a unit, or plain where the input had none.
using TimeText = std::function<std::string(Seconds)>;

/// "bubble 3 = 20.0 % of the total = 25.0 % of the ideal 12; 20.0 % of the longest rank's span".
[[nodiscard]] std::string bubble_line(const PipelineMetrics& metrics, const TimeText& time);

/// By phase and cause, mean of ranks: a table of five lines.
[[nodiscard]] std::string bubble_table(const PipelineMetrics& metrics, const TimeText& time);

/// "4 4 3 2", or the range when there are many.
[[nodiscard]] std::string peaks_text(const std::vector<int>& by_rank);

}  // namespace syncline
