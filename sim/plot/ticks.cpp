#include "sim/plot/ticks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace syncline::plot {
namespace {

/// The least round number at or above `rough`.
double round_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double digit : {1.0, 2.0, 2.5, 5.0})
    if (digit * power >= rough * (1 - 1e-9)) return digit * power;
  return 10 * power;
}

}  // namespace

std::vector<double> ticks(Range range, int count) {
  if (range.high <= range.low) {
    const double around = range.low == 0 ? 1 : std::abs(range.low) / 2;
    range = {range.low - around, range.low + around};
  }
  const double step = round_step((range.high - range.low) / std::max(1, count - 1));
  const double first = std::floor(range.low / step + 1e-9), last = std::ceil(range.high / step - 1e-9);
  std::vector<double> at;
  for (double i = first; i <= last; ++i) at.push_back(i * step);
  return at;
}

Range with_zero(Range range) {
  if (range.low > 0 && range.high - range.low >= range.high / 4) range.low = 0;
  if (range.high < 0 && range.high - range.low >= -range.low / 4) range.high = 0;
  return range;
}

std::string tick_text(double value) {
  return fmt::format("{:.6g}", value);
}

}  // namespace syncline::plot
