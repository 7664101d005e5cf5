// Files that the program writes.
#pragma once

#include <string>
#include <string_view>

namespace syncline {

/// Over whatever is there.
/// @throws EnvironmentError with the system's reason
void write_text_file(const std::string& file, std::string_view text);

}  // namespace syncline
