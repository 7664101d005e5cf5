#include "tools/output_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "sim/core/error.hpp"

namespace syncline {

void write_text_file(const std::string& file, std::string_view text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text << std::flush;
  if (!out) throw EnvironmentError(fmt::format("cannot write {}: {}", file, std::strerror(errno)));
}

}  // namespace syncline
