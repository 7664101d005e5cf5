#include "sim/config/format_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sim/config/formats.hpp"
#include "sim/core/units.hpp"

namespace syncline {
namespace {

constexpr Limits Activations{.low = 0, .high = 1e9, .above_low = true};

}  // namespace

Field version_field(bool required_and_printed) {
  const std::string expects = fmt::format("{}, the version that this program reads", ConfigVersion);
  const auto read = [expects](const ConfigValue& value) {
    const ConfigNode& node = value.node;
    if (node.kind != ConfigNode::Kind::Scalar || node.text != std::to_string(ConfigVersion))
      value.fail(
          fmt::format("expected {}{}", expects,
                      node.kind == ConfigNode::Kind::Scalar ? fmt::format(", not \"{}\"", node.text) : ""));
  };
  const auto write = [required_and_printed] {
    return required_and_printed ? scalar_node(std::to_string(ConfigVersion)) : ConfigNode{};
  };
  return {"version", required_and_printed, {fmt::format("\"version: {}\"", ConfigVersion), read, write}};
}

Codec kept_word_codec(std::string& word, const std::vector<std::string>& words) {
  return word_codec(
      words, [&word, words](std::size_t i) { word = words[i]; },
      [&word, words] { return static_cast<std::size_t>(std::ranges::find(words, word) - words.begin()); });
}

Codec given_count_codec(int& count, Limits limits) {
  Codec given = codec(count, limits);
  given.write = [&count, write = given.write] { return count == 0 ? ConfigNode{} : write(); };
  return given;
}

Codec memory_limit_codec(std::optional<double>& limit, const int& ranks) {
  const auto read = [&limit, &ranks](const ConfigValue& value) {
    const std::string& text = value.node.text;
    double factor = 1;
    ConfigNode number = value.node;
    if (value.node.kind == ConfigNode::Kind::Scalar && text.ends_with('p')) {
      number.text = text.size() == 1 ? "1" : text.substr(0, text.size() - 1);
      factor = ranks;
    }
    double read_number = 0;
    codec(read_number, Activations).read({number, value.mark, value.path, value.errors});
    limit = read_number * factor;
  };
  return {"a number of activations such as 8, or a multiple of the stages such as 1.5p", read,
          [&limit] { return limit ? scalar_node(exact_text(*limit)) : ConfigNode{}; }};
}

Field printed_if(bool applies, Field field) {
  if (!applies) field.codec.write = [] { return ConfigNode{}; };
  return field;
}

Names<pipeline::TransferMode> transfer_modes() {
  using pipeline::TransferMode;
  Names<TransferMode> names;
  for (const TransferMode mode : {TransferMode::Eager, TransferMode::Overlapped, TransferMode::Blocking})
    names.emplace_back(name_of(mode), mode);
  return names;
}

Names<Precision> precisions() {
  Names<Precision> names;
  for (const std::string& name : names_of<Precision>()) names.emplace_back(name, *value_of<Precision>(name));
  return names;
}

}  // namespace syncline
