// Tables of fields: one table says how a block of a file is read into a plain value and how it is printed
// again.
//
//   Fields fields_of(LinkSpec& link) {
//     return {required("bandwidth", link.bandwidth),
//             optional("efficiency", link.efficiency, AnyShare),
//             required("latency", link.latency)};
//   }
//
// A value that is not in the file keeps what the struct's own initialiser gave it: defaults stand there only.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/config/document.hpp"
#include "sim/core/quantity.hpp"

namespace syncline {

/// A node on its way into a value.
struct ConfigValue {
  const ConfigNode& node;
  ConfigMark mark;   // of its key, where errors of a whole block are shown
  std::string path;  // dotted, for messages; empty at the root
  ConfigErrors& errors;

  /// Adds `"path": message` at the value itself, or at the key when the value is a block.
  void fail(std::string_view message) const;
  [[nodiscard]] std::string below(std::string_view key) const;
};

/// How one field is read and printed.
struct Codec {
  std::string expects;  // "a bandwidth such as \"400Gbps\"", for messages
  std::function<void(const ConfigValue&)> read;
  std::function<ConfigNode()> write;  // Nothing: not printed
};

struct Field {
  std::string_view key;
  bool required = false;
  Codec codec;
};
using Fields = std::vector<Field>;

/// Reads the fields of a map; reports missing and unknown keys, the latter with the nearest known one.
void read_fields(const ConfigValue& map, const Fields& fields);
[[nodiscard]] ConfigNode write_fields(const Fields& fields);

/// Adds that `map` lacks the key, and what to add.
void missing_key(const ConfigValue& map, std::string_view key, const Codec& codec);

/// Bounds of a number or of a quantity in SI units.
struct Limits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;  // `low` itself is not allowed
};
inline constexpr Limits AnyNumber{};
inline constexpr Limits FromZero{.low = 0};
inline constexpr Limits FromOne{.low = 1};

// What no hardware comes near. Beyond these the arithmetic of a simulation loses its digits.
inline constexpr Limits AnyTime{.low = 0, .high = 1e6};         // s
inline constexpr Limits AnySize{.low = 0, .high = 1e18};        // B
inline constexpr Limits AnyCapacity{.low = 1, .high = 1e18};    // B
inline constexpr Limits AnyBandwidth{.low = 1, .high = 1e18};   // B/s
inline constexpr Limits AnyFlopRate{.low = 1e6, .high = 1e21};  // FLOP/s
inline constexpr Limits AnyPower{.low = 0, .high = 1e12};       // W
inline constexpr Limits AnyShare{.low = 1e-6, .high = 1};

// --- codecs of plain values ---

[[nodiscard]] Codec codec(std::string& value);  // not empty
[[nodiscard]] Codec codec(bool& value);         // true, false
[[nodiscard]] Codec codec(double& value, Limits limits = AnyNumber);
[[nodiscard]] Codec codec(int& value, Limits limits = FromOne);
[[nodiscard]] Codec codec(std::int64_t& value, Limits limits = FromOne);
[[nodiscard]] Codec codec(std::uint64_t& value, Limits limits = FromZero);
[[nodiscard]] Codec codec(Seconds& value, Limits limits = AnyTime);
[[nodiscard]] Codec codec(Bytes& value, Limits limits = AnyCapacity);
[[nodiscard]] Codec codec(BytesPerSecond& value, Limits limits = AnyBandwidth);
[[nodiscard]] Codec codec(FlopPerSecond& value, Limits limits = AnyFlopRate);
[[nodiscard]] Codec codec(Watts& value, Limits limits = AnyPower);

/// A word out of a list.
template <class Enum>
using Names = std::vector<std::pair<std::string, Enum>>;
[[nodiscard]] Codec word_codec(std::vector<std::string> words, std::function<void(std::size_t)> set,
                               std::function<std::size_t()> get);
template <class Enum>
requires std::is_enum_v<Enum>
[[nodiscard]] Codec codec(Enum& value, Names<Enum> names) {
  std::vector<std::string> words;
  for (const auto& [word, meaning] : names) words.push_back(word);
  return word_codec(
      std::move(words), [&value, names](std::size_t i) { value = names[i].second; },
      [&value, names] {
        std::size_t i = 0;
        while (names[i].second != value) ++i;
        return i;
      });
}

// --- codecs of composed values ---

/// A map with the keys that `fields_of(value)` lists.
template <class Block>
requires requires(Block& block) {
  fields_of(block);
}
[[nodiscard]] Codec codec(Block& value) {
  return {"a block of keys", [&value](const ConfigValue& node) { read_fields(node, fields_of(value)); },
          [&value] { return write_fields(fields_of(value)); }};
}

/// A block of keys made in place, for what is one block in the file but not one struct here.
[[nodiscard]] Codec block_codec(Fields fields);

/// A list; a single value stands for a list of one.
[[nodiscard]] std::vector<ConfigValue> list_items(const ConfigValue& value);
[[nodiscard]] ConfigNode list_node(std::vector<ConfigNode> items);
template <class Item, class... Options>
[[nodiscard]] Codec codec(std::vector<Item>& values, Options... options) {
  Item example{};
  return {"a list, each " + codec(example, options...).expects,
          [&values, options...](const ConfigValue& node) {
            values.clear();
            for (const ConfigValue& part : list_items(node)) {
              Item item{};
              codec(item, options...).read(part);
              values.push_back(std::move(item));
            }
          },
          [&values, options...] {
            std::vector<ConfigNode> items;
            for (Item item : values) items.push_back(codec(item, options...).write());
            return items.empty() ? ConfigNode{} : list_node(std::move(items));
          }};
}

/// `none`, or what it holds.
[[nodiscard]] bool is_none(const ConfigNode& node);
template <class Inner, class... Options>
[[nodiscard]] Codec codec(std::optional<Inner>& value, Options... options) {
  Inner example{};
  return {codec(example, options...).expects,
          [&value, options...](const ConfigValue& node) {
            value.reset();
            if (!is_none(node.node)) codec(value.emplace(), options...).read(node);
          },
          [&value, options...] { return value ? codec(*value, options...).write() : ConfigNode{}; }};
}

// --- fields ---

template <class Value, class... Options>
[[nodiscard]] Field required(std::string_view key, Value& value, Options... options) {
  return {key, true, codec(value, std::move(options)...)};
}
template <class Value, class... Options>
[[nodiscard]] Field optional(std::string_view key, Value& value, Options... options) {
  return {key, false, codec(value, std::move(options)...)};
}
[[nodiscard]] inline Field required_block(std::string_view key, Fields fields) {
  return {key, true, block_codec(std::move(fields))};
}
[[nodiscard]] inline Field optional_block(std::string_view key, Fields fields) {
  return {key, false, block_codec(std::move(fields))};
}

}  // namespace syncline
