// A hash of text that is the same on every machine, to tell whether an input is still what it was. Not for
// secrets.
#pragma once

#include <cstdint>
#include <string_view>

namespace syncline {

/// 64-bit FNV-1a (Fowler, Noll and Vo; offset and prime as in RFC 9923).
[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}
static_assert(fnv1a("a") == 0xaf63dc4c8601ec8cULL);  // a test vector of its authors

}  // namespace syncline
