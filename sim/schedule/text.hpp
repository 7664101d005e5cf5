// The text form of a schedule: readable, and read back to the same value; writing it again gives the same bytes.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>

#include "sim/schedule/schedule.hpp"

namespace syncline {

/// First word of every schedule file, by which `run` tells it from a scenario.
inline constexpr std::string_view ScheduleTextHeader = "syncline-schedule 1";

/// Largest schedule file that is read, in bytes; a larger one is refused before it is.
inline constexpr std::size_t LargestScheduleFile = std::size_t{1} << 30;

void write_schedule(std::ostream& out, const Schedule& schedule);
[[nodiscard]] std::string schedule_text(const Schedule& schedule);

/// @param file  name for error messages
/// @throws InputError with line and column of everything that is wrong
[[nodiscard]] Schedule read_schedule(std::string_view text, const std::string& file);

}  // namespace syncline
