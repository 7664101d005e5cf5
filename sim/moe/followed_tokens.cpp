#include "sim/moe/followed_tokens.hpp"

#include <algorithm>
#include <numeric>

#include "sim/moe/stream.hpp"
#include "sim/moe/token_sampler.hpp"

namespace syncline::moe {
namespace {

/// Tokens of one source counted at experts, ranks and nodes.
class Counter {
 public:
  explicit Counter(const ExpertGroup& group)
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

}  // namespace

std::vector<Shares> follow_tokens(std::span<const double> popularity, const ExpertGroup& group,
                                  std::uint64_t seed, int layer, std::int64_t step, std::int64_t per_source) {
  std::vector<Shares> all;
  TokenSampler sampler(popularity, group);
  for (int source = 0; source < group.ranks; ++source) {
    Random random = stream_of(Draw::Tokens, seed, layer, step, source);
    Counter counter(group);
    for (std::int64_t t = 0; t < per_source; ++t) counter.add(sampler.next(random));
    all.push_back(counter.counts());
  }
  return all;
}

Shares mean_shares(const std::vector<Shares>& followed, std::int64_t per_source, bool all_alike) {
  Shares mean = followed.front();
  for (const auto list : ShareLists) {
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

}  // namespace syncline::moe
