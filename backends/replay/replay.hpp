// The meaning of a schedule, played on a network: streams, events, rendezvous, the host's issuing,
// interference and memory (docs/semantics.md). Knows nothing of the engine underneath.
#pragma once

#include "backends/backend.hpp"
#include "sim/network/network.hpp"
#include "sim/schedule/fold.hpp"

namespace syncline {

/// @param cast     who is played; in aggregate detail only, unless everybody is
/// @param timeline  false: the result's is left empty
/// @param network  with the capacities of the cluster's links; its clock at 0
/// @returns everything but engine.name and engine.wall_s
/// @throws std::invalid_argument  more ranks than places, or a kernel the device has no figure for
/// @throws std::logic_error       the schedule came to a halt, which check_schedule() should have foreseen
[[nodiscard]] RunResult replay(const Schedule& schedule, const Cluster& cluster, const Cast& cast,
                               Detail detail, Network& network, bool timeline = true);
/// Everybody is played.
[[nodiscard]] RunResult replay(const Schedule& schedule, const Cluster& cluster, Detail detail,
                               Network& network);

/// The capacities to build a network with.
[[nodiscard]] std::vector<BytesPerSecond> link_capacities(const Topology& topology);

}  // namespace syncline
