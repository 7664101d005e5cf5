// What a searched schedule is to solve, in the form that all searches share.
//
// A microbatch walks a path of 2 · stages steps: forward through stage 0 … stages − 1, then the input
// gradients back. Step q needs step q − 1 of the same microbatch, which hops when the two lie on different
// ranks. Microbatches walk in their order. Each input gradient leaves a weight gradient to its rank, done
// there at any later time.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/pipeline/generator.hpp"

namespace syncline::pipeline::search {

/// Relative difference below which times and memory count as equal.
constexpr double Rounding = 1e-9;

/// Times are in seconds, memory in the request's units.
struct Task {
  struct Step {
    int stage = 0, rank = 0;
    bool backward = false;
    double time = 0;    // of the step itself
    double weight = 0;  // of the weight gradient it leaves, if backward
    double hop = 0;     // from the step before
  };
  int ranks = 0, stages = 0, microbatches = 0;
  ActivationMemory memory{};
  double limit = std::numeric_limits<double>::infinity();  // a rank may hold
  std::vector<Step> path;

  [[nodiscard]] int forward(int stage) const { return stage; }
  [[nodiscard]] int backward(int stage) const { return 2 * stages - 1 - stage; }
  /// Whether a rank may hold this much.
  [[nodiscard]] bool within(double held) const { return held <= limit + Rounding * memory.forward; }
};

/// @param limit  in units of memory.forward; empty: none
[[nodiscard]] Task make_task(const Request& request, Placement placement, std::optional<double> limit);

/// No order is shorter: each rank does all its work after its first forward can come, and the last gradient
/// that leaves it has the rest of its path to go [s].
[[nodiscard]] double least_makespan(const Task& task);

/// Why a memory limit cannot be kept: not even by one microbatch at a time, the least any order needs.
/// @param chunks  stages a rank; its own are all held by a microbatch between its forward and its backward
[[nodiscard]] std::optional<std::string> refuse_memory(const Request& request, int chunks);

/// What the searches compare.
struct Score {
  double makespan = 0;
  double span = 0;  // longest from first start to last end of a rank: the time of the zero-bubble papers
  double peak = 0;  // most memory held by a rank
};

/// Less by makespan, then span, then peak; differences within rounding count as none.
[[nodiscard]] bool better(const Score& a, const Score& b);

}  // namespace syncline::pipeline::search
