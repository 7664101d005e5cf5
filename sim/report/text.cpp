#include "sim/report/text.hpp"

#include <algorithm>

#include "sim/core/error.hpp"
#include "sim/core/printable.hpp"

namespace syncline {
namespace {

bool starts_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

std::string blanks(std::string_view text, std::size_t columns) {
  return std::string(columns - width(text), ' ');
}

}  // namespace

std::size_t width(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += starts_character(byte) ? 1 : 0;
  return count;
}

std::string clipped(std::string_view raw, std::size_t columns) {
  const std::string shown = printable(raw);
  const std::string_view text = shown;
  if (width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::size_t kept = 0, bytes = 0;  // the first columns − 1 characters
  while (bytes < text.size() && (kept < columns - 1 || !starts_character(text[bytes])))
    kept += starts_character(text[bytes++]) ? 1 : 0;
  return std::string(text.substr(0, bytes)) + "…";
}

std::string left(std::string_view text, std::size_t columns) {
  std::string cut = clipped(text, columns);
  return cut + blanks(cut, columns);
}

std::string right(std::string_view text, std::size_t columns) {
  const std::string cut = clipped(text, columns);
  return blanks(cut, columns) + cut;
}

std::string aligned(std::vector<std::vector<std::string>> rows, std::string_view alignment) {
  for (auto& row : rows)
    for (std::string& cell : row) cell = printable(cell);
  std::vector<std::size_t> widths(alignment.size(), 0);
  for (const auto& row : rows) {
    SYNCLINE_CHECK(row.size() == alignment.size(), "rows of a table have equal numbers of cells");
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i)
      line +=
          (i == 0 ? "" : "  ") + (alignment[i] == 'l' ? left(row[i], widths[i]) : right(row[i], widths[i]));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace syncline
