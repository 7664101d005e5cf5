#include "sim/sweep/row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sim/core/csv.hpp"
#include "sim/core/units.hpp"
#include "sim/report/metric_table.hpp"

namespace syncline::sweep {
namespace {

std::string line_of(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ",") + csv_field(cell);
  return line + '\n';
}

/// The cells of a whole line; empty when it is none.
std::vector<std::string> cells_of(std::string_view line, const std::vector<std::string>& columns) {
  if (!line.ends_with('\n')) return {};
  try {
    const CsvTable table = CsvTable::parse(line_of(columns) + std::string(line), "row");
    if (table.size() != 1) return {};
    std::vector<std::string> cells;
    for (const std::string& column : columns) cells.push_back(table.at(0, column));
    return cells;
  } catch (const InputError&) {
    return {};
  }
}

}  // namespace

std::vector<std::string> columns_of(const Sweep& sweep) {
  std::vector<std::string> columns{"point"};
  for (const Path& path : paths_of(sweep)) columns.push_back(path.path);
  for (const std::string& metric : sweep.metrics) columns.emplace_back(find_metric(metric).json_key);
  columns.emplace_back("error");
  return columns;
}

Row row_of_run(const Sweep& sweep, std::size_t point, const RunSummary& run) {
  Row row{point, labels_of(sweep, point), {}, ""};
  for (const std::string& metric : sweep.metrics) row.values.push_back(metric_value(run, metric));
  return row;
}

Row failed_row(const Sweep& sweep, std::size_t point, std::string_view error) {
  Row row{point, labels_of(sweep, point), {}, one_line(std::string(error))};
  row.values.resize(sweep.metrics.size());
  return row;
}

std::string in_one_line(const InputError& error) {
  std::string text;
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    Place place = diagnostic.place;
    place.source_line.clear();
    text += (text.empty() ? "" : "; ") + format_diagnostic({place, diagnostic.message});
  }
  return text;
}

bool needs(const Sweep& sweep, MetricOf what) {
  return std::ranges::any_of(sweep.metrics,
                             [what](const std::string& metric) { return find_metric(metric).of == what; });
}

std::string csv_header(const Sweep& sweep) {
  return line_of(columns_of(sweep));
}

std::string csv_line(const Row& row) {
  std::vector<std::string> cells{fmt::format("{}", row.point + 1)};
  cells.insert(cells.end(), row.labels.begin(), row.labels.end());
  for (const std::optional<double>& value : row.values) cells.push_back(value ? exact_text(*value) : "");
  cells.push_back(row.error);
  return line_of(cells);
}

std::optional<Row> row_of_line(const Sweep& sweep, std::string_view line) {
  const std::vector<std::string> cells = cells_of(line, columns_of(sweep));
  if (cells.empty()) return std::nullopt;
  try {
    const long long number = parse_integer(cells.front());
    if (number < 1 || static_cast<std::size_t>(number) > sweep.size()) return std::nullopt;
    Row row = failed_row(sweep, static_cast<std::size_t>(number) - 1, cells.back());
    if (!std::equal(row.labels.begin(), row.labels.end(), cells.begin() + 1)) return std::nullopt;
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      const std::string& cell = cells[1 + row.labels.size() + i];
      if (!cell.empty()) row.values[i] = parse_number(cell);
    }
    return row;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

std::string rows_json(const Sweep& sweep, const std::vector<Row>& rows, std::string_view version) {
  using Json = nlohmann::ordered_json;
  const std::vector<Path> paths = paths_of(sweep);
  Json list = Json::array();
  for (const Row& row : rows) {
    Json set = Json::object(), object;
    for (std::size_t i = 0; i < paths.size(); ++i) set[paths[i].path] = row.labels[i];
    object["point"] = row.point + 1;
    object["set"] = std::move(set);
    for (std::size_t i = 0; i < row.values.size(); ++i)
      object[std::string(find_metric(sweep.metrics[i]).json_key)] =
          row.values[i] ? Json(*row.values[i]) : Json();
    object["error"] = row.error.empty() ? Json() : Json(row.error);
    list.push_back(std::move(object));
  }
  const Json whole{{"schema", 1},
                   {"version", version},
                   {"sweep", sweep.file},
                   {"question", sweep.question},
                   {"scenario", sweep.scenario_file},
                   {"columns", columns_of(sweep)},
                   {"rows", std::move(list)}};
  return whole.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace syncline::sweep
