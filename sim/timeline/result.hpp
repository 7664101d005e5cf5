// What a run gives: the timeline, memory by rank, load by link, and what was chosen on the way.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/timeline/timeline.hpp"
#include "sim/topology/faults.hpp"

namespace syncline {

using MemoryByCategory = std::array<Bytes, MemoryCategoryCount>;

/// Memory of one rank over the run.
struct RankMemory {
  Bytes peak;
  Seconds peak_time;
  std::uint32_t peak_op = 0;   // position in Timeline::ops of the op whose start made the peak
  bool peak_at_start = false;  // the peak is what is resident before the first op
  MemoryByCategory at_peak{};
  MemoryByCategory least{};            // 0, or below by how much more than was held has been given back
  bool out_of_memory = false;          // above the device's capacity
  std::uint32_t out_of_memory_op = 0;  // the first op that did not fit
};

struct LinkLoad {
  LinkId link;
  Bytes carried;
};

/// Which algorithm a collective got: nothing is chosen silently. One entry for each kind, family, size and group size.
struct CollectiveChoice {
  CollectiveKind kind;
  std::string family;
  Bytes bytes;
  std::size_t group_size = 0;
  Algorithm algorithm = Algorithm::Ring;
  int channels = 1;                 // most of any group
  std::uint64_t count = 0;          // instances in the run, all groups together
  Bytes bytes_between_nodes;        // of one instance: the most of any group
  Bytes total_bytes_between_nodes;  // of all instances
  std::size_t nodes_spanned = 0;    // by one group: the most
  std::string protocol{};           // as the topology's figures name it; empty where it has none
  bool by_counts = false;  // all-to-all-v: exchanges of this size together; `bytes` is the mean of a member
  double imbalance = 1;    // then: what the member that gets most gets, over the mean: the most of any
};

/// What one of the cluster's faults was in this run.
struct FaultEffect {
  Fault fault;
  std::optional<RankId> rank;  // on a slow accelerator
  std::size_t links = 0;       // that are down or narrower by it
  std::size_t rerouted = 0;    // transfers that were under way and went on by other links
};

struct EngineStatistics {
  std::string name;   // "simgrid 3.32, fluid network"
  double wall_s = 0;  // wall-clock; not part of deterministic output
  std::uint64_t events = 0;
  std::uint64_t flows = 0;
};

struct RunResult {
  Seconds step_time;  // first start to last end
  Timeline timeline;  // spans of the ranks that were played
  /// Of a folded run, by rank: the rank of its role that was played for it. Empty: every rank was played. All but the
  /// timeline is of the whole job.
  std::vector<RankId> player_of;
  std::vector<RankMemory> memory;  // by rank
  std::vector<LinkLoad> links;     // links that carried something, by id
  std::vector<CollectiveChoice> collectives;
  std::vector<FaultEffect> faults;  // of the cluster, in their order
  double detours = 0;  // share of the pairs of ranks that do not talk by their usual route, at the end
  std::size_t ranks_moved = 0;  // that are not on the accelerator of their number
  Bytes bytes_sent;  // by all members of all collectives and all senders, from one accelerator to another
  EngineStatistics engine;
};

}  // namespace syncline
