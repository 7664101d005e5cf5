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
/// - a rank's peers play the roles that its player's peers play, and those peers are players themselves.
/// Whether the ranks of a role also stand alike on the fabric is not asked: where they do not, times are
/// near.
/// @pre check_schedule() finds nothing wrong
/// @throws std::invalid_argument  naming the first condition that does not hold
[[nodiscard]] Cast one_a_role(const Schedule& schedule);

}  // namespace syncline
