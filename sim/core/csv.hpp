// Comma-separated tables with a header line (RFC 4180): quoted fields may hold commas, quotes and line breaks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/core/error.hpp"

namespace syncline {

class CsvTable {
 public:
  /// @param name  of the file, for messages
  /// @throws InputError with the line on a row with more or fewer fields than the header, a repeated or empty column
  ///         name, an unclosed quote, text behind a closing quote, or no header
  static CsvTable parse(std::string_view text, std::string name);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  [[nodiscard]] bool has(std::string_view column) const;
  [[nodiscard]] std::size_t size() const { return lines_.size(); }
  /// Text of a cell, without quotes; empty when the table has no such column.
  [[nodiscard]] const std::string& at(std::size_t row, std::string_view column) const;
  /// Place of a row, for messages.
  [[nodiscard]] Place place(std::size_t row) const;

 private:
  std::string name_;
  std::vector<std::string> columns_;
  std::unordered_map<std::string, std::size_t> position_;  // by column name
  std::vector<std::vector<std::string>> rows_;
  std::vector<int> lines_;  // by row, from 1
};

/// A field as it stands in a CSV file: quoted where it must be.
[[nodiscard]] std::string csv_field(std::string_view text);

}  // namespace syncline
