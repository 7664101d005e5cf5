// Files that the program writes.
#pragma once

#include <string>
#include <string_view>

namespace syncline {

/// Over whatever is there.
/// @throws EnvironmentError with the system's reason
void write_text_file(const std::string& file, std::string_view text);

/// For a file that a long work is going to end in: that its folder is there, and that it is no folder itself. An empty name
/// is of no file.
/// @throws InputError at the flag
void check_output(const std::string& flag, const std::string& file);

}  // namespace syncline
