#include "sim/core/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace syncline {
namespace {

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : text_(text), name_(name) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);  // a byte order mark
  }

  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] int line() const { return line_; }

  /// One line of the table; empty where the line is.
  std::vector<std::string> row() {
    std::vector<std::string> fields;
    if (end_line()) return fields;
    for (;;) {
      fields.push_back(text_[at_] == '"' ? quoted() : plain());
      if (at_end() || end_line()) return fields;
      if (text_[at_] != ',') fail("expected a comma or the end of the line behind a closing quote");
      ++at_;
      if (at_end() || end_line()) {
        fields.emplace_back();
        return fields;
      }
    }
  }

  [[noreturn]] void fail(const std::string& message) const { fail_at(line_, message); }
  [[noreturn]] void fail_at(int line, const std::string& message) const {
    throw InputError(Diagnostic{{name_, line, 0, ""}, message});
  }

 private:
  bool end_line() {
    const std::string_view rest = text_.substr(at_);
    const std::size_t length = rest.starts_with("\r\n") ? 2 : rest.starts_with('\n') ? 1 : 0;
    at_ += length;
    line_ += length > 0 ? 1 : 0;
    return length > 0;
  }

  std::string plain() {
    const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    std::string field(text_.substr(at_, end - at_));
    at_ = end;
    if (!at_end() && text_[at_] == '\r' && text_.substr(at_, 2) != "\r\n") ++at_;  // a stray one
    return field;
  }

  std::string quoted() {
    const int opened = line_;
    std::string field;
    for (++at_; !at_end(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c != '"') {
        field += c;
      } else if (text_.substr(at_, 2) == "\"\"") {
        field += c;
        ++at_;
      } else {
        ++at_;
        return field;
      }
    }
    fail_at(opened, "a quote is opened here and never closed");
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

CsvTable CsvTable::parse(std::string_view text, std::string name) {
  CsvTable table;
  table.name_ = std::move(name);
  Parser parser(text, table.name_);
  if (!parser.at_end()) table.columns_ = parser.row();
  if (table.columns_.empty()) parser.fail_at(1, "expected a line with the names of the columns");
  for (std::size_t i = 0; i < table.columns_.size(); ++i) {
    const std::string& column = table.columns_[i];
    if (column.empty()) parser.fail_at(1, fmt::format("column {} has no name", i + 1));
    if (!table.position_.emplace(column, i).second)
      parser.fail_at(1, fmt::format("column \"{}\" is there twice", column));
  }
  while (!parser.at_end()) {
    const int line = parser.line();
    std::vector<std::string> row = parser.row();
    if (row.empty()) continue;
    if (row.size() != table.columns_.size())
      parser.fail_at(
          line, fmt::format("{} fields, but the header names {} columns", row.size(), table.columns_.size()));
    table.rows_.push_back(std::move(row));
    table.lines_.push_back(line);
  }
  return table;
}

bool CsvTable::has(std::string_view column) const {
  return position_.contains(std::string(column));
}

const std::string& CsvTable::at(std::size_t row, std::string_view column) const {
  static const std::string Nothing;
  const auto found = position_.find(std::string(column));
  return found == position_.end() ? Nothing : rows_[row][found->second];
}

Place CsvTable::place(std::size_t row) const {
  return {name_, lines_[row], 0, ""};
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

}  // namespace syncline
