#include "sim/config/document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <tuple>

#include "sim/config/scenario_document.hpp"

namespace syncline {
namespace {

constexpr std::string_view ByteOrderMark = "\xEF\xBB\xBF";

/// Bytes of the UTF-8 character at `text[at]`; 0 when it is none or a NUL.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(at);
  if (first == 0) return 0;
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  return length;
}

void check_is_text(std::string_view text, const std::string& file) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) refuse(file, fmt::format("not a text file: byte {} is not UTF-8 text", at + 1));
    at += length;
  }
}

// Characters that YAML takes as they are in any context.
bool is_plain(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._/-+").find(c) != std::string_view::npos;
  };
  return !text.empty() && text.front() != '-' && text != "null" && text != "Null" && text != "NULL" &&
         std::ranges::all_of(text, plain);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string scalar_text(std::string_view text) {
  return is_plain(text) ? std::string(text) : quoted(text);
}

std::string flow_text(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::Scalar: return scalar_text(node.text);
    case ConfigNode::Kind::List: {
      std::vector<std::string> items;
      for (const ConfigNode& item : node.items) items.push_back(flow_text(item));
      return fmt::format("[{}]", fmt::join(items, ", "));
    }
    case ConfigNode::Kind::Map: {
      std::vector<std::string> entries;
      for (const ConfigEntry& entry : node.entries)
        entries.push_back(entry.key + ": " + flow_text(entry.value));
      return fmt::format("{{{}}}", fmt::join(entries, ", "));
    }
    case ConfigNode::Kind::Nothing:
    case ConfigNode::Kind::Faulty: break;
  }
  return "~";
}

constexpr std::size_t LineWidth = 120;  // characters of a block that is still printed in one line

void print_block(const ConfigNode& map, std::size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  for (const ConfigEntry& entry : map.entries) {
    const std::string line = fmt::format("{}{}: {}", margin, entry.key, flow_text(entry.value));
    const ConfigNode& value = entry.value;
    if (line.size() <= LineWidth || value.kind == ConfigNode::Kind::Scalar) {
      out += line + '\n';
    } else if (value.kind == ConfigNode::Kind::Map) {
      out += fmt::format("{}{}:\n", margin, entry.key);
      print_block(value, indent + 2, out);
    } else {
      out += fmt::format("{}{}:\n", margin, entry.key);
      for (const ConfigNode& item : value.items) out += fmt::format("{}- {}\n", margin, flow_text(item));
    }
  }
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<ConfigNode> override_value(const Override& change, const ConfigMark& mark,
                                         ConfigErrors& errors) {
  try {
    ConfigErrors inside;
    ConfigNode value = parse_yaml(change.value, mark.source->name, inside);
    inside.throw_if_any();
    move_to(value, mark);
    return value;
  } catch (const InputError& error) {  // its lines and columns are of the value alone
    for (const Diagnostic& diagnostic : error.diagnostics()) errors.add(mark.place(), diagnostic.message);
  }
  return std::nullopt;
}

ConfigNode map_node(const ConfigMark& mark) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::Map;
  node.mark = mark;
  return node;
}

std::string_view kind_of(const ConfigNode& map) {
  const ConfigEntry* kind = map.find("kind");
  return kind != nullptr && kind->value.kind == ConfigNode::Kind::Scalar ? kind->value.text
                                                                         : std::string_view();
}

}  // namespace

Place ConfigMark::place() const {
  if (source == nullptr) return {};
  if (source->lines.empty()) return {source->name, 0, 0, ""};
  const auto index = static_cast<std::size_t>(line) - 1;
  return {source->name, line, column, index < source->lines.size() ? source->lines[index] : ""};
}

const ConfigEntry* ConfigNode::find(std::string_view key) const {
  const auto found = std::ranges::find(entries, key, &ConfigEntry::key);
  return found == entries.end() ? nullptr : &*found;
}

ConfigEntry* ConfigNode::find(std::string_view key) {
  const auto found = std::ranges::find(entries, key, &ConfigEntry::key);
  return found == entries.end() ? nullptr : &*found;
}

void move_to(ConfigNode& node, const ConfigMark& mark) {
  node.mark = mark;
  for (ConfigNode& item : node.items) move_to(item, mark);
  for (ConfigEntry& entry : node.entries) {
    entry.mark = mark;
    move_to(entry.value, mark);
  }
}

ConfigNode scalar_node(std::string text) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::Scalar;
  node.text = std::move(text);
  return node;
}

void ConfigErrors::throw_if_any() const {
  if (found_.empty()) return;
  const auto key = [](const Diagnostic& d) { return std::tie(d.place.file, d.place.line, d.place.column); };
  std::vector<Diagnostic> sorted;  // two checks may find the same
  for (const Diagnostic& one : found_)
    if (std::ranges::none_of(sorted, [&](const Diagnostic& other) {
          return key(one) == key(other) && one.message == other.message;
        }))
      sorted.push_back(one);
  std::ranges::stable_sort(sorted, [&](const Diagnostic& a, const Diagnostic& b) { return key(a) < key(b); });
  throw InputError(std::move(sorted));
}

std::string read_text_file(const std::string& file, std::size_t limit) {
  return read_text_file(file, [limit](std::string_view) { return limit; });
}

