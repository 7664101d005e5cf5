// Schedules that use every field of the format, for round trips. They are well-formed, not sound: sends need
// not meet.
#pragma once

#include <cstdint>

#include "sim/schedule/schedule.hpp"

namespace syncline::test {

[[nodiscard]] Schedule random_schedule(std::uint64_t seed);

}  // namespace syncline::test
