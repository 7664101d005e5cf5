#include "tools/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

namespace syncline {
namespace {

/// A YAML file that is found from here is meant from here; all else is as the scenario would have it, where names of files
/// are relative to its folder.
std::string from_here(const std::string& value) {
  const std::filesystem::path file(value);
  const bool yaml = file.extension() == ".yaml" || file.extension() == ".yml";
  return yaml && std::filesystem::is_regular_file(file) ? std::filesystem::absolute(file).string() : value;
}

}  // namespace

void add_set_option(CLI::App& app, std::vector<std::string>& assignments, const std::string& example) {
  app.add_option("--set", assignments,
                 fmt::format("Change a value of the file, as in {}; repeatable", example))
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
}

std::vector<Override> overrides_of(const std::vector<std::string>& assignments) {
  std::vector<Override> overrides;
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InputError({{fmt::format("--set {}", assignment), 0, 0, ""},
                        "expected a path and a value, as in --set batch.global=64"});
    overrides.push_back({assignment.substr(0, equals), from_here(assignment.substr(equals + 1))});
  }
  return overrides;
}

}  // namespace syncline
