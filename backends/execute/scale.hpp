// A schedule with less to do, or more.
#pragma once

#include "sim/schedule/schedule.hpp"

namespace syncline {

/// Every op's work times `factor`, so that a schedule made for accelerators can be executed by processors:
/// rows m of products (at least one), query rows of attention, FLOP, bytes of memory traffic and of
/// messages, fixed times, and the job's tokens and FLOP. What ops hold in memory stays as it is.
/// @param factor  above 0
[[nodiscard]] Schedule scaled(Schedule schedule, double factor);

}  // namespace syncline
