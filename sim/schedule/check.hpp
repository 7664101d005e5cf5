// Checks of a schedule before any run.
#pragma once

#include <string>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace syncline {

/// Everything that is wrong with a schedule, each a sentence for the user; empty when it is sound:
/// - ids in range, `after` and host waits name earlier ops, sizes finite and not negative;
/// - exchanges and loads have the size of the groups they are used in; only all-to-all has an exchange, only compute
///   a load; what is for a node, each item once, lies between what the member that wants most wants, and all want;
/// - every send has its receive, with the same bytes, in the same order;
/// - members of a group issue the same collectives of that family in the same order with the same bytes and exchange,
///   per stream;
/// - no deadlock: the streams, `after`, host waits and rendezvous are played through without times; when no op can
///   move, the report says who waits for whom, in order, round the cycle.
/// @param fold  where one rank can stand for all of its role (fold.hpp), only those are followed: the others do alike
[[nodiscard]] std::vector<std::string> check_schedule(const Schedule& schedule, bool fold = false);

}  // namespace syncline
