#include "tools/output_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "sim/core/error.hpp"

namespace syncline {

void write_text_file(const std::string& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text << std::flush;
  if (!out) throw EnvironmentError(fmt::format("cannot write {}: {}", file, std::strerror(errno)));
}

void check_output(const std::string& flag, const std::string& file) {
  if (file.empty()) return;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (!std::filesystem::is_directory(folder)) refuse(flag, fmt::format("there is no folder {}", folder.string()));
  if (std::filesystem::is_directory(file)) refuse(flag, fmt::format("{} is a folder", file));
}

}  // namespace syncline
