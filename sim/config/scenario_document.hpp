// A scenario file parsed once and asked many times, each time with other values laid over it: what a sweep
// needs.
#pragma once

#include <span>
#include <string>

#include "sim/config/catalogue.hpp"
#include "sim/config/document.hpp"
#include "sim/config/scenario.hpp"

namespace syncline {

/// A value for a dotted path (`topology.scale-out.oversubscription`) that has been parsed already.
struct Setting {
  std::string path;
  ConfigMark mark;   // of the path: where a key that no format knows is reported
  ConfigNode value;  // with its own place
};

/// As apply_override(), of a parsed value; what is wrong is reported at the setting's own places.
void apply_setting(ConfigNode& root, const Setting& setting, ConfigErrors& errors);

/// A `--set path=value` as a setting whose place is the flag; its value is Faulty when it is no YAML.
[[nodiscard]] Setting setting_of(const Override& change, ConfigErrors& errors);

/// As YAML in one line, whatever its length: "{kind: torus, dimensions: [4, 4, 4]}".
[[nodiscard]] std::string to_flow_yaml(const ConfigNode& node);

class ScenarioDocument {
 public:
  /// @throws InputError as parse_scenario() does of text that is no YAML map
  ScenarioDocument(const std::string& text, std::string file);

  /// What parse_scenario() gives of the text with these values in place of its own.
  /// @throws InputError with the place of everything that is wrong
  [[nodiscard]] Scenario scenario(std::span<const Setting> settings) const;

 private:
  std::string file_;
  ConfigNode root_;
  mutable ConfigFiles files_;  // kept as first read: what is asked later sees the same
};

}  // namespace syncline
