#include "sim/config/tolerance_file.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "sim/config/formats.hpp"

namespace syncline {
namespace {

constexpr std::string_view VersionKey = "version";

}  // namespace

void read_limit(const ConfigEntry& entry, const std::string& path, std::vector<compare::Limit>& limits, ConfigErrors& errors) {
  if (entry.value.kind != ConfigNode::Kind::Scalar) {
    errors.add(entry.mark.place(), fmt::format("\"{}\" has no limit, expected such as 5%", path));
    return;
  }
  try {
    limits.push_back(compare::parse_limit(entry.key, entry.value.text));
    limits.back().place = entry.mark.place();
  } catch (const std::invalid_argument& error) {
    errors.add(entry.value.mark.place(), fmt::format("\"{}\": {}", path, error.what()));
  }
}

std::vector<compare::Limit> read_limits(const std::string& file) {
  ConfigErrors errors;
  const ConfigNode root = read_yaml_file(file, errors);
  std::vector<compare::Limit> limits;
  for (const ConfigEntry& entry : root.entries) {
    if (entry.key != VersionKey)
      read_limit(entry, entry.key, limits, errors);
    else if (entry.value.text != std::to_string(ConfigVersion))
      errors.add(entry.value.mark.place(),
                 fmt::format("version {} is not known, only {}", entry.value.text, ConfigVersion));
  }
  if (limits.empty() && errors.empty())
    errors.add({file, 0, 0, ""}, "there is no limit, expected such as step: 5%");
  errors.throw_if_any();
  return limits;
}

}  // namespace syncline
