// The table of metrics: their names in every form, their unit, and where each comes from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/report/summary.hpp"

namespace syncline {

enum class MetricUnit : std::uint8_t { Time, Share, TokenRate, FlopRate, Size, Count, Energy, Power, Money };

/// What a metric is made of, beside the run's step time, job and memory.
enum class MetricOf : std::uint8_t {
  Run,           // nothing more
  Spans,         // its timeline
  NetworkParts,  // a price list
  Routing        // where tokens go
};
enum class Better : std::uint8_t { Less, More };

struct MetricInfo {
  std::string_view name;      // in scenarios: "step-time"
  std::string_view json_key;  // with the unit: "step_time_s"
  std::string_view label;     // for people: "step time"
  MetricUnit unit;
  std::optional<double> (*value)(const RunSummary&);  // SI
  MetricOf of = MetricOf::Spans;
  Better better = Better::Less;
};

[[nodiscard]] std::span<const MetricInfo> metric_table();
/// @throws std::invalid_argument when there is no metric of that name
[[nodiscard]] const MetricInfo& find_metric(std::string_view name);

/// "41.2 %", "4.12 %".
[[nodiscard]] std::string percent(double share);
/// The sign always: "+4.1 %".
[[nodiscard]] std::string signed_percent(double share);
/// "37299 USD", "1.234 million USD".
[[nodiscard]] std::string money_text(double usd);
[[nodiscard]] std::string to_text(const MetricInfo& metric, double value);

}  // namespace syncline
