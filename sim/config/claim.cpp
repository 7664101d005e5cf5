#include "sim/config/claim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/config/format_parts.hpp"
#include "sim/config/reader.hpp"
#include "sim/config/tolerance_file.hpp"

namespace syncline {

namespace {

namespace fs = std::filesystem;

/// A map of texts, in the order of the file.
Codec texts_codec(std::vector<std::pair<std::string, std::string>>& texts) {
  return {"a map of texts",
          [&texts](const ConfigValue& value) {
            for (const ConfigEntry& entry : value.node.entries) {
              if (entry.value.kind == ConfigNode::Kind::Scalar)
                texts.emplace_back(entry.key, entry.value.text);
              else
                value.errors.add(entry.mark.place(), fmt::format("\"{}\" is no text", value.below(entry.key)));
            }
          },
          [] { return ConfigNode{}; }};
}

/// What is limited, each with its limit: "step: 5%".
Codec limits_codec(std::vector<compare::Limit>& limits) {
  return {"a map of limits such as step: 5%",
          [&limits](const ConfigValue& value) {
            for (const ConfigEntry& entry : value.node.entries)
              read_limit(entry, value.below(entry.key), limits, value.errors);
          },
          [] { return ConfigNode{}; }};
}

}  // namespace

// Found by argument-dependent lookup from the codecs, so not in an unnamed namespace.
Fields fields_of(ClaimCase& one);

Fields fields_of(ClaimCase& one) {
  return {required("name", one.name),
          required("scenario", one.scenario),
          optional("set", one.set),
          optional("topology", one.topology),
          optional("device", one.device),
          required("measured", one.measured),
          {"tolerance", false, limits_codec(one.tolerance)}};
}

Claim read_claim(const std::string& file) {
  ConfigErrors errors;
  const ConfigNode root = read_yaml_file(file, errors);
  Claim claim;
  read_fields({root, root.mark, "", errors}, {version_field(true),
                                              required("claim", claim.claim),
                                              required("source", claim.source),
                                              {"environment", true, texts_codec(claim.environment)},
                                              {"tolerance", false, limits_codec(claim.tolerance)},
                                              required("cases", claim.cases)});
  errors.throw_if_any();

  const fs::path folder = fs::path(file).parent_path();
  const auto from_here = [&folder](std::string& name) {
    if (!name.empty() && fs::exists(folder / name)) name = (folder / name).string();
  };
  for (ClaimCase& one : claim.cases) {
    for (std::string* name : {&one.scenario, &one.topology, &one.device, &one.measured}) from_here(*name);
    for (std::string& assignment : one.set) {
      const std::size_t equals = std::min(assignment.find('='), assignment.size() - 1);
      std::string value = assignment.substr(equals + 1);
      from_here(value);
      assignment = assignment.substr(0, equals + 1) + value;
    }
    std::vector<compare::Limit> limits = claim.tolerance;
    compare::lay_over(limits, std::move(one.tolerance));
    one.tolerance = std::move(limits);
    if (one.tolerance.empty())
      throw InputError({{file, 0, 0, ""}, fmt::format("case \"{}\" has no tolerance, so nothing is claimed", one.name)});
  }
  return claim;
}

}  // namespace syncline
