// All-to-all-v: the rounds in which members of a group give each other as many items as an exchange says.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/collective/collective.hpp"
#include "sim/schedule/exchange.hpp"

namespace syncline {

/// Those that carry out an exchange.
[[nodiscard]] std::span<const Algorithm> exchange_algorithms();
/// Why the algorithm cannot carry out the exchange in such a group; nothing when it can.
[[nodiscard]] std::optional<std::string> exchange_refusal_of(Algorithm algorithm,
                                                             const ExchangeView& exchange,
                                                             const Layout& layout);
/// Whether its rounds depend on how the group lies on the cluster.
[[nodiscard]] bool goes_by_layout(Algorithm algorithm, const ExchangeView& exchange);

/// One track, in shares of S, what a member sends in the mean: an item is n / all items of it. What nobody wants is not
/// sent, and rounds without any are left out: the track may be empty.
/// - Direct: all pairs at once.
/// - Pairwise: n − 1 rounds, in round r each member sends to the one r places on.
/// - TwoHop, Hierarchical: across to the member at the own place on each other node, then inside the node from there, and
///   from the sender to its own node. Across goes every copy, by the nodes of the cluster; where the exchange has
///   `to_nodes`, every item once, by its own nodes.
/// @param back  every flow the other way and the last round first
/// @pre exchange_refusal_of() finds nothing
[[nodiscard]] std::vector<Track> exchange_rounds(Algorithm algorithm, const ExchangeView& exchange, bool back,
                                                 const Layout& layout);

/// The same as a plan.
[[nodiscard]] CollectivePlan plan_exchange(Algorithm algorithm, Bytes bytes, const ExchangeView& exchange,
                                           bool back, const Layout& layout);

}  // namespace syncline
