// Orders and times that the original projects produced when run: the reference of the pipeline's tests.
//
// A folder holds `orders*.jsonl` (an order a line), `replay*.csv` (durations and what came of them, a row
// each) and `torch-csv.jsonl` (PyTorch's schedule files). The compact copy in validation/pipeline is always
// there; the whole set is read where it lies beside the project.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/pipeline/generator.hpp"
#include "sim/pipeline/order.hpp"
#include "sim/pipeline/replay.hpp"

namespace syncline::pipeline::testing {

struct PublishedOrder {
  std::string id;        // "zb-h1.zero-bubble_zbpp_light.p4.m8.v1"
  std::string schedule;  // as the data names it: "zb-1p", "zb-2p", "dualpipev", ...
  std::string source;    // "pytorch", "megatron-lm", "dualpipe", "zero-bubble", "zero-bubble/vpp", ...
  int p = 0, m = 0, v = 0;
  std::optional<int> group_size{};           // N, of Megatron's interleaved 1F1B
  std::optional<ActivationMemory> memory{};  // of the searched schedules
  std::optional<double> memory_limit{};      // in units of memory.forward; empty: none
  std::optional<Costs> costs{};              // what the generator was given, where the order depends on it
  std::optional<double> best_span{};         // of zb-ilp: the proven optimum of the longest span of a rank
  std::vector<std::string> text;             // by rank
  Order order;                               // the same, parsed
};

struct PublishedReplay {
  std::string id;         // of its order
  std::size_t order = 0;  // position in Published::orders
  Costs costs;
  double makespan = 0, bubble_fraction = 0, max_rank_span = 0;
  std::vector<double> busy, internal_idle;                            // by rank
  std::vector<int> peak_activations, peak_activations_free_at_input;  // by rank
};

struct PublishedTorchCsv {
  std::string id, schedule;
  int p = 0, m = 0, v = 0;
  std::string compute_only, compute_comms;  // texts of the files
};

struct Published {
  std::vector<PublishedOrder> orders;
  std::vector<PublishedReplay> replays;
  std::vector<PublishedTorchCsv> torch_csvs;
};

/// validation/pipeline of the project.
[[nodiscard]] std::string compact_folder();
/// The whole set, in shared/data/pipeline beside the project; may be absent.
[[nodiscard]] std::string whole_folder();

/// @returns nothing when there is no such folder
/// @throws std::runtime_error  naming file and line, when a file there is not as expected
[[nodiscard]] std::optional<Published> load_published(const std::string& folder);

/// The compact copy, and the whole set where it is: what most tests walk over.
[[nodiscard]] std::vector<Published> all_published();

}  // namespace syncline::pipeline::testing
