// Two timelines over each other, as a page for a browser.
#pragma once

#include <cstddef>
#include <string>

#include "sim/compare/comparison.hpp"
#include "sim/compare/comparison_text.hpp"

namespace syncline::compare {

inline constexpr std::size_t MostDrawn =
    200'000;  // spans on a page; ranks beyond are left out, which it says

/// One HTML file that needs nothing else: on one time axis a row for each rank and stream, A above B in it. The pointer
/// shows an op and its times in both; the wheel zooms, dragging moves. Equal comparisons give equal bytes.
[[nodiscard]] std::string comparison_page(const Comparison& comparison, const TextOptions& options);

}  // namespace syncline::compare
