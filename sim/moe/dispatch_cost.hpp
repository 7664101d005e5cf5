// What dispatch and combine of a layer of experts cost with a communication library of their own: how many
// copies of a token travel which way, and the time of a call.
//
// Nothing here knows of files or of tables of measurements; figures of libraries stand in libraries/experts/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/quantity.hpp"

namespace syncline::moe {

// --- copies of a token ---

/// How the copies of a token travel to its experts. Combine goes the same way back.
enum class Travel {
  TwoHop,   // once to each node, from there once to each rank (deepseek-ai/DeepEP, normal kernels)
  PerRank,  // once to each rank (TensorRT-LLM, NVLink one-sided and two-sided)
  Direct,   // once for each expert (DeepEP, low-latency kernels; perplexityai/pplx-kernels)
  Padded,   // every expert's room for every token is sent (all_to_all of a padded tensor)
};

/// Where the experts of a layer are, and how tokens choose among them.
struct DispatchShape {
  int ranks = 1, nodes = 1;  // R, N: of the group, N divides R
  int experts = 1;           // E, divisible by R
  int top_k = 1;             // k
  int top_nodes = 0;         // a token's experts are on at most so many nodes, those of its best; 0: no limit
  bool round_robin = false;  // token i chooses k neighbouring ranks, in turn; else k experts at random

  friend bool operator==(const DispatchShape&, const DispatchShape&) = default;
};

/// Expected copies of a token, by the way they travel.
struct TokenCopies {
  double ranks = 0;    // that a rank writes or reads, the one to itself among them
  double nodes = 0;    // that cross or would cross between nodes, the one to its own node among them
  double inside = 0;   // over scale-up links, to other ranks
  double between = 0;  // over the network, to other nodes
};

/// TwoHop and PerRank: of k experts out of E at random the expected number of different ranks is
/// R(1 − C(E−E/R, k)/C(E, k)), of nodes likewise. With a limit of n nodes, as DeepEP's test chooses them
/// (tests/test_internode.py: the n nodes with the best expert each, then the k best experts there): experts in the
/// order of their scores are taken one after another, but of nodes after the n-th that appears none. So a token is on
/// min(n, nodes of k experts at random).
/// @throws std::logic_error when R does not divide E, N not R, or k is more than there are to choose from
[[nodiscard]] TokenCopies expected_copies(Travel travel, const DispatchShape& shape);

// --- the time of a call ---

/// What shares the work of moving copies.
enum class Lanes {
  None,   // not a bound
  Sms,    // the SMs a kernel is given
  Peers,  // one lane a rank
};

/// A rate between nodes by how many there are.
struct NodeRate {
  int nodes = 2;
  BytesPerSecond rate;
};

/// Figures of one operation of one kernel, as fitted to measurements.
struct DispatchFigures {
  Seconds call;    // of a call among the ranks of one node
  Seconds far;     // more, once there are other nodes
  Seconds rank;    // for each other rank
  Seconds node;    // for each other node
  Seconds expert;  // for each expert of the layer: counters, and kernels that go over all of them
  Seconds token;   // for each token of a rank: reading its choices
  Seconds copy;    // for each copy, in a lane
  std::optional<BytesPerSecond> lane;    // bytes of copies through one lane
  std::optional<BytesPerSecond> inside;  // bytes between ranks of a node, of one rank and direction
  std::vector<NodeRate> between;  // bytes between nodes, of one rank and direction; by nodes, ascending
};

/// What the busiest rank has to do in one call.
struct DispatchLoad {
  int ranks = 1, nodes = 1;
  double experts = 1;
  double tokens = 0;      // that it has chosen experts for
  double copies = 0;      // that it writes or reads, those to itself among them
  Bytes moved;            // of those copies
  Bytes inside, between;  // of them over scale-up links, and over the network
  double lanes = 0;       // SMs, or ranks; 0: not a bound
};

/// @param copy  bytes of a token on its way, scales included
[[nodiscard]] DispatchLoad load_of(const TokenCopies& copies, const DispatchShape& shape, double tokens,
                                   Bytes copy, double lanes);

struct DispatchTime {
  Seconds latency;  // of a call in which nothing is sent
  Seconds bytes;    // more for what is sent
  [[nodiscard]] Seconds total() const { return latency + bytes; }
};

/// latency = call + far·[N > 1] + rank·(R−1) + node·(N−1) + expert·E
/// bytes   = token·T + (i³ + b³ + l³)^(1/3), of
///           i = inside / rate, b = between / rate, l = (copies·copy + moved / lane) / lanes:
/// the three go on at once, and where two take as long they delay one another.
/// A rate between nodes is interpolated over log N, and stays what it is beyond the measured numbers.
[[nodiscard]] DispatchTime dispatch_time(const DispatchFigures& figures, const DispatchLoad& load);

[[nodiscard]] BytesPerSecond rate_between(const std::vector<NodeRate>& rates, int nodes);

}  // namespace syncline::moe
