// A row of a table of measurements, cell by cell.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/core/csv.hpp"

namespace syncline::calibrate {

class TableRow {
 public:
  TableRow(const CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  [[nodiscard]] const std::string& text(std::string_view column) const { return table_.at(row_, column); }
  /// The column `id`, or the line.
  [[nodiscard]] std::string id() const;

  // @throws InputError with file and line: the cell, or a part of it, is none

  /// Above 0.
  [[nodiscard]] double number(std::string_view column, const std::string& cell) const;
  [[nodiscard]] double number(std::string_view column) const { return number(column, text(column)); }
  /// From 1 to 10^9.
  [[nodiscard]] std::int64_t whole(std::string_view column) const;
  [[noreturn]] void fail(const std::string& message) const;

 private:
  const CsvTable& table_;
  std::size_t row_;
};

}  // namespace syncline::calibrate
