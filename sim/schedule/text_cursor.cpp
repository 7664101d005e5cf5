#include "sim/schedule/text_cursor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "sim/core/units.hpp"

namespace syncline::text {
namespace {

constexpr std::size_t LongestShownWord = 40;  // bytes

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '.' ||
         c == '+' || c == '-';
}

struct Escape {
  char letter, character;
};
constexpr std::array Escapes =
    std::to_array<Escape>({{'"', '"'}, {'\\', '\\'}, {'n', '\n'}, {'t', '\t'}, {'r', '\r'}});

// Well-formed by RFC 3629, section 4: no overlong forms, no surrogates.
bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    if (lead < 0xC2 || lead > 0xF4) return false;
    const std::size_t end = i + (lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3);
    if (end > text.size()) return false;
    unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;  // of the byte after the first
    unsigned char most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (; i < end; ++i, least = 0x80, most = 0xBF) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if (byte < least || byte > most) return false;
    }
  }
  return true;
}

}  // namespace

bool LineCursor::at_end() {
  while (position_ < line_.size() && is_blank(line_[position_])) ++position_;
  return position_ == line_.size() || line_[position_] == '#';
}

bool LineCursor::accept(char c) {
  if (position_ == line_.size() || line_[position_] != c) return false;
  ++position_;
  return true;
}

bool LineCursor::between_fields() const {
  return position_ == line_.size() || is_blank(line_[position_]);
}

void LineCursor::end_value() const {
  if (!between_fields()) fail_expecting("a blank");
}

void LineCursor::fail_expecting(std::string_view what) const {
  const std::string_view found = line_.substr(position_, line_.find_first_of(" \t", position_) - position_);
  const std::string_view nothing = position_ == line_.size() ? "the end of the line" : "a blank";
  fail(position_, found.empty() ? fmt::format("expected {}, found {}", what, nothing)
                                : fmt::format("expected {}, found \"{}\"", what, shown(found)));
}

std::string_view LineCursor::word(std::string_view what) {
  const std::size_t start = position_;
  while (position_ < line_.size() && is_word(line_[position_])) ++position_;
  if (position_ == start) fail_expecting(what);
  return line_.substr(start, position_ - start);
}

char LineCursor::quoted_character(std::size_t opening) {
  if (position_ == line_.size()) fail(opening, "this quote is not closed on its line");
  const char c = line_[position_++];
  if (c != '\\') return c;
  const std::size_t escape = position_ - 1;
  const char letter = position_ < line_.size() ? line_[position_++] : ' ';
  for (const Escape& known : Escapes)
    if (known.letter == letter) return known.character;
  unsigned value = 0;
  const std::string_view digits = line_.substr(position_, letter == 'x' ? 2 : 0);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != 2 || error != std::errc{} || end != digits.data() + 2)
    fail(escape, "unknown escape; known are \\\" \\\\ \\n \\t \\r and \\x with two hexadecimal digits");
  position_ += 2;
  return static_cast<char>(value);
}

std::string LineCursor::name(std::string_view what) {
  const std::size_t opening = position_;
  if (!accept('"')) return std::string(word(what));
  std::string text;
  while (position_ == line_.size() || line_[position_] != '"') text += quoted_character(opening);
  ++position_;
  if (!is_utf8(text)) fail(opening, "this string is not valid UTF-8");
  return text;
}

double LineCursor::number() {
  const std::size_t start = position_;
  const std::string_view digits = word("a number");
  if (digits.size() > LongestShownWord)
    fail(start, fmt::format("\"{}\" is too long for a number", shown(digits)));
  double value = 0;
  try {
    value = parse_number(digits);
  } catch (const std::invalid_argument& error) {
    fail(start, error.what());
  }
  if (value < 0) fail(start, fmt::format("\"{}\" is negative; expected 0 or more", digits));
  return value;
}

std::int64_t LineCursor::integer(std::int64_t most) {
  const std::size_t start = position_;
  while (position_ < line_.size() && is_digit(line_[position_])) ++position_;
  const std::string_view digits = line_.substr(start, position_ - start);
  if (digits.empty()) fail_expecting("a whole number, 0 or more");
  if (digits.size() > 1 && digits.front() == '0')
    fail(start, fmt::format("\"{}\" has a leading zero; write it without", shown(digits)));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || value > most)
    fail(start, fmt::format("\"{}\" is too large; at most {}", shown(digits), most));
  return value;
}

std::string shown(std::string_view word) {
  const bool cut = word.size() > LongestShownWord;
  std::string text(word.substr(0, LongestShownWord));
  if (!is_utf8(text))
    std::replace_if(
        text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; }, '?');
  return cut ? text + "..." : text;
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto* const escape = std::find_if(Escapes.begin(), Escapes.end(),
                                            [&](const Escape& known) { return known.character == c; });
    if (escape != Escapes.end())
      (out += '\\') += escape->letter;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  out += '"';
}

void append_name(std::string& out, std::string_view name) {
  if (!name.empty() && std::all_of(name.begin(), name.end(), is_word))
    out += name;
  else
    append_quoted(out, name);
}

}  // namespace syncline::text
