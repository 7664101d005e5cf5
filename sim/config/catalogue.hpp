// Topologies, devices and models by name: where their files are, and blocks that are laid over one of them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/document.hpp"

namespace syncline {

struct Catalogue {
  std::string_view what;    // "topology"
  std::string_view folder;  // "topologies"
};
inline constexpr Catalogue Topologies{"topology", "topologies"};
inline constexpr Catalogue Devices{"device", "devices"};
inline constexpr Catalogue Models{"model", "models"};
inline constexpr Catalogue Libraries{"communication library", "libraries"};
inline constexpr Catalogue PriceLists{"price list", "parts"};

/// The first that exists of: $SYNCLINE_DATA, the source tree this program was built from, ../share/syncline
/// beside the program.
/// @throws EnvironmentError when none does
[[nodiscard]] std::filesystem::path data_folder();

/// The names in a catalogue, sorted.
[[nodiscard]] std::vector<std::string> names_in(const Catalogue& catalogue);

/// Files that have been parsed, for those who read the same ones many times.
class ConfigFiles {
 public:
  /// As read_yaml_file(). A file in which something is wrong is parsed each time.
  [[nodiscard]] ConfigNode read(const std::string& file, ConfigErrors& errors);

 private:
  std::map<std::string, ConfigNode> files_;
};

/// Replaces a name or file, and a map with `base`, by the whole block: the base's file with the map's own
/// keys laid over it. A base may have a base. What cannot be found is added to `errors`, and the node becomes
/// Faulty.
/// @param from   folder that file names are relative to
/// @param files  where files are taken from and kept
void resolve_block(ConfigNode& node, const Catalogue& catalogue, const std::filesystem::path& from,
                   ConfigErrors& errors, ConfigFiles& files);
/// The same once.
void resolve_block(ConfigNode& node, const Catalogue& catalogue, const std::filesystem::path& from,
                   ConfigErrors& errors);

}  // namespace syncline
