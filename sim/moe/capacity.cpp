#include "sim/moe/capacity.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "sim/core/error.hpp"
#include "sim/moe/rounding.hpp"

namespace syncline::moe {
namespace {

using Row = std::span<const std::int64_t>;

/// Of the tokens sent to each place the share that its experts' copies have left.
void keep_share(Row before, Row after, Row parts, std::int64_t tokens, std::span<std::int64_t> places) {
  const std::size_t experts = before.size() / places.size();
  const auto sum = [experts](Row row, std::size_t place) {
    const Row own = row.subspan(place * experts, experts);
    return static_cast<double>(std::accumulate(own.begin(), own.end(), std::int64_t{0}));
  };
  std::vector<double> values(places.begin(), places.end());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] > 0) values[i] *= sum(after, i) / sum(before, i);
  round_places(values, parts, tokens, places);
}

}  // namespace

std::int64_t expert_capacity(const ExpertGroup& group, double factor) {
  constexpr double Slack = 1e-9;  // a product that should be whole is not rounded up
  SYNCLINE_CHECK(factor > 0, "an expert takes some tokens");
  const double even = static_cast<double>(group.tokens) * group.top_k / group.experts;
  return static_cast<std::int64_t>(std::ceil(even * factor * (1 - Slack)));
}

TokenCounts with_capacity(TokenCounts counts, const ExpertGroup& group, const Capacity& capacity) {
  const std::int64_t most = expert_capacity(group, capacity.factor);
  for (int source = 0; source < group.ranks; ++source) {
    const auto experts = counts.experts[source];
    const std::vector<std::int64_t> before(experts.begin(), experts.end());
    for (std::int64_t& copies : experts) {
      counts.dropped += std::max<std::int64_t>(0, copies - most);
      copies = std::min(copies, most);
    }
    keep_share(before, experts, experts, group.tokens, counts.ranks[source]);
    keep_share(before, experts, counts.ranks[source], group.tokens, counts.nodes[source]);
    if (!capacity.pad) continue;
    for (std::int64_t& copies : experts) {
      counts.padding += most - copies;
      copies = most;
    }
  }
  return counts;
}

double dropped_share(const TokenCounts& counts) {
  const std::int64_t kept = counts.experts.sum() - counts.padding;
  return static_cast<double>(counts.dropped) / static_cast<double>(kept + counts.dropped);
}

}  // namespace syncline::moe
