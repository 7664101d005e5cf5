#include "sim/core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

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

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

constexpr std::size_t LongestShownLine = 160;  // characters; a longer source line is not echoed

}  // namespace

InputError::InputError(Diagnostic diagnostic) : InputError(std::vector<Diagnostic>{std::move(diagnostic)}) {}

InputError::InputError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(join_diagnostics(diagnostics)), diagnostics_(std::move(diagnostics)) {}

std::string format_diagnostic(const Diagnostic& diagnostic) {
  const Place& place = diagnostic.place;
  std::string text = place.file;
  if (place.line > 0) text += fmt::format(":{}", place.line);
  if (place.line > 0 && place.column > 0) text += fmt::format(":{}", place.column);
  if (!text.empty()) text += ": ";
  text += "error: " + diagnostic.message;
  if (place.line > 0 && !place.source_line.empty() && place.source_line.size() <= LongestShownLine) {
    text += fmt::format("\n{:5} | {}", place.line, place.source_line);
    if (place.column > 0) text += fmt::format("\n      | {:>{}}", '^', place.column);
  }
  return text;
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string unknown_name(std::string_view what, std::string_view word, const std::vector<std::string>& known) {
  std::string text = fmt::format("unknown {} \"{}\"", what, word);
  const std::string near = nearest_name(word, known);
  if (!near.empty()) text += fmt::format("; did you mean \"{}\"?", near);
  return text + fmt::format(" (known: {})", fmt::join(known, ", "));
}

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw std::logic_error(fmt::format("internal error at {}:{}: {} ({})", file, line, message, condition));
}

}  // namespace syncline
