#include "sim/core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/core/printable.hpp"

namespace syncline {
namespace {

std::string join_diagnostics(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += format_diagnostic(diagnostic);
  }
  return text;
}

// Letters added, left out, replaced, or swapped with their neighbour (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);  // rows i-2, i-1, i
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

constexpr std::size_t LongestShownLine =
    160;  // bytes; of a longer source line the part round the caret is shown
constexpr std::size_t ShownBeforeCaret = 110;
constexpr std::size_t MostNamesListed = 16;

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}  // UTF-8

bool is_text(std::string_view line) {
  return std::none_of(line.begin(), line.end(),
                      [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7F; });
}

// Cuts a long line down to the part round `column` [bytes, from 1], which is moved along.
std::string clipped(const std::string& line, std::size_t& column) {
  if (line.size() <= LongestShownLine) return line;
  std::size_t begin = column > ShownBeforeCaret ? std::min(column - ShownBeforeCaret, line.size()) : 0;
  while (begin > 0 && begin < line.size() && continues_character(line[begin])) --begin;
  std::size_t end = std::min(line.size(), begin + LongestShownLine);
  while (end < line.size() && continues_character(line[end])) ++end;
  const std::string_view left = begin > 0 ? "..." : "", right = end < line.size() ? "..." : "";
  if (column > 0) column = column - begin + left.size();
  return fmt::format("{}{}{}", left, std::string_view(line).substr(begin, end - begin), right);
}

// Blanks as wide as the text before `column`: one a character, tabs kept.
std::string indent_to(std::string_view line, std::size_t column) {
  std::string indent;
  for (std::size_t i = 0; i + 1 < column; ++i)
    if (i >= line.size() || !continues_character(line[i]))
      indent += i < line.size() && line[i] == '\t' ? '\t' : ' ';
  return indent;
}

// `number | line`, and the caret under it.
std::string source_excerpt(const Place& place) {
  std::size_t column = static_cast<std::size_t>(std::max(place.column, 0));
  const std::string line = clipped(place.source_line, column);
  const std::string number = fmt::format("{:5}", place.line);
  std::string text = fmt::format("\n{} | {}", number, line);
  if (column > 0) text += fmt::format("\n{:{}} | {}^", "", number.size(), indent_to(line, column));
  return text;
}

}  // namespace

void refuse(const std::string& file_or_flag, const std::string& message) {
  throw InputError(Diagnostic{{file_or_flag, 0, 0, ""}, message});
}

InputError::InputError(Diagnostic diagnostic) : InputError(std::vector<Diagnostic>{std::move(diagnostic)}) {}

InputError::InputError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(join_diagnostics(diagnostics)), diagnostics_(std::move(diagnostics)) {}

std::string format_diagnostic(const Diagnostic& diagnostic) {
  const Place& place = diagnostic.place;
  std::string text = printable(place.file);
  if (place.line > 0) text += fmt::format(":{}", place.line);
  if (place.line > 0 && place.column > 0) text += fmt::format(":{}", place.column);
  if (!text.empty()) text += ": ";
  text += "error: " + printable(diagnostic.message, true);
  if (place.line > 0 && !place.source_line.empty() && is_text(place.source_line))
    text += source_excerpt(place);
  return text;
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});  // by value
    if (longer - shorter >= best_distance) continue;  // at least so many letters differ
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < longer) {  // something must be alike
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string unknown_name(std::string_view what, std::string_view word,
                         const std::vector<std::string>& known) {
  std::string text = fmt::format("unknown {} \"{}\"", what, word);
  const std::string near = nearest_name(word, known);
  if (!near.empty()) text += fmt::format("; did you mean \"{}\"?", near);
  if (known.empty()) return text;
  const auto listed_end =
      known.begin() + static_cast<std::ptrdiff_t>(std::min(known.size(), MostNamesListed));
  text += fmt::format(" (known: {}", fmt::join(known.begin(), listed_end, ", "));
  if (listed_end != known.end()) text += fmt::format(" and {} more", known.end() - listed_end);
  return text + ")";
}

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw std::logic_error(fmt::format("internal error at {}:{}: {} ({})", file, line, message, condition));
}

}  // namespace syncline
