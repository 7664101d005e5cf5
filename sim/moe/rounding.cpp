#include "sim/moe/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace syncline::moe {

void round_to_sum(std::span<const double> values, std::int64_t total, std::size_t start,
                  std::span<std::int64_t> rounded) {
  constexpr double Slack = 1e-6;  // tokens; what sums of shares are off whole numbers
  const std::size_t n = values.size();
  std::vector<std::size_t> order(n);
  std::vector<double> remainder(n);  // in steps of the slack, so that equal ones are equal
  for (std::size_t i = 0; i < n; ++i) {
    const double whole = std::floor(values[i] + Slack);
    rounded[i] = static_cast<std::int64_t>(whole);
    remainder[i] = std::round((values[i] - whole) / Slack);
    total -= rounded[i];
    order[i] = (start + i) % n;
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  for (std::size_t i = 0; total > 0; i = (i + 1) % n, --total) ++rounded[order[i]];
  for (std::size_t i = n; total<0; i = i> 1 ? i - 1 : n) {
    std::int64_t& last = rounded[order[i - 1]];
    if (last == 0) continue;
    --last;
    ++total;
  }
}

void round_places(std::span<const double> values, std::span<const std::int64_t> parts,
                  std::int64_t source_tokens, std::span<std::int64_t> rounded) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  round_to_sum(values, std::llround(sum), 0, rounded);
  const std::size_t size = parts.size() / values.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto own = parts.subspan(i * size, size);
    const std::int64_t together = std::accumulate(own.begin(), own.end(), std::int64_t{0});
    rounded[i] = std::clamp(rounded[i], std::ranges::max(own), std::min(together, source_tokens));
  }
}

}  // namespace syncline::moe
