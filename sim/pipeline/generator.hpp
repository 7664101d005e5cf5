// The pipeline schedules by name: what each accepts, and the order it makes.
//
// Adding one means one source file with its `Order make(const Request&)`, and one line in generators.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/pipeline/order.hpp"
#include "sim/pipeline/replay.hpp"

namespace syncline::pipeline {

/// What a microbatch holds on a rank, per chunk, in units of one's own choice: `forward` from the start of F;
/// `backward_input` is added when I ends, `backward_weight` when W ends (both normally below zero; the three
/// sum to zero). A whole backward adds both.
struct ActivationMemory {
  double forward = 2, backward_input = -1, backward_weight = -1;
};

/// Order in which held-back weight gradients are computed.
enum class WeightOrder : std::uint8_t { OldestFirst, NewestFirst };

/// What is asked of a generator. Zeros and empty optionals take the schedule's own default.
struct Request {
  int ranks = 1;         // p
  int microbatches = 1;  // m
  int chunks = 0;        // v, virtual stages a rank
  int group_size = 0;    // N: microbatches that pass one chunk before the next has its turn (interleaved)
  Costs costs{};         // costs.stages has as many entries as the schedule has stages; empty: F = B = W = 1
  ActivationMemory memory{};
  std::optional<double>
      memory_limit{};  // most a rank may hold, in units of memory.forward (searched schedules)
  WeightOrder weight_order = WeightOrder::OldestFirst;  // of ZB-H1 and ZB-H2
  /// In the steady phase a forward and the backward after it are one block, so that either can hide what the other
  /// communicates. Neither waits for the other then: one more forward is in the warm-up, and 1F1B has one rank's two more
  /// than the next's, as interleaved 1F1B has (Megatron-LM, overlap_moe_expert_parallel_comm).
  bool paired = false;
  bool merge_backward = true;  // of ZB-H1 and ZB-H2: outside the ends, I and its W are one whole backward
};

/// Where virtual stages lie. Loop: rank r holds r, r + p, …; V: r and 2p − 1 − r; Both: r going one way, p −
/// 1 − r going the other, each with half of the microbatches.
enum class Placement : std::uint8_t { Loop, V, Both };

struct Generator {
  std::string_view name;     // "zb-h1"
  std::string_view title;    // "ZB-H1"
  std::string_view summary;  // one line
  std::string_view accepts;  // in words: "any p; m ≥ p"
  std::string_view source;   // paper or project
  Placement placement = Placement::Loop;
  int default_chunks = 1, least_chunks = 1, most_chunks = 1;
  bool searched = false;  // the order depends on the times
  bool takes_group_size = false;
  bool takes_weight_order = false;
  bool takes_paired = false;
  bool fuses = false;  // has blocks of a forward and a backward
  /// Why it cannot be made, with the nearest that can ("needs m ≥ 2p − 1 = 7, not 4; try --microbatches 7");
  /// nothing when it can. Called after the common checks (positive counts, chunks in range).
  std::optional<std::string> (*refuse)(const Request&) = nullptr;
  Order (*make)(const Request&) = nullptr;
};

/// All of them, in the order of `syncline pipeline --list`.
[[nodiscard]] std::span<const Generator> generators();
/// nullptr when there is none of that name.
[[nodiscard]] const Generator* find_generator(std::string_view name);
[[nodiscard]] std::vector<std::string> generator_names();

/// Virtual stages of the model: p · v, or p where two directions share them.
/// @pre refusal() finds nothing
[[nodiscard]] int stage_count(const Generator& generator, int ranks, int chunks);

/// The rank that holds a virtual stage; of Both, going the first way.
[[nodiscard]] int rank_of_stage(Placement placement, int ranks, int stage);

/// Actions that the order has at most, each backward being in two halves. Holds of counts of any size.
[[nodiscard]] double most_actions(const Generator& generator, const Request& request);

/// The request with defaults filled in (chunks, times of 1).
/// @pre refusal() finds nothing
[[nodiscard]] Request completed(const Generator& generator, Request request);

/// Why the generator does not accept the request, and the nearest that it does; nothing when it does.
[[nodiscard]] std::optional<std::string> refusal(const Generator& generator, const Request& request);

/// @throws std::invalid_argument with the reason and the nearest that works, when the generator does not
/// accept it
[[nodiscard]] Order make_order(const Generator& generator, const Request& request);

}  // namespace syncline::pipeline
