// The keys of a textbook pipeline.
#include <fmt/format.h>

#include <algorithm>

#include "sim/config/format_parts.hpp"
#include "sim/config/formats.hpp"
#include "sim/core/error.hpp"

namespace syncline {
namespace {

using pipeline::Order;

constexpr Limits Stages{.low = 1, .high = 1024};
constexpr Limits Chunks{.low = 1, .high = 1024};
constexpr Limits Activations{.low = -1e6, .high = 1e6};

/// One time for all virtual stages, or one for each.
Codec stage_times_codec(std::vector<Seconds>& times) {
  Codec list = codec(times);
  list.expects = "a time such as \"10ms\", or a list of them by virtual stage";
  list.read = [&times, read = list.read](const ConfigValue& value) {
    if (value.node.kind == ConfigNode::Kind::List && value.node.items.empty())
      return value.fail("is an empty list; give one time for all virtual stages, or one for each");
    read(value);
  };
  list.write = [&times, write = list.write] {
    return times.size() == 1 ? codec(times.front()).write() : write();
  };
  return list;
}

/// Where in its line of the file `text` stands, if it stands there as it is read.
Place place_in(const ConfigNode& line, int column) {
  Place place = line.mark.place();
  if (place.line == 0) return place;
  const std::size_t begin = place.source_line.find(line.text, static_cast<std::size_t>(place.column) - 1);
  if (begin != std::string::npos) place.column = static_cast<int>(begin) + column;
  return place;
}

void read_rank(const ConfigValue& line, Order& order) {
  std::string text;
  codec(text).read(line);
  if (text.empty()) return;
  try {
    Order rank = pipeline::parse_order(text, "");
    if (rank.ranks.size() > 1) return line.fail("is more than a line; give a line for each rank");
    order.stages = std::max(order.stages, rank.stages);
    order.microbatches = std::max(order.microbatches, rank.microbatches);
    order.ranks.push_back(std::move(rank.ranks.front()));
  } catch (const InputError& error) {
    for (const Diagnostic& diagnostic : error.diagnostics())
      line.errors.add(place_in(line.node, diagnostic.place.column),
                      fmt::format("\"{}\": {}", line.path, diagnostic.message));
  }
}

/// Lines of an order, one a rank; files have become lists of lines before.
Codec order_codec(std::optional<Order>& order) {
  const std::string expects =
      "a list of lines, one a rank, such as [\"0F0 0F1 0B0 0B1\"], or a file that has them";
  const auto read = [&order, expects](const ConfigValue& value) {
    if (value.node.kind == ConfigNode::Kind::Faulty) return;
    if (value.node.kind != ConfigNode::Kind::List || value.node.items.empty())
      return value.fail(fmt::format("expected {}", expects));
    if (!order) order.emplace();
    for (const ConfigValue& line : list_items(value)) read_rank(line, *order);
  };
  const auto write = [&order] {
    std::vector<ConfigNode> lines;
    for (const pipeline::RankOrder& rank : order->ranks) lines.push_back(scalar_node(to_text(rank)));
    return list_node(std::move(lines));
  };
  return {expects, read, write};
}

Fields fields_of_memory(pipeline::ActivationMemory& memory) {
  return {optional("forward", memory.forward, Activations),
          optional("backward-input", memory.backward_input, Activations),
          optional("backward-weight", memory.backward_weight, Activations)};
}

}  // namespace

Fields fields_of(TextbookPipeline& textbook) {
  using pipeline::WeightOrder;
  const bool made = !textbook.order;
  const pipeline::Generator* generator = textbook.generator();
  const bool searched = generator != nullptr && generator->searched;
  const bool takes_weight_order = generator != nullptr && generator->takes_weight_order;
  return {
      printed_if(made, {"schedule", made, kept_word_codec(textbook.schedule, pipeline::generator_names())}),
      printed_if(!made, {"order", false, order_codec(textbook.order)}),
      {"stages", made, given_count_codec(textbook.ranks, Stages)},
      {"microbatches", made, given_count_codec(textbook.microbatches, Microbatches)},
      {"chunks", false, given_count_codec(textbook.chunks, Chunks)},
      {"group-size", false, given_count_codec(textbook.group_size, Microbatches)},
      {"forward", true, stage_times_codec(textbook.forward)},
      {"backward-input", true, stage_times_codec(textbook.backward_input)},
      {"backward-weight", true, stage_times_codec(textbook.backward_weight)},
      optional("fused", textbook.fused),
      printed_if(!textbook.topology, optional("hop", textbook.hop)),
      optional("transfers", textbook.transfers, transfer_modes()),
      optional("bytes", textbook.bytes),
      optional("activation", textbook.activation),
      optional("bandwidth", textbook.bandwidth),
      {"memory-limit", false, memory_limit_codec(textbook.memory_limit, textbook.ranks)},
      printed_if(searched, optional_block("memory", fields_of_memory(textbook.memory))),
      printed_if(takes_weight_order,
                 optional("weight-order", textbook.weight_order,
                          Names<WeightOrder>{{"oldest-first", WeightOrder::OldestFirst},
                                             {"newest-first", WeightOrder::NewestFirst}}))};
}

}  // namespace syncline
