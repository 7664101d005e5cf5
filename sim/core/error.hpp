// Errors of three kinds: wrong input (with its place), an environment that lacks something, and our own bugs.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace syncline {

/// Where in the user's input something stands. Lines and columns count from 1; 0 means "not known". Columns count
/// bytes, as yaml-cpp does; the caret is set under the right character all the same.
struct Place {
  std::string file;  // as the user named it; empty for a command-line flag
  int line = 0;
  int column = 0;
  std::string source_line;  // the text of that line, shown with a caret under `column`; may be empty
};

struct Diagnostic {
  Place place;
  std::string message;  // lower case, no final stop: what is wrong, expected against found, a way out
};

/// Wrong file or flag. Carries every error found, not only the first. Exit code 2.
class InputError : public std::runtime_error {
 public:
  explicit InputError(Diagnostic diagnostic);
  explicit InputError(std::vector<Diagnostic> diagnostics);  // at least one
  [[nodiscard]] const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

/// Throws the InputError of a whole file, or of a flag.
[[noreturn]] void refuse(const std::string& file_or_flag, const std::string& message);

/// The environment lacks something (no MPI, no GPU, no space on disk). Exit code 3.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// `place: error: message`, then the line and a caret when they are known. Of a very long line the part round the
/// caret is shown; a line with control characters is not echoed.
[[nodiscard]] std::string format_diagnostic(const Diagnostic& diagnostic);

/// The name in `known` nearest to `word` by edit distance, or "" when none is near (more than a third differs).
[[nodiscard]] std::string nearest_name(std::string_view word, const std::vector<std::string>& known);

/// `unknown key "abc"; did you mean "abd"? (known: abd, xyz)`; at most 16 names are listed.
[[nodiscard]] std::string unknown_name(std::string_view what, std::string_view word,
                                       const std::vector<std::string>& known);

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);

}  // namespace syncline

/// A promise of our own code, checked in every build; throws std::logic_error.
#define SYNCLINE_CHECK(condition, message) \
  ((condition) ? static_cast<void>(0) : ::syncline::check_failed(#condition, __FILE__, __LINE__, (message)))
