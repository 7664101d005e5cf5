#include "sim/moe/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace syncline::moe {
namespace {

constexpr double Slack = 1e-6;  // tokens; what sums of shares are off whole numbers

/// Adds `step` (1 or −1) to one number after another in the order given, round and round, until the sum has
/// grown by `missing` or all are at their bounds.
template <class Order>
void deal(const Order& order, std::int64_t missing, std::int64_t step, std::span<const Bounds> bounds,
          std::span<std::int64_t> rounded) {
  for (bool moved = true; missing != 0 && moved;) {
    moved = false;
    for (const std::size_t i : order) {
      if (missing == 0) break;
      if (rounded[i] == (step > 0 ? bounds[i].most : bounds[i].least)) continue;
      rounded[i] += step;
      missing -= step;
      moved = true;
    }
  }
}

}  // namespace

void round_to_sum(std::span<const double> values, std::int64_t total, std::size_t start,
                  std::span<const Bounds> bounds, std::span<std::int64_t> rounded) {
  const std::size_t n = values.size();
  std::vector<std::size_t> order(n);
  std::vector<double> remainder(n);  // in steps of the slack, so that equal ones are equal
  for (std::size_t i = 0; i < n; ++i) {
    const double whole = std::floor(values[i] + Slack);
    rounded[i] = std::clamp(static_cast<std::int64_t>(whole), bounds[i].least, bounds[i].most);
    remainder[i] = std::round((values[i] - whole) / Slack);
    order[i] = (start + i) % n;
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  const std::int64_t missing = total - std::accumulate(rounded.begin(), rounded.end(), std::int64_t{0});
  if (missing >= 0) return deal(order, missing, 1, bounds, rounded);
  std::ranges::reverse(order);
  deal(order, missing, -1, bounds, rounded);
}

void round_places(std::span<const double> values, std::span<const std::int64_t> parts,
                  std::int64_t source_tokens, std::span<std::int64_t> rounded) {
  const std::size_t size = parts.size() / values.size();
  std::vector<Bounds> bounds;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto own = parts.subspan(i * size, size);
    const std::int64_t together = std::accumulate(own.begin(), own.end(), std::int64_t{0});
    bounds.push_back({std::ranges::max(own), std::min(together, source_tokens)});
  }
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  round_to_sum(values, static_cast<std::int64_t>(sum + 0.5), 0, bounds, rounded);
}

}  // namespace syncline::moe
