// Options that several subcommands share.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/config/document.hpp"

namespace CLI {
class App;
}

namespace syncline {

inline constexpr int Schema = 1;  // of what `--json` prints
inline constexpr int MostCount = 1 << 30;  // of ranks, groups, links: there are never as many
inline constexpr std::size_t LargestTable = std::size_t{256} << 20;  // bytes; a larger file is refused before it is read

/// `--set path=value`, repeatable.
void add_set_option(CLI::App& app, std::vector<std::string>& assignments, const std::string& example);

/// @throws InputError when one lacks its `=` or its path
[[nodiscard]] std::vector<Override> overrides_of(const std::vector<std::string>& assignments);

}  // namespace syncline
