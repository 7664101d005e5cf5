// Timelines as Chrome Trace Event JSON, which Perfetto opens; docs/trace-format.md has every field.
//
// A process is a rank, a thread one of its streams (the last one is its host), times are microseconds. All times are
// rounded to one decimal grid, at least 10^13 steps from 0 to the end of the timeline, so that spans which do not
// overlap in the timeline do not in the file either.
#pragma once

#include <string>

#include "sim/timeline/timeline.hpp"

namespace syncline {

/// Compressed by gzip when the name ends in `.gz`. Equal timelines give equal bytes.
/// @throws EnvironmentError when the file cannot be written to its end
void write_trace(const std::string& path, const Timeline& timeline);

/// Reads what write_trace wrote, compressed or not: the same timeline, times to 1e-13 of its end, and ops that never
/// ran left out of the table's end. Writing it again gives the same bytes.
/// @throws InputError with line and column when the file is missing, broken or not such a trace
[[nodiscard]] Timeline read_trace(const std::string& path);

}  // namespace syncline
