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

/// Ranks of a role are alike unless a load or an exchange that its program uses tells them apart: by their place in
/// their group where its members do not all have the same, and by what their group has. (So groups whose members have
/// the same, place by place, stand for each other.) The lowest rank of those that are alike plays for all of them. Sound when
/// - no rank has a speed of its own;
/// - all groups of a family that hold one of them hold their like in the same order, and those who play for members
///   of a group are in one group;
/// - ranks that are alike send and receive along an axis from the same place on it, to and from ranks that are alike,
///   and players to and from players.
/// Whether they also stand alike on the fabric is not asked: where they do not, times are near.
/// Then a schedule that is sound for those who play is sound for all.
/// @pre ids are in range, exchanges and loads have the size of their family, and the ranks of a role are in a group of
///      every family that its program names
/// @throws std::invalid_argument  naming the first condition that does not hold
[[nodiscard]] Cast one_a_role(const Schedule& schedule);

}  // namespace syncline
