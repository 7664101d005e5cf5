// A configuration file as a tree whose every node knows its place: text in, checked YAML out, overrides and
// bases laid over it. What the keys mean is the affair of reader.hpp and formats.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/error.hpp"

namespace syncline {

/// The file or the flag that text came from.
struct ConfigSource {
  std::string name;                // "scenarios/a.yaml", "--set batch.global=64"
  std::vector<std::string> lines;  // of the file; empty for a flag
};

/// Where a node begins. Lines and columns count from 1.
struct ConfigMark {
  std::shared_ptr<const ConfigSource> source;
  int line = 0;
  int column = 0;
  /// With the line's text; of a flag only its name.
  [[nodiscard]] Place place() const;
};

struct ConfigEntry;

struct ConfigNode {
  enum class Kind : std::uint8_t {
    Nothing,  // a key without value, `~`, `null`
    Scalar,
    List,
    Map,
    Faulty,  // its error has been reported already; read as if it were right
  };
  Kind kind = Kind::Nothing;
  ConfigMark mark;
  std::string text;                  // Scalar
  std::vector<ConfigNode> items;     // List
  std::vector<ConfigEntry> entries;  // Map: as in the file, keys all different

  [[nodiscard]] const ConfigEntry* find(std::string_view key) const;
  [[nodiscard]] ConfigEntry* find(std::string_view key);
};

struct ConfigEntry {
  std::string key;
  ConfigMark mark;  // of the key
  ConfigNode value;
};

[[nodiscard]] ConfigNode scalar_node(std::string text);
/// Makes all of `node` stand at one place.
void move_to(ConfigNode& node, const ConfigMark& mark);

/// Everything found wrong, so that a user sees all of it at once.
class ConfigErrors {
 public:
  void add(Place place, std::string message) { found_.push_back({std::move(place), std::move(message)}); }
  [[nodiscard]] bool empty() const { return found_.empty(); }
  /// @throws InputError with all errors in order of place, when there are any
  void throw_if_any() const;

 private:
  std::vector<Diagnostic> found_;
};

/// Largest configuration file that is read; a larger one is refused before it is.
constexpr std::size_t LargestConfigFile = 4 << 20;

/// The content of a text file, without the byte-order mark that some editors begin it with.
/// @throws InputError when it is missing, a folder, unreadable, empty, larger than `limit` bytes, or not
/// UTF-8 text
[[nodiscard]] std::string read_text_file(const std::string& file, std::size_t limit = LargestConfigFile);
/// The same with a limit that depends on how the text begins (at most 64 KiB of it are shown). The file is
/// read once, from its start to its end, so it may be a pipe.
[[nodiscard]] std::string read_text_file(const std::string& file,
                                         const std::function<std::size_t(std::string_view begin)>& limit_of);

/// One YAML document. Repeated keys and aliases go to `errors`; aliases are refused because a few lines of
/// them expand to gigabytes.
/// @throws InputError at the first syntax error
[[nodiscard]] ConfigNode parse_yaml(const std::string& text, const std::string& file, ConfigErrors& errors);

/// The same; the root is a map.
[[nodiscard]] ConfigNode parse_yaml_map(const std::string& text, const std::string& file,
                                        ConfigErrors& errors);
/// The same of a file's text.
[[nodiscard]] ConfigNode read_yaml_file(const std::string& file, ConfigErrors& errors);

/// `path=value`, as given to --set; the path is dotted (`topology.scale-out.oversubscription`), the value
/// YAML.
struct Override {
  std::string path;
  std::string value;
};

/// Sets or adds the value at the path. Its nodes' place is the flag, so a key that no format knows is
/// reported there. A block given by name in `root` (`topology: dgx-h100`) becomes a map with that name as its
/// `base`.
void apply_override(ConfigNode& root, const Override& change, ConfigErrors& errors);

/// `over` laid on `base`: maps are merged key by key, anything else is replaced. Where both have a `kind` and
/// they differ, only `link` is kept of the base: other keys would not fit the new kind.
[[nodiscard]] ConfigNode merge(ConfigNode base, const ConfigNode& over);

/// The place of the value at a dotted path, or of its nearest enclosing block that stands in the text.
[[nodiscard]] Place place_of(const ConfigNode& root, std::string_view path);

/// As YAML: small blocks in one line, others one key a line.
[[nodiscard]] std::string to_yaml(const ConfigNode& root);

}  // namespace syncline
