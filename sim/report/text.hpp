// Text laid out in columns, counted in characters rather than bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace syncline {

/// Code points in UTF-8 text; each takes one column in our output.
[[nodiscard]] std::size_t width(std::string_view text);

/// Cut to `columns`, the last character being "…" when something was cut.
[[nodiscard]] std::string clipped(std::string_view text, std::size_t columns);

/// Clipped or filled with blanks to exactly `columns`.
[[nodiscard]] std::string left(std::string_view text, std::size_t columns);
[[nodiscard]] std::string right(std::string_view text, std::size_t columns);

}  // namespace syncline
