#include "sim/moe/routing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/error.hpp"
#include "sim/moe/counts_file.hpp"
#include "sim/moe/expected_shares.hpp"
#include "sim/moe/popularity.hpp"
#include "sim/moe/rounding.hpp"
#include "sim/moe/stream.hpp"
#include "sim/moe/token_sampler.hpp"

namespace syncline::moe {
namespace {

// --- followed tokens ---

/// Tokens of one source counted at experts, ranks and nodes.
class Followed {
 public:
  explicit Followed(const ExpertGroup& group)
      : per_rank_(group.experts_per_rank()),
        per_node_(group.experts_per_node()),
        counts_{std::vector<double>(static_cast<std::size_t>(group.experts)),
                std::vector<double>(static_cast<std::size_t>(group.ranks)),
                std::vector<double>(static_cast<std::size_t>(group.nodes()))},
        rank_seen_(counts_.ranks.size()),
        node_seen_(counts_.nodes.size()) {}

  void add(std::span<const int> token) {
    ++tokens_;
    for (const int expert : token) {
      ++counts_.experts[static_cast<std::size_t>(expert)];
      count_once(counts_.ranks, rank_seen_, expert / per_rank_);
      count_once(counts_.nodes, node_seen_, expert / per_node_);
    }
  }
  [[nodiscard]] const Shares& counts() const { return counts_; }

 private:
  void count_once(std::vector<double>& counts, std::vector<std::int64_t>& seen, int place) const {
    const auto i = static_cast<std::size_t>(place);
    if (seen[i] == tokens_) return;
    seen[i] = tokens_;
    ++counts[i];
  }

