// Text laid out in columns, counted in characters rather than bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace syncline {

/// Code points in UTF-8 text; each takes one column in our output.
[[nodiscard]] std::size_t width(std::string_view text);

/// Printable, cut to `columns`, the last character being "…" when something was cut.
[[nodiscard]] std::string clipped(std::string_view text, std::size_t columns);

/// Clipped or filled with blanks to exactly `columns`.
[[nodiscard]] std::string left(std::string_view text, std::size_t columns);
[[nodiscard]] std::string right(std::string_view text, std::size_t columns);

/// Printable rows with equal numbers of cells as a table: columns two blanks apart, each line indented by two, no blanks at its
/// end.
/// @param alignment  'l' or 'r' for each column
[[nodiscard]] std::string aligned(std::vector<std::vector<std::string>> rows, std::string_view alignment);

}  // namespace syncline
