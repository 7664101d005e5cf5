// Where an axis has its ticks.
#pragma once

#include <string>
#include <vector>

namespace syncline::plot {

struct Range {
  double low = 0, high = 1;
};

/// Round numbers (1, 2, 2.5 or 5 times a power of ten apart) that cover the range, about `count` of them. The
/// first is at or below its low end, the last at or above its high one. A range of no width is widened.
/// @pre both ends are finite, low ≤ high
[[nodiscard]] std::vector<double> ticks(Range range, int count = 6);

/// The range with zero in it where zero is near: where the figures' spread is a quarter of their size or
/// more.
[[nodiscard]] Range with_zero(Range range);

/// As short as tells ticks apart: "0", "0.25", "1e+06".
[[nodiscard]] std::string tick_text(double value);

}  // namespace syncline::plot
