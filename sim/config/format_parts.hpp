// What the tables of several formats have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/catalogue.hpp"
#include "sim/config/reader.hpp"
#include "sim/pipeline/lower.hpp"

namespace syncline {

// Above these a file asks for something else than its author meant, and for all the memory there is.
inline constexpr Limits Accelerators{.low = 1, .high = 262144};
inline constexpr Limits Layers{.low = 1, .high = 10000};
inline constexpr Limits Sequences{.low = 1, .high = 100000000};
inline constexpr Limits Microbatches{.low = 1, .high = 10000000};

/// The version of the format; refused when it is not ours.
[[nodiscard]] Field version_field(bool required_and_printed);

/// A word kept as it is.
[[nodiscard]] Codec kept_word_codec(std::string& word, const std::vector<std::string>& words);

/// A count whose 0 means "not given", and is not printed.
[[nodiscard]] Codec given_count_codec(int& count, Limits limits);

/// A number of activations, or a multiple of the pipeline's ranks: 8, "1.5p".
/// @param ranks  p, which has been read when the limit is
[[nodiscard]] Codec memory_limit_codec(std::optional<double>& limit, const int& ranks);

/// The field as it is read; printed only where it has a meaning.
[[nodiscard]] Field printed_if(bool applies, Field field);

[[nodiscard]] Names<pipeline::TransferMode> transfer_modes();
[[nodiscard]] Names<Precision> precisions();

/// A block of keys, or a name of the catalogue or a file, relative to the one that names it.
/// @param what  "the name of a library"
template <class Block>
[[nodiscard]] Codec block_or_name_codec(Block& block, const Catalogue& catalogue, const std::string& what) {
  const auto read = [&block, catalogue](const ConfigValue& value) {
    ConfigNode node = value.node;
    if (node.kind == ConfigNode::Kind::Scalar)
      resolve_block(node, catalogue, std::filesystem::path(value.mark.place().file).parent_path(),
                    value.errors);
    if (node.kind != ConfigNode::Kind::Faulty)
      read_fields({node, value.mark, value.path, value.errors}, fields_of(block));
  };
  return {"a block of keys, or " + what, read, [&block] { return write_fields(fields_of(block)); }};
}

/// A block of a catalogue as a file of its own; as it stands there, with the overrides.
/// @throws InputError with the place of whatever is wrong
template <class Block>
ConfigNode load_block(const std::string& name_or_file, const Catalogue& catalogue, Block& block,
                      const std::vector<Override>& overrides = {}) {
  ConfigErrors errors;
  ConfigNode root = scalar_node(name_or_file);
  resolve_block(root, catalogue, "", errors);
  for (const Override& change : overrides) apply_override(root, change, errors);
  codec(block).read({root, root.mark, "", errors});
  errors.throw_if_any();
  return root;
}

}  // namespace syncline
