// What one group has of an exchange or a load.
#pragma once

#include <cstdint>
#include <span>

#include "sim/schedule/schedule.hpp"

namespace syncline {

/// An exchange as one group has it.
struct ExchangeView {
  std::size_t members = 0;
  std::size_t node_members = 0;  // 0: `to_nodes` is empty
  std::span<const double> counts, to_nodes;

  [[nodiscard]] double count(std::size_t from, std::size_t to) const { return counts[from * members + to]; }
  [[nodiscard]] std::size_t nodes() const { return node_members == 0 ? 0 : members / node_members; }
  [[nodiscard]] double to_node(std::size_t from, std::size_t node) const {
    return to_nodes[from * nodes() + node];
  }
  /// Of all members, their own included.
  [[nodiscard]] double items() const;
  /// What the member that gets most from others gets.
  [[nodiscard]] double most_received() const;
  /// What members have for others, all together.
  [[nodiscard]] double sent() const;
  /// All members have as much for each other (but for themselves), and for each other node.
  [[nodiscard]] bool alike() const;
  /// The same is sent (a member's own is not).
  [[nodiscard]] bool same_as(const ExchangeView& other) const;
};

/// @pre the exchange is sound (check.hpp)
[[nodiscard]] ExchangeView view_of(const Exchange& exchange, GroupId group);

/// The factors of the members of a group, in order.
/// @pre the load is sound (check.hpp)
[[nodiscard]] std::span<const double> factors_of(const Schedule& schedule, const RankLoad& load,
                                                 GroupId group);
/// Of one rank that is in a group of the load's family.
[[nodiscard]] double factor_of(const Schedule& schedule, const RankLoad& load, RankId rank);

/// Members of all groups of a family.
[[nodiscard]] std::size_t members_of_all(const GroupFamily& family);

}  // namespace syncline
