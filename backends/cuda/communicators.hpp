// Which communicators NCCL makes, and in which order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/execute/rank_program.hpp"

namespace syncline::cuda {

/// Ranks that have a communicator of their own: a channel, or a wire's two ends.
struct CommunicatorGroup {
  enum class Of : std::uint8_t { Channel, Wire } of = Of::Channel;
  std::uint32_t number = 0;     // Channel::number, Wire::number
  std::vector<RankId> members;  // by position; of a wire the sender, then the receiver
  friend bool operator==(const CommunicatorGroup&, const CommunicatorGroup&) = default;
};

/// Groups without a common rank: one call of ncclCommSplit of all ranks makes them, the place in the list
/// being the color.
using SplitRound = std::vector<CommunicatorGroup>;

/// All channels by number, then all wires by number, each in the first round that it fits in. The same on all
/// ranks, since all compute it from the programs of all.
[[nodiscard]] std::vector<SplitRound> split_rounds(std::span<const RankProgram> programs);

/// How many communication kernels of a rank can run at once: its streams that communicate, and its wires with
/// eager sends, which are sent by a stream of their own.
[[nodiscard]] int concurrent_kernels(const RankProgram& program);

/// Blocks that a communicator's kernels may have (maxCTAs), so that all that run at once find room together:
/// NCCL's kernels wait for each other across ranks, and one that finds no room while another waits for it is
/// a deadlock. A block a multiprocessor; a power of two, to which NCCL would raise those of sends and receives.
/// NCCL itself caps what is too many for it.
[[nodiscard]] int blocks_each(int multiprocessors, int kernels);

/// NCCL matches the sends and receives of a communicator by their order alone.
/// @throws InputError  naming a wire whose ends have their messages in different orders
void require_same_order(std::span<const RankProgram> programs);

}  // namespace syncline::cuda
