// A timeline as a picture for the terminal.
#pragma once

#include <cstddef>
#include <string>

#include "sim/timeline/timeline.hpp"

namespace syncline {

struct GanttOptions {
  int columns = 100;           // width of each row, at least 40
  bool colour = false;         // ANSI colours too; the glyphs alone tell everything
  std::size_t most_ranks = 8;  // ranks drawn, from rank 0; the picture says when there are more
};

/// One row a rank and stream, and one for a host that works; each of exactly `columns` characters; the time
/// axis, which is the whole step, and the legend below. A cell shows what took most of its time, idle
/// included, but communication also when it took less: lower, and from a hundredth on. Layer numbers stand
/// where an op is wide enough.
/// @throws std::invalid_argument when `columns` is below 40
[[nodiscard]] std::string gantt(const Timeline& timeline, const GanttOptions& options);

}  // namespace syncline
