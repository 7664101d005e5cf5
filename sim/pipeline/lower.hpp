// An order as a schedule: the program of every pipeline rank, with its sends and receives.
//
// What an action consists of is the caller's affair: one kernel of a given time, or the ops of transformer
// layers with collectives between them. The lowering puts the actions in order, moves activations and
// gradients between ranks, and tells which op waits for which.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/parallel/mesh.hpp"
#include "sim/pipeline/order.hpp"
#include "sim/pipeline/replay.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline::pipeline {

/// How activations and gradients go from rank to rank.
///   Eager:      as in textbooks: a message arrives a latency (and its bytes over the bandwidth) after its
///               producer ended, and holds nobody up.
///   Overlapped: sends and receives have streams of their own, one for each neighbour and direction, beside
///               compute; each pair moves when both ends have come (rendezvous). A receive is posted one
///               block ahead of its use, or earlier where a later one of the same neighbour needs it.
///   Blocking:   compute stands still until the sends and receives between two blocks are over, as in
///               runtimes that exchange with both neighbours in one call. Sender and receiver meet where they
///               come at about the same time (transfers.cpp), so that no order can deadlock by this.
enum class TransferMode : std::uint8_t { Eager, Overlapped, Blocking };
[[nodiscard]] std::string_view name_of(TransferMode mode);  // "eager"

/// Streams that steps run in; sends and receives have others. "compute", "tp", "cp", "ep", "dp-gather",
/// "dp-reduce".
enum class StepStream : std::uint8_t { Compute, Tensor, Context, Expert, Gather, Reduce };

/// One op of a block. Steps of a block run one after another, whatever their streams, but for those that are
/// not awaited, those beside, and those of a block's second action where Lowering::apart.
struct Step {
  std::variant<Compute, Collective> body;
  StepStream stream = StepStream::Compute;
  Tag tag;                 // phase, layer and name; the lowering adds microbatch and chunk,
  bool of_second = false;  // of the block's second action where it has two
  bool awaited = true;     // false: the next step does not need it, the one after that does
  bool beside = false;     // follows the step before, but only the rank's update waits for it
  int gives = -1;          // a number, of the rank, by which later steps
  int needs = -1;          // ... wait for this one; -1: none
  std::vector<MemoryEffect> memory;
  std::optional<LoadId> load{};  // as of an op
  bool host_waits = false;       // the host issues it only when what it stands after has ended
};

struct Lowering {
  std::string name;
  Mesh mesh;                          // one axis is "pp", as long as the order has ranks
  std::vector<Mesh> more_meshes{};    // of the same ranks
  std::vector<GroupFamily> families;  // that steps' collectives name
  std::vector<Work> works;
  std::vector<Exchange> exchanges{};
  std::vector<RankLoad> loads{};
  std::vector<std::string> libraries{};
  bool apart = false;  // in a fused block the steps of either action wait for their own alone
  TransferMode transfers = TransferMode::Eager;
  Bytes boundary;  // activations of a microbatch between two stages; their gradient has as many
  Costs costs;     // approximate times, to tell in blocking mode where a sender acts

  /// What a pipeline rank does in the beginning, each step as soon as its stream allows. May be empty.
  std::function<std::vector<Step>(int rank)> begin{};
  /// What a block does; at least one step. Valid until the next call.
  std::function<std::span<const Step>(int rank, const Block&)> steps;
  /// What follows the last gradient of a stage's weights, beside compute or, unless `overlap_reduction`,
  /// after the last block of the rank. May be empty, as may the next.
  std::function<std::vector<Step>(int rank, int stage)> reduction;
  bool overlap_reduction = true;
  /// Pairs (a, b) of stages on one rank: a's gradients are complete only when b's are too (a table used by
  /// both).
  std::vector<std::pair<int, int>> complete_with{};
  /// What a pipeline rank does in the end, after its reductions.
  std::function<std::vector<Step>(int rank)> update;
  std::vector<std::vector<MemoryEffect>> resident;  // by pipeline rank; may be empty
};

/// One role a pipeline rank. The first op of role r that belongs to block i of the order is `first_op[r][i]`.
struct Lowered {
  Schedule schedule;
  std::vector<std::vector<OpIndex>> first_op,
      last_op;  // by pipeline rank and block; sends and receives not counted
};

/// @pre check_order() finds nothing wrong and deadlock() is empty
[[nodiscard]] Lowered lower(const Order& order, const Lowering& lowering);

/// A textbook pipeline: one compute op of fixed time a block.
/// @param boundary    of activations between two stages; their gradient has as many
/// @param activation  what a microbatch holds on each virtual stage, from the start of F to the end of B or W
[[nodiscard]] Lowered lower_textbook(const Order& order, const Costs& costs, TransferMode transfers,
                                     Bytes boundary, Bytes activation = {});

}  // namespace syncline::pipeline
