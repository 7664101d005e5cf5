// Rows of a sweep: a line of CSV each, which is also how workers hand them over and how they lie in the
// journal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/report/metric_table.hpp"
#include "sim/report/summary.hpp"
#include "sim/sweep/sweep.hpp"

namespace syncline::sweep {

struct Row {
  std::size_t point = 0;                      // from 0
  std::vector<std::string> labels;            // as labels_of()
  std::vector<std::optional<double>> values;  // of the sweep's metrics, SI; none: this run does not have it
  std::string error;                          // in one line; empty: the point ran
};

/// "point", the paths, the metrics by their JSON keys, "error".
[[nodiscard]] std::vector<std::string> columns_of(const Sweep& sweep);

[[nodiscard]] Row row_of_run(const Sweep& sweep, std::size_t point, const RunSummary& run);
[[nodiscard]] Row failed_row(const Sweep& sweep, std::size_t point, std::string_view error);
/// What an error says, without echoed lines, in one line.
[[nodiscard]] std::string in_one_line(const InputError& error);

/// Whether any of the metrics is made of that. A timeline takes most of a small run's time.
[[nodiscard]] bool needs(const Sweep& sweep, MetricOf what);

/// With its line end, as of the others below.
[[nodiscard]] std::string csv_header(const Sweep& sweep);
[[nodiscard]] std::string csv_line(const Row& row);
/// Nothing when it is no whole row of this sweep, as after a kill in the middle of its writing.
[[nodiscard]] std::optional<Row> row_of_line(const Sweep& sweep, std::string_view line);

/// One object: `schema`, `version`, `sweep`, `scenario`, `columns`, `rows`, each with `point`, `set`, metrics
/// and `error`.
[[nodiscard]] std::string rows_json(const Sweep& sweep, const std::vector<Row>& rows,
                                    std::string_view version);

}  // namespace syncline::sweep
