#include "sim/config/catalogue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "sim/config/formats.hpp"

namespace syncline {
namespace {

namespace fs = std::filesystem;

constexpr int DeepestBase = 8;  // files that are laid over each other; more is a circle

bool is_graph_file(std::string_view name) {
  return name.ends_with(".graphml") || name.ends_with(".xml");
}

bool is_file_name(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.ends_with(".yaml") || name.ends_with(".yml") ||
         is_graph_file(name);
}

/// The file that a name stands for; nullopt, and an error, when there is none.
std::optional<fs::path> find_file(const ConfigNode& node, const Catalogue& catalogue, const fs::path& from,
                                  ConfigErrors& errors) {
  const std::string& name = node.text;
  std::error_code ignored;
  if (is_file_name(name)) {
    fs::path file = from / name;
    if (fs::exists(file, ignored)) return file;
    errors.add(node.mark.place(), fmt::format("no such file \"{}\"", file.string()));
    return std::nullopt;
  }
  fs::path file = data_folder() / catalogue.folder / (name + ".yaml");
  if (!name.empty() && fs::exists(file, ignored)) return file;
  errors.add(node.mark.place(), unknown_name(catalogue.what, name, names_in(catalogue)) +
                                    "; or give a file name that ends in .yaml");
  return std::nullopt;
}

void resolve(ConfigNode& node, const Catalogue& catalogue, const fs::path& from, ConfigErrors& errors,
             ConfigFiles& files, int depth);

ConfigNode load(const ConfigNode& reference, const Catalogue& catalogue, const fs::path& from,
                ConfigErrors& errors, ConfigFiles& files, int depth) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::Faulty;
  if (reference.kind != ConfigNode::Kind::Scalar) {
    errors.add(reference.mark.place(), fmt::format("expected the name of a {} or a file", catalogue.what));
    return node;
  }
  if (depth == DeepestBase) {
    errors.add(reference.mark.place(),
               fmt::format("more than {} bases upon each other; do they name each other in a "
                           "circle?",
                           DeepestBase));
    return node;
  }
  const std::optional<fs::path> file = find_file(reference, catalogue, from, errors);
  if (!file) return node;
  if (is_graph_file(file->string())) {
    node = graph_file(file->string(), errors);
    if (node.kind == ConfigNode::Kind::Faulty) return node;
  } else {
    node = files.read(file->string(), errors);
  }
  if (node.find("version") == nullptr)
    errors.add(node.mark.place(), "missing key \"version\"; add \"version: 1\"");
  if (node.find("name") == nullptr)
    node.entries.push_back({"name", node.mark, scalar_node(file->stem().string())});
  resolve(node, catalogue, file->parent_path(), errors, files, depth + 1);
  return node;
}

void resolve(ConfigNode& node, const Catalogue& catalogue, const fs::path& from, ConfigErrors& errors,
             ConfigFiles& files, int depth) {
  if (node.kind == ConfigNode::Kind::Scalar) {
    node = load(node, catalogue, from, errors, files, depth);
  } else if (const ConfigEntry* base = node.find("base")) {
    const ConfigNode below = load(base->value, catalogue, from, errors, files, depth);
    std::erase_if(node.entries, [](const ConfigEntry& entry) { return entry.key == "base"; });
    if (below.kind == ConfigNode::Kind::Map)
      node = merge(below, node);
    else
      node.kind = ConfigNode::Kind::Faulty;
  }
}

}  // namespace

fs::path data_folder() {
  std::error_code ignored;
  const auto holds_data = [&](const fs::path& folder) {
    return fs::is_directory(folder / Devices.folder, ignored);
  };
  if (const char* given = std::getenv("SYNCLINE_DATA"); given != nullptr && *given != '\0') {
    if (holds_data(given)) return given;
    throw EnvironmentError(
        fmt::format("SYNCLINE_DATA is \"{}\", which has no folder \"{}\"", given, Devices.folder));
  }
  const fs::path source = SYNCLINE_SOURCE_DATA;
  const fs::path installed =
      fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path() / "share" / "syncline";
  for (const fs::path& folder : {source, installed})
    if (holds_data(folder)) return folder;
  throw EnvironmentError(fmt::format("the data folder is neither at {} nor at {}; set SYNCLINE_DATA to it",
                                     source.string(), installed.string()));
}

std::vector<std::string> names_in(const Catalogue& catalogue) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(data_folder() / catalogue.folder, ignored))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

ConfigNode ConfigFiles::read(const std::string& file, ConfigErrors& errors) {
  if (const auto known = files_.find(file); known != files_.end()) return known->second;
  ConfigNode node = read_yaml_file(file, errors);
  if (errors.empty()) files_.emplace(file, node);
  return node;
}

void resolve_block(ConfigNode& node, const Catalogue& catalogue, const fs::path& from, ConfigErrors& errors,
                   ConfigFiles& files) {
  resolve(node, catalogue, from, errors, files, 0);
}

void resolve_block(ConfigNode& node, const Catalogue& catalogue, const fs::path& from, ConfigErrors& errors) {
  ConfigFiles files;
  resolve_block(node, catalogue, from, errors, files);
}

}  // namespace syncline
