// What goes from rank to rank in an order, and where each receive is posted.
#pragma once

#include <vector>

#include "sim/pipeline/action_table.hpp"
#include "sim/pipeline/lower.hpp"

namespace syncline::pipeline {

/// The activation or the gradient of a microbatch on its way between two stages.
struct Transfer {
  Where from, to;  // the block that makes it and the one that needs it; on different ranks
  bool gradient = false;
  int stage = 0;  // that makes it
  int microbatch = 0;
  int message = 0;        // matches send and receive
  std::int32_t sent = 0;  // the send stands behind this block of the sending rank: `from`, or a later one
  std::int32_t posted =
      0;  // the receive stands before this block of the receiving rank: `to`, or an earlier one
};

/// All of them, in the order in which each rank makes them, rank after rank.
[[nodiscard]] std::vector<Transfer> transfers_of(const Order& order, TransferMode mode, const Costs& costs);

}  // namespace syncline::pipeline
