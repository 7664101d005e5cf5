// Text from outside, made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace syncline {

/// Control characters shown as escapes ("\x1b"), so that a name cannot steer the terminal; line ends and tabs become
/// blanks, or stay where `lines` says so.
[[nodiscard]] std::string printable(std::string_view text, bool lines = false);

}  // namespace syncline
