// Collectives that go in rounds: in each, pairs of members exchange side by side; a round begins when the one before it
// is over. Several tracks of rounds may run at the same time, each with its part of the buffer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"
#include "sim/topology/topology.hpp"

namespace syncline {

/// From one member to another, `share` of the buffer S.
struct Flow {
  std::uint32_t from = 0, to = 0;  // group positions
  double share = 0;
  friend bool operator==(const Flow&, const Flow&) = default;
};

/// Flows side by side; `repeat` times one after another, each with that part of their shares (a ring of n members: n − 1).
struct Round {
  std::vector<Flow> flows;
  int repeat = 1;
};
using Track = std::vector<Round>;
/// The same in the opposite direction, last round first: a reduction of what is gathered, a broadcast backwards.
[[nodiscard]] Track reversed(const Track& track);

/// A torus, or a box of one, that members fill, each place once.
struct TorusBox {
  std::vector<std::uint32_t> extent;
  bool wrapped = true;  // in every dimension: the two ends are neighbours
  std::vector<std::uint32_t>
      position_of{};  // by vertex of the box, first dimension fastest: the member there

  [[nodiscard]] std::uint32_t count() const;
};
/// The box that the members fill in one torus; nothing when they do not.
[[nodiscard]] std::optional<TorusBox> torus_box(std::span<const AcceleratorId> members,
                                                const Topology& topology);

/// Positions of the members, node by node in the order in which the nodes appear.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> positions_by_node(
    std::span<const AcceleratorId> members, const Topology& topology);

/// How a group lies on the cluster, so far as rounds want to know.
struct Layout {
  std::size_t members = 0;
  std::vector<std::vector<std::uint32_t>> nodes;  // positions, node by node
  std::optional<TorusBox> box;

  [[nodiscard]] bool equal_nodes() const;              // as many members on each
  [[nodiscard]] bool like(const Layout& other) const;  // so that rounds of the one are as those of the other
};
[[nodiscard]] Layout layout_of(std::span<const AcceleratorId> members, const Topology& topology);

/// Whether the algorithm goes in rounds for this kind (else it is one of collective.hpp's patterns).
[[nodiscard]] bool goes_in_rounds(CollectiveKind kind, Algorithm algorithm);

/// - Recursive: all-reduce by halving and doubling (2 log2 n rounds of S/2, S/4, ..., and back; where n is no power of two
///   the rest hands over to neighbours before and takes back after), all-gather and reduce-scatter its halves; broadcast,
///   reduce, scatter and gather by a binomial tree (Thakur, Rabenseifner and Gropp, Int. J. High Perf. Comput. Appl. 19, 2005).
/// - Direct: scatter, gather and reduce: all from or to the first member at once.
/// - Pairwise: all-to-all in n − 1 rounds, in round r each member sends S/n to the one r places on (the same).
/// - Hierarchical: reduce-scatter inside every node, all-reduce among members of equal index across nodes (so on their own
///   rail), all-gather inside; all-gather and reduce-scatter its halves; broadcast: parts to all of the root's node,
///   binomial trees across, all-gather inside; all-to-all: as two-hop. Rings throughout: 2 (g−1)/g S inside a node of g and
///   2 (k−1)/k S/g out of each member with k nodes.
/// - Bucket: all-reduce, all-gather, reduce-scatter along one dimension of a torus after another, in 2d tracks that begin
///   with different dimensions and run both ways, so that all links work at once: 2 (N−1)/N S over 2d links of a member,
///   after Σ 2 (n_i − 1) hops (Jain and Sabharwal, ICS 2010; Rashidi et al., Themis, ISCA 2022, in one order a track).
/// - TwoHop: all-to-all across nodes to the peer of equal index, for all of its node, then inside (DeepEP's order;
///   github.com/deepseek-ai/DeepEP, 2025).
/// @pre goes_in_rounds(), and refusal_of() (collective.hpp) finds nothing
[[nodiscard]] std::vector<Track> rounds_of(CollectiveKind kind, Algorithm algorithm, const Layout& layout);

}  // namespace syncline
