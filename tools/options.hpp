// Options that several subcommands share.
#pragma once

#include <string>
#include <vector>

#include "sim/config/document.hpp"

namespace CLI {
class App;
}

namespace syncline {

/// `--set path=value`, repeatable.
void add_set_option(CLI::App& app, std::vector<std::string>& assignments, const std::string& example);

/// @throws InputError when one lacks its `=` or its path
[[nodiscard]] std::vector<Override> overrides_of(const std::vector<std::string>& assignments);

}  // namespace syncline
