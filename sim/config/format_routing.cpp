#include "sim/config/format_routing.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "sim/moe/counts_file.hpp"

namespace syncline {
namespace {

using moe::Routing;

constexpr std::size_t LargestCountsFile = 256 << 20;

constexpr Limits Exponent{.low = 0, .high = 20};
constexpr Limits Alpha{.low = 1e-3, .high = 1e6};
constexpr Limits HotExperts{.low = 1, .high = 65535};
constexpr Limits HotShare{.low = 1e-6, .high = 1 - 1e-6};

constexpr std::string_view Expects =
    "balanced, uniform, {zipf: 1.2}, {dirichlet: 0.5}, {hot: {experts: 4, share: 0.5}} or {counts: FILE}";

Codec zipf_codec(moe::Zipf& zipf) {
  return codec(zipf.exponent, Exponent);
}
Codec dirichlet_codec(moe::Dirichlet& dirichlet) {
  return codec(dirichlet.alpha, Alpha);
}
Codec hot_codec(moe::Hot& hot) {
  return block_codec({required("experts", hot.experts, HotExperts), required("share", hot.share, HotShare)});
}

/// The file that a value names, from the folder of the file it stands in.
std::string path_from(const ConfigNode& named) {
  const auto& source = named.mark.source;
  const bool in_file = source && !source->lines.empty();
  return in_file ? (std::filesystem::path(source->name).parent_path() / named.text).string() : named.text;
}

Codec counts_codec(moe::FromFile& measured) {
  const auto read = [&measured](const ConfigValue& value) {
    codec(measured.file).read(value);
    if (measured.file.empty()) return;
    const std::string path = path_from(value.node);
    std::string text;
    try {
      text = read_text_file(path, LargestCountsFile);
    } catch (const InputError& error) {
      return value.fail(fmt::format("{}: {}", path, error.diagnostics().front().message));
    }
    try {
      measured.counts = std::make_shared<const moe::MeasuredCounts>(moe::parse_counts(text, path));
    } catch (const InputError& error) {
      for (const Diagnostic& each : error.diagnostics()) value.errors.add(each.place, each.message);
    }
  };
  return {"the name of a file of counts", read, [&measured] { return codec(measured.file).write(); }};
}

/// A key that makes the routing one of this kind; printed when it is.
template <class Kind>
Field kind_field(std::string_view key, Routing& routing, Codec (*codec_of)(Kind&)) {
  const auto read = [&routing, codec_of](const ConfigValue& value) {
    codec_of(routing.emplace<Kind>()).read(value);
  };
  const auto write = [&routing, codec_of] {
    Kind* kind = std::get_if<Kind>(&routing);
    return kind != nullptr ? codec_of(*kind).write() : ConfigNode{};
  };
  return {key, false, {std::string(Expects), read, write}};
}

Fields kind_fields(Routing& routing) {
  return {kind_field("zipf", routing, zipf_codec), kind_field("dirichlet", routing, dirichlet_codec),
          kind_field("hot", routing, hot_codec), kind_field("counts", routing, counts_codec)};
}

struct Word {
  std::string_view text;
  Routing routing;
};
std::vector<Word> words() {
  return {{"balanced", moe::Balanced{}}, {"uniform", moe::Uniform{}}};
}

void read_routing(const ConfigValue& value, Routing& routing) {
  const ConfigNode& node = value.node;
  if (node.kind == ConfigNode::Kind::Scalar) {
    for (const Word& word : words())
      if (word.text == node.text) {
        routing = word.routing;
        return;
      }
    return value.fail(fmt::format("\"{}\" is unknown; expected {}", node.text, Expects));
  }
  if (node.kind == ConfigNode::Kind::Map && node.entries.size() != 1)
    return value.fail(fmt::format("has {} keys; expected one of {}", node.entries.size(), Expects));
  read_fields(value, kind_fields(routing));
}

ConfigNode write_routing(Routing& routing) {
  for (const Word& word : words())
    if (word.routing.index() == routing.index()) return scalar_node(std::string(word.text));
  return write_fields(kind_fields(routing));
}

}  // namespace

Codec routing_codec(Routing& routing) {
  return {std::string(Expects), [&routing](const ConfigValue& value) { read_routing(value, routing); },
          [&routing] { return write_routing(routing); }};
}

}  // namespace syncline
