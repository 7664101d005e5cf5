// A pipeline of blocks of fixed time, as textbooks draw it: the kind of scenario that has no model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/config/document.hpp"
#include "sim/pipeline/generator.hpp"
#include "sim/pipeline/lower.hpp"
#include "sim/topology/spec.hpp"

namespace syncline {

struct TextbookPipeline {
  std::string schedule;                  // a name of pipeline::generator_names(); empty with an `order`
  std::optional<pipeline::Order> order;  // given in place of a schedule
  int ranks = 0;                         // p
  int microbatches = 0;                  // m
  int chunks = 0, group_size = 0;        // of the schedule; 0: its own
  std::vector<Seconds> forward, backward_input, backward_weight;  // one, or one a virtual stage
  std::optional<Seconds> fused;                                   // of a forward and a backward in one block
  Seconds hop;                                                    // from rank to rank, beside what bytes take
  std::optional<pipeline::TransferMode> transfers;
  std::optional<Bytes> bytes;               // of activations between two stages
  std::optional<BytesPerSecond> bandwidth;  // between every two ranks
  std::optional<Bytes> activation;          // that a microbatch holds on each virtual stage
  std::optional<double> memory_limit;       // of searched schedules
  pipeline::ActivationMemory memory;
  pipeline::WeightOrder weight_order = pipeline::WeightOrder::OldestFirst;
  std::optional<TopologySpec> topology;  // that transfers go over, in place of hop and bandwidth

  [[nodiscard]] const pipeline::Generator* generator() const { return pipeline::find_generator(schedule); }
};

/// Virtual stages of the model.
/// @pre the schedule is known and its chunks are filled in, or there is an order
[[nodiscard]] int stage_count(const TextbookPipeline& textbook);

[[nodiscard]] pipeline::Costs costs_of(const TextbookPipeline& textbook);

/// The order that is given, or made.
/// @pre check_textbook() found nothing
[[nodiscard]] pipeline::Order order_of(const TextbookPipeline& textbook);

/// Replaces `order: FILE` and `csv: FILE` by the list of lines, one a rank, each with its place in the file.
/// @param pipeline  the block
/// @param from      folder that file names are relative to
void resolve_order(ConfigNode& pipeline, const std::string& from, ConfigErrors& errors);

/// What the file leaves open and other fields decide.
void fill_in(TextbookPipeline& textbook);

/// Counts, times and transfers against each other, an order's soundness, what the schedule accepts.
void check_textbook(const TextbookPipeline& textbook, const ConfigNode& root, ConfigErrors& errors);

}  // namespace syncline
