// One line of a schedule's text form, read from left to right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace syncline::text {

/// Thrown by whatever reads a line; the reader of the file, which knows file and line, makes a diagnostic of
/// it.
struct LineError {
  std::size_t position;  // bytes from the line's beginning, from 0
  std::string message;
};

class LineCursor {
 public:
  /// `line` without its end; must outlive the cursor.
  explicit LineCursor(std::string_view line) : line_(line) {}

  [[nodiscard]] std::size_t position() const { return position_; }
  void rewind(std::size_t position) { position_ = position; }

  /// Skips blanks. True when nothing or only a comment is left.
  bool at_end();
  /// Takes `c` if it stands here.
  bool accept(char c);
  /// True where a value may end: at a blank or the end of the line.
  [[nodiscard]] bool between_fields() const;
  /// @throws LineError unless between_fields()
  void end_value() const;

  // Each throws LineError when what stands here is something else; `what` names what was expected ("a
  // number").
  /// Letters, digits, `_`, `.`, `+`, `-`; at least one.
  std::string_view word(std::string_view what);
  /// A word, or a string in double quotes with the escapes \" \\ \n \t \r \xHH; UTF-8.
  std::string name(std::string_view what);
  /// Finite, not negative.
  double number();
  /// A whole number from 0 to `most`, without leading zeros.
  std::int64_t integer(std::int64_t most);

  [[noreturn]] void fail(std::size_t position, std::string message) const {
    throw LineError{position, std::move(message)};
  }
  /// `expected WHAT, found "..."`
  [[noreturn]] void fail_expecting(std::string_view what) const;

 private:
  char quoted_character(std::size_t opening);

  std::string_view line_;
  std::size_t position_ = 0;
};

/// A word as messages show it: cut short when it is long, without control characters.
[[nodiscard]] std::string shown(std::string_view word);

/// As a bare word where it is one, else in quotes.
void append_name(std::string& out, std::string_view name);
void append_quoted(std::string& out, std::string_view text);

}  // namespace syncline::text
