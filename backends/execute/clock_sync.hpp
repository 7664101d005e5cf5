// How far the clocks of ranks are apart.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/execute/world.hpp"
#include "sim/core/quantity.hpp"

namespace syncline {

/// A rank's clock against that of rank 0.
struct ClockOffset {
  Seconds offset;  // to be taken from the rank's times
  Seconds error;   // at most
  Seconds at;      // when it was measured, on the rank's clock
};

/// One message to a rank and back: when it left and came back by rank 0's clock, and the rank's clock in between.
struct Ping {
  Seconds sent, there, back;
};

/// By every ping, a rank's clock shows `there` between `sent` and `back` of ours: what all of them leave open (after Cristian,
/// Probabilistic clock synchronization, Distributed Computing 3, 1989).
/// @pre at least one ping
[[nodiscard]] ClockOffset offset_of(std::span<const Ping> pings);

/// All ranks call it together. At rank 0: the offsets by rank; elsewhere nothing.
/// @param clock  ranks that give the same have one clock: nothing is measured, and nothing is off
[[nodiscard]] std::vector<ClockOffset> measure_offsets(World& world, const std::string& clock,
                                                       const std::function<Seconds()>& now);

/// A time of a rank on rank 0's clock, when its offset drifts evenly between two measurements.
[[nodiscard]] Seconds on_rank_0(Seconds time, const ClockOffset& before, const ClockOffset& after);

}  // namespace syncline
