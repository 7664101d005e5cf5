#include "sim/moe/routing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/moe/counts_file.hpp"
#include "sim/moe/expected_shares.hpp"
#include "sim/moe/followed_tokens.hpp"
#include "sim/moe/popularity.hpp"
#include "sim/moe/rounding.hpp"

namespace syncline::moe {
namespace {

void scale(Shares& shares, double factor) {
  for (const auto list : ShareLists)
    for (double& value : shares.*list) value *= factor;
}

/// What the sources of a layer send, before it is made whole.
class LayerRouting {
 public:
  LayerRouting(const Routing& routing, const ExpertGroup& group, std::uint64_t seed, int layer,
               std::int64_t step)
      : tokens_(static_cast<double>(group.tokens)),
        per_source_(std::clamp<std::int64_t>(FollowedTokens / group.ranks, 1, group.tokens)),
        varied_(!std::holds_alternative<Balanced>(routing)) {
    const std::vector<double> popular = popularity(routing, group, seed, layer, step);
    const bool all_alike = !varied_ || std::holds_alternative<Uniform>(routing);
    if (const auto* file = std::get_if<FromFile>(&routing)) {
      varied_ = false;
      for (int source = 0; source < group.ranks; ++source)
        measured_.push_back(shares_of(measured_row(*file->counts, group, layer, step, source), group.top_k));
    }
    if (varied_ || group.limited()) followed_ = follow_tokens(popular, group, seed, layer, step, per_source_);
    expected_ = group.limited() ? mean_shares(followed_, per_source_, all_alike)
                : all_alike     ? uniform_shares(group)
                                : expected_shares(popular, group);
  }

  [[nodiscard]] Shares sent(int source) const {
    if (varied_) return varied(followed_[static_cast<std::size_t>(source)]);
    Shares all = measured_.empty() ? expected_ : measured(measured_[static_cast<std::size_t>(source)]);
    scale(all, tokens_);
    return all;
  }

 private:
  /// `expected`, and the deviation of the followed tokens in the measure of T: it grows as the root of their
  /// number.
  [[nodiscard]] Shares varied(const Shares& followed) const {
    const auto n = static_cast<double>(per_source_);
    const double weight = std::sqrt(n / tokens_);
    Shares all = expected_;
    for (const auto list : ShareLists)
      for (std::size_t i = 0; i < (all.*list).size(); ++i)
        (all.*list)[i] = tokens_ * ((1 - weight) * (all.*list)[i] + weight * (followed.*list)[i] / n);
    return all;
  }

  /// Ranks and nodes get as many different tokens for their copies as is to be expected.
  [[nodiscard]] Shares measured(const std::vector<double>& experts) const {
    Shares all = expected_;
    const auto follow_experts = [&](std::vector<double>& places) {
      const std::size_t size = experts.size() / places.size();
      for (std::size_t i = 0; i < experts.size(); i += size) {
        const auto sum = [&](const std::vector<double>& of) {
          const auto first = of.begin() + static_cast<std::ptrdiff_t>(i);
          return std::accumulate(first, first + static_cast<std::ptrdiff_t>(size), 0.0);
        };
        double& place = places[i / size];
        place = std::min(1.0, place * sum(experts) / sum(expected_.experts));
      }
    };
    follow_experts(all.ranks);
    follow_experts(all.nodes);
    all.experts = experts;
    return all;
  }

  double tokens_;
  std::int64_t per_source_;                    // followed
  bool varied_;                                // from source to source and step to step
  std::vector<Shares> followed_;               // by source, their counts
  std::vector<std::vector<double>> measured_;  // by source, shares of the experts
  Shares expected_;                            // of one token
};

}  // namespace

bool operator==(const FromFile& a, const FromFile& b) {
  return a.file == b.file && (a.counts == b.counts || (a.counts && b.counts && *a.counts == *b.counts));
}

TokenCounts route(const Routing& routing, const ExpertGroup& group, std::uint64_t seed, int layer,
                  std::int64_t step) {
  const LayerRouting of_layer(routing, group, seed, layer, step);
  TokenCounts counts{CountTable(group.ranks, group.experts), CountTable(group.ranks, group.ranks),
                     CountTable(group.ranks, group.nodes())};
  const std::vector<Bounds> each_token_once(static_cast<std::size_t>(group.experts), {0, group.tokens});
  const std::int64_t copies = group.tokens * group.top_k;
  const std::int64_t odd = copies % group.experts;  // remainders are dealt on where the source before stopped
  for (int source = 0; source < group.ranks; ++source) {
    const Shares sent = of_layer.sent(source);
    const auto start = static_cast<std::size_t>(odd * source % group.experts);
    round_to_sum(sent.experts, copies, start, each_token_once, counts.experts[source]);
    round_places(sent.ranks, counts.experts[source], group.tokens, counts.ranks[source]);
    round_places(sent.nodes, counts.ranks[source], group.tokens, counts.nodes[source]);
  }
  return counts;
}

}  // namespace syncline::moe