std::string read_text_file(const std::string& file,
                           const std::function<std::size_t(std::string_view)>& limit_of) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (!fs::exists(status)) refuse(file, error && error.value() != ENOENT ? error.message() : "no such file");
  if (fs::is_directory(status)) refuse(file, "is a folder; name a file in it");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse(file, fmt::format("cannot be read: {}", std::strerror(errno)));

  std::string text, part(64 << 10, '\0');
  const auto read_part = [&] {
    stream.read(part.data(), static_cast<std::streamsize>(part.size()));
    text.append(part, 0, static_cast<std::size_t>(stream.gcount()));
    return stream.gcount() > 0;
  };
  read_part();
  if (text.starts_with(ByteOrderMark)) text.erase(0, ByteOrderMark.size());
  if (text.empty()) refuse(file, "is empty");
  const std::size_t limit = limit_of(text);
  const auto refuse_large = [&](std::string_view size) {
    refuse(file,
           fmt::format("is too large ({}; at most {} bytes are read); is it the right file?", size, limit));
  };
  if (fs::is_regular_file(status)) {
    const std::uintmax_t size = fs::file_size(file, error);
    if (!error && size > limit) refuse_large(fmt::format("{} bytes", size));
  }
  while (text.size() <= limit && read_part()) continue;
  if (text.size() > limit) refuse_large("it goes on after that");  // a pipe or a device
  check_is_text(text, file);
  return text;
}

ConfigNode parse_yaml_map(const std::string& text, const std::string& file, ConfigErrors& errors) {
  ConfigNode root = parse_yaml(text, file, errors);
  if (root.kind == ConfigNode::Kind::Nothing) refuse(file, "is empty (nothing but comments)");
  if (root.kind != ConfigNode::Kind::Map)
    throw InputError(
        {root.mark.place(), "expected keys with values such as \"version: 1\"; is it the right file?"});
  return root;
}

ConfigNode read_yaml_file(const std::string& file, ConfigErrors& errors) {
  return parse_yaml_map(read_text_file(file), file, errors);
}

void apply_override(ConfigNode& root, const Override& change, ConfigErrors& errors) {
  const Setting setting = setting_of(change, errors);
  if (setting.value.kind != ConfigNode::Kind::Faulty) apply_setting(root, setting, errors);
}

Setting setting_of(const Override& change, ConfigErrors& errors) {
  const auto source = std::make_shared<const ConfigSource>(
      ConfigSource{fmt::format("--set {}={}", change.path, change.value), {}});
  const ConfigMark mark{source, 0, 0};
  ConfigNode faulty;
  faulty.kind = ConfigNode::Kind::Faulty;
  return {change.path, mark, override_value(change, mark, errors).value_or(faulty)};
}

void apply_setting(ConfigNode& root, const Setting& setting, ConfigErrors& errors) {
  const ConfigMark& mark = setting.mark;
  const std::vector<std::string> keys = split(setting.path, '.');
  if (std::ranges::any_of(keys, &std::string::empty))
    return errors.add(mark.place(), "the path has an empty part; write it as in batch.global=64");

  ConfigNode* node = &root;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (node->kind == ConfigNode::Kind::List)
      return errors.add(mark.place(), fmt::format("\"{}\" is a list; set it as a whole", keys[i - 1]));
    if (node->kind == ConfigNode::Kind::Scalar && i == 1) {  // a block by name
      ConfigNode named = map_node(node->mark);
      named.entries.push_back({"base", node->mark, std::move(*node)});
      *node = std::move(named);
    }
    if (node->kind == ConfigNode::Kind::Nothing) *node = map_node(mark);
    if (node->kind != ConfigNode::Kind::Map)
      return errors.add(mark.place(),
                        fmt::format("\"{}\" is a single value; nothing lies below it", keys[i - 1]));
    ConfigEntry* entry = node->find(keys[i]);
    if (entry == nullptr) entry = &node->entries.emplace_back(ConfigEntry{keys[i], mark, {}});
    node = &entry->value;
    if (i + 1 == keys.size()) entry->mark = mark;
  }
  *node = setting.value;
}

ConfigNode merge(ConfigNode base, const ConfigNode& over) {
  if (base.kind != ConfigNode::Kind::Map || over.kind != ConfigNode::Kind::Map) return over;
  if (!kind_of(over).empty() && !kind_of(base).empty() && kind_of(over) != kind_of(base))
    std::erase_if(base.entries, [](const ConfigEntry& entry) { return entry.key != "link"; });
  base.mark = over.mark;
  for (const ConfigEntry& entry : over.entries) {
    if (ConfigEntry* old = base.find(entry.key)) {
      old->value = merge(std::move(old->value), entry.value);
      old->mark = entry.mark;
    } else {
      base.entries.push_back(entry);
    }
  }
  return base;
}

Place place_of(const ConfigNode& root, std::string_view path) {
  Place place = root.mark.place();
  const ConfigNode* node = &root;
  for (const std::string& key : split(path, '.')) {
    const ConfigEntry* entry = node->find(key);
    if (entry == nullptr) break;
    node = &entry->value;
    const bool block = node->kind == ConfigNode::Kind::Map || node->kind == ConfigNode::Kind::List;
    place = block ? entry->mark.place() : node->mark.place();
  }
  return place;
}

std::string to_flow_yaml(const ConfigNode& node) {
  return flow_text(node);
}

std::string to_yaml(const ConfigNode& root) {
  std::string out;
  print_block(root, 0, out);
  return out;
}

}  // namespace syncline
