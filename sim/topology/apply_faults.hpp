// Faults put into a topology: which links they are, what is left of them, and the ways round.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim/topology/faults.hpp"
#include "sim/topology/topology.hpp"

namespace syncline {

/// The links of a fault's part, both ways, ascending: a link or the two of a cable by name, all of a NIC's, a
/// switch's or an accelerator's.
/// @throws std::invalid_argument naming the nearest parts, when there is none of that name
[[nodiscard]] std::vector<LinkId> links_of(const Topology& topology, const Fault& fault);

/// The accelerators that are down.
[[nodiscard]] std::vector<AcceleratorId> accelerators_down(const Topology& topology,
                                                           std::span<const Fault> faults);

/// Degrades the links of the faults given, and routes round those that are down: a route that is whole stays
/// what it was; else traffic goes by a path of fewest links among those left (of equal ones by a hash of the
/// flow), and sprayed traffic is split over all of these. Only what holds from the start counts.
/// @throws std::invalid_argument on a part that is not there, or when accelerators that are not down cannot
/// reach each other
void apply_faults(Topology& topology, std::span<const Fault> faults);

/// The routes at a date: those of apply_faults(), round all that is down from the start or has been for its
/// `reroute`.
/// @param topology  with the faults from the start in it
/// @throws std::invalid_argument as above
[[nodiscard]] std::shared_ptr<const Router> routes_at(const Topology& topology, std::span<const Fault> faults,
                                                      Seconds date);

/// Share of the ordered pairs of these accelerators that do not take their usual route; where there are many,
/// by as many targets of each, drawn at random but always the same.
[[nodiscard]] double share_of_detours(const Router& router, std::span<const AcceleratorId> accelerators);

}  // namespace syncline
