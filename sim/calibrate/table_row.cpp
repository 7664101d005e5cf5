#include "sim/calibrate/table_row.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "sim/core/error.hpp"

namespace syncline::calibrate {

std::string TableRow::id() const {
  return text("id").empty() ? fmt::format("line {}", table_.place(row_).line) : text("id");
}

double TableRow::number(std::string_view column, const std::string& cell) const {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc{} || end != cell.data() + cell.size() || !std::isfinite(value) || value <= 0)
    fail(fmt::format("column \"{}\" is \"{}\", expected a number above 0", column, cell));
  return value;
}

std::int64_t TableRow::whole(std::string_view column) const {
  const double value = number(column);
  if (value != std::floor(value) || value > 1e9)
    fail(fmt::format("column \"{}\" is \"{}\", expected a whole number", column, text(column)));
  return static_cast<std::int64_t>(value);
}

void TableRow::fail(const std::string& message) const {
  throw InputError(Diagnostic{table_.place(row_), message});
}

}  // namespace syncline::calibrate
