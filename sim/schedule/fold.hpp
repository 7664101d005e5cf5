// Ranks of one role do the same; where they also meet the same, one of them can stand for all.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace syncline {

/// Which ranks are played, and who stands for whom.
struct Cast {
  std::vector<RankId> played;          // ascending; a *seat* is a position here
  std::vector<std::uint32_t> seat_of;  // by rank: the seat that stands for it

  [[nodiscard]] std::size_t seats() const { return played.size(); }
  [[nodiscard]] bool folded() const { return played.size() < seat_of.size(); }
  /// The rank itself is played.
  [[nodiscard]] bool plays(RankId rank) const { return played[seat_of[rank.value()]] == rank; }
};

/// Everybody plays.
[[nodiscard]] Cast everybody(const Schedule& schedule);

/// The lowest rank of each role plays for all of them. Sound when
/// - no rank has a speed of its own;
/// - all groups of a family that hold ranks of a role hold the same roles in the same order, and those who
/// play for
///   roles that meet in a group are in one group;
/// - ranks of a role exchange along an axis from the same place on it, with ranks of the same role, and
/// players with
///   players.
/// Whether the ranks of a role also stand alike on the fabric is not asked: where they do not, times are
/// near.
/// Then a schedule that is sound for those who play is sound for all.
/// @pre ids are in range, and the ranks of a role are in a group of every family whose collectives it issues
/// @throws std::invalid_argument  naming the first condition that does not hold
[[nodiscard]] Cast one_a_role(const Schedule& schedule);

}  // namespace syncline
