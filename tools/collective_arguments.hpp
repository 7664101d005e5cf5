// What stands on the command line of `syncline collective`, as values.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/core/ids.hpp"
#include "sim/core/quantity.hpp"

namespace syncline {

/// "8B:8GiB:x2" (from, to, factor), "1MiB:8MiB:+1MiB" (step), "1MiB,64MiB" or one size: whole bytes, up to
/// limits::MostBytes. What a factor makes of them is rounded down to whole bytes.
/// @throws InputError
[[nodiscard]] std::vector<Bytes> parse_sizes(const std::string& text);

/// "0-63", "0,8,16-23": in that order, none twice.
/// @throws InputError
[[nodiscard]] std::vector<AcceleratorId> parse_ranks(const std::string& text);

/// The ranks in groups of `size`, whose members stand `stride` places apart in the list: blocks of size · stride ranks, in
/// each `stride` groups.
/// @throws InputError when that does not divide them
[[nodiscard]] std::vector<std::vector<AcceleratorId>> split_ranks(const std::vector<AcceleratorId>& ranks,
                                                                  std::size_t size, std::size_t stride);

}  // namespace syncline
