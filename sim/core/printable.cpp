#include "sim/core/printable.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace syncline {
namespace {

// U+0080 to U+009F in UTF-8: terminals take them for ESC and a letter.
bool is_control_pair(unsigned char first, unsigned char second) {
  return first == 0xC2 && second >= 0x80 && second < 0xA0;
}

}  // namespace

std::string printable(std::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (is_control_pair(byte, next)) {
      out += fmt::format("\\x{:02x}", next);
      ++i;
    } else if (byte == '\n' || byte == '\t' || byte == '\r') {
      out += lines && byte != '\r' ? text[i] : ' ';
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace syncline