  int per_rank_, per_node_;
  Shares counts_;
  std::vector<std::int64_t> rank_seen_, node_seen_;  // the last token that was there
  std::int64_t tokens_ = 0;
};

/// Tokens of each source, `per_source` of them.
std::vector<Shares> follow(std::span<const double> popularity, const ExpertGroup& group, std::uint64_t seed,
                           int layer, std::int64_t step, std::int64_t per_source) {
  std::vector<Shares> all;
  TokenSampler sampler(popularity, group);
  for (int source = 0; source < group.ranks; ++source) {
    Random random = stream_of(Draw::Tokens, seed, layer, step, source);
    Followed followed(group);
    for (std::int64_t t = 0; t < per_source; ++t) followed.add(sampler.next(random));
    all.push_back(followed.counts());
  }
  return all;
}

/// The three lists of `Shares`.
constexpr std::vector<double> Shares::*Lists[]{&Shares::experts, &Shares::ranks, &Shares::nodes};

Shares mean_shares(const std::vector<Shares>& followed, std::int64_t per_source, bool all_alike) {
  Shares mean = followed.front();
  for (const auto list : Lists) {
    std::vector<double>& values = mean.*list;
    for (std::size_t s = 1; s < followed.size(); ++s)
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += (followed[s].*list)[i];
    for (double& value : values)
      value /= static_cast<double>(per_source) * static_cast<double>(followed.size());
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    if (all_alike) std::ranges::fill(values, sum / static_cast<double>(values.size()));
  }
  return mean;
}

void scale(Shares& shares, double factor) {
  for (const auto list : Lists)
    for (double& value : shares.*list) value *= factor;
}

/// What the sources of a layer send, before it is made whole.
class LayerRouting {
 public:
  LayerRouting(const Routing& routing, const ExpertGroup& group, std::uint64_t seed, int layer,
               std::int64_t step)
      : group_(group),
        tokens_(static_cast<double>(group.tokens)),
        per_source_(std::clamp<std::int64_t>(FollowedTokens / group.ranks, 1, group.tokens)),
        varied_(!std::holds_alternative<Balanced>(routing)) {
    const std::vector<double> popular = popularity(routing, group, seed, layer, step);
    const bool all_alike = !varied_ || std::holds_alternative<Uniform>(routing);
    if (const auto* file = std::get_if<FromFile>(&routing)) {
      varied_ = false;
      for (int source = 0; source < group.ranks; ++source)
        measured_.push_back(shares_of(measured_row(*file->counts, group, layer, step, source), group.top_k));
    }
    if (varied_ || group.limited()) followed_ = follow(popular, group, seed, layer, step, per_source_);
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
  /// `expected`, and the deviation of the followed tokens in the measure of T: it grows as the root of their number.
  [[nodiscard]] Shares varied(const Shares& followed) const {
    const auto n = static_cast<double>(per_source_);
    const double weight = std::sqrt(n / tokens_);
    Shares all = expected_;
    for (const auto list : Lists)
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

  const ExpertGroup& group_;
  double tokens_;
  std::int64_t per_source_;                    // followed
  bool varied_;                                // from source to source and step to step
  std::vector<Shares> followed_;               // by source, their counts
  std::vector<std::vector<double>> measured_;  // by source, shares of the experts
  Shares expected_;                            // of one token
};

}  // namespace

void check_group(const ExpertGroup& group) {
  SYNCLINE_CHECK(group.ranks > 0 && group.experts > 0 && group.tokens > 0,
                 "a group has ranks, experts and tokens");
  SYNCLINE_CHECK(group.experts % group.ranks == 0, "every rank has as many experts");
  SYNCLINE_CHECK(group.top_k > 0 && group.top_k <= group.experts, "a token chooses 1 ... E experts");
  SYNCLINE_CHECK(group.ranks_per_node > 0 &&
                     (group.ranks <= group.ranks_per_node || group.ranks % group.ranks_per_node == 0),
                 "every node has as many ranks");
  SYNCLINE_CHECK(group.groups > 0 && group.experts % group.groups == 0, "every group has as many experts");
  SYNCLINE_CHECK(group.top_groups > 0 && group.top_groups <= group.groups &&
                     group.experts / group.groups * group.top_groups >= group.top_k,
                 "the groups of a token have k experts");
}

CountTable::CountTable(int rows, int columns)
    : rows_(rows),
      columns_(columns),
      cells_(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns)) {}

std::span<std::int64_t> CountTable::operator[](int row) {
  const auto n = static_cast<std::size_t>(columns_);
  return std::span(cells_).subspan(static_cast<std::size_t>(row) * n, n);
}
std::span<const std::int64_t> CountTable::operator[](int row) const {
  const auto n = static_cast<std::size_t>(columns_);
  return std::span(cells_).subspan(static_cast<std::size_t>(row) * n, n);
}

std::int64_t CountTable::sum() const {
  return std::accumulate(cells_.begin(), cells_.end(), std::int64_t{0});
}

std::vector<std::int64_t> CountTable::column_sums() const {
  std::vector<std::int64_t> sums(static_cast<std::size_t>(columns_));
  for (std::size_t i = 0; i < cells_.size(); ++i) sums[i % sums.size()] += cells_[i];
  return sums;
}

TokenCounts route(const Routing& routing, const ExpertGroup& group, std::uint64_t seed, int layer,
                  std::int64_t step) {
  const LayerRouting of_layer(routing, group, seed, layer, step);
  TokenCounts counts{CountTable(group.ranks, group.experts), CountTable(group.ranks, group.ranks),
                     CountTable(group.ranks, group.nodes())};
  const std::int64_t copies = group.tokens * group.top_k;
  const std::int64_t odd = copies % group.experts;  // remainders are dealt on where the source before stopped
  for (int source = 0; source < group.ranks; ++source) {
    const Shares sent = of_layer.sent(source);
    const auto start = static_cast<std::size_t>(odd * source % group.experts);
    round_to_sum(sent.experts, copies, start, counts.experts[source]);
    round_places(sent.ranks, counts.experts[source], group.tokens, counts.ranks[source]);
    round_places(sent.nodes, counts.ranks[source], group.tokens, counts.nodes[source]);
  }
  return counts;
}

}  // namespace syncline::moe
