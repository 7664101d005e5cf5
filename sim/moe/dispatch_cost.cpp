#include "sim/moe/dispatch_cost.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "sim/core/error.hpp"
#include "sim/moe/expected_shares.hpp"

namespace syncline::moe {
namespace {

/// What of `per_rank` copies that reach every rank alike goes where.
TokenCopies spread(double copies, const DispatchShape& shape) {
  const double ranks = shape.ranks, of_node = ranks / shape.nodes;
  return {copies, copies, copies * (of_node - 1) / ranks, copies * (ranks - of_node) / ranks};
}

TokenCopies to_ranks(double ranks_hit, const DispatchShape& shape) {
  return spread(ranks_hit, shape);
}

/// k neighbouring ranks, or all of them: a token's own rank is among them as often as any other.
TokenCopies in_turn(const DispatchShape& shape) {
  return to_ranks(std::min(shape.top_k, shape.ranks), shape);
}

struct Hits {
  double ranks = 0, nodes = 0;
};

/// Experts taken one after another, at random from those that are left, but of at most so many nodes.
class LimitedChoice {
 public:
  LimitedChoice(const DispatchShape& shape, int most_nodes)
      : most_nodes_(static_cast<std::size_t>(most_nodes)),
        of_rank_(shape.experts / shape.ranks),
        of_node_(shape.experts / shape.nodes),
        all_(shape.experts),
        likely_(most_nodes_ + 1, std::vector<double>(static_cast<std::size_t>(shape.top_k) + 1)) {
    likely_[0][0] = 1;
  }

  void take_one() {
    auto next = likely_;
    for (auto& ranks : next) std::ranges::fill(ranks, 0);
    for (std::size_t n = 0; n <= most_nodes_; ++n)
      for (std::size_t r = n; r <= taken_ && r < likely_[n].size(); ++r) {
        if (likely_[n][r] == 0) continue;
        const auto nodes = static_cast<double>(n), ranks = static_cast<double>(r);
        const double here = nodes * of_node_, on_ranks = ranks * of_rank_;
        const double left = (n < most_nodes_ ? all_ : here) - static_cast<double>(taken_);
        const double each = likely_[n][r] / left;
        next[n][r] += each * (on_ranks - static_cast<double>(taken_));
        if (r + 1 == likely_[n].size()) continue;
        next[n][r + 1] += each * (here - on_ranks);
        if (n < most_nodes_) next[n + 1][r + 1] += each * (all_ - here);
      }
    likely_ = std::move(next);
    ++taken_;
  }

  [[nodiscard]] Hits hits() const {
    Hits mean;
    for (std::size_t n = 0; n < likely_.size(); ++n)
      for (std::size_t r = 0; r < likely_[n].size(); ++r) {
        mean.nodes += static_cast<double>(n) * likely_[n][r];
        mean.ranks += static_cast<double>(r) * likely_[n][r];
      }
    return mean;
  }

 private:
  std::size_t most_nodes_, taken_ = 0;
  double of_rank_, of_node_, all_;           // experts
  std::vector<std::vector<double>> likely_;  // [nodes][ranks] that the taken ones are on
};

/// Different ranks and nodes of k experts at random, on at most `top_nodes` nodes.
Hits random_hits(const DispatchShape& shape) {
  const bool limited = shape.top_nodes > 0 && shape.top_nodes < shape.nodes;
  const int of_node = shape.experts / shape.nodes;
  SYNCLINE_CHECK(shape.top_k <= of_node * (limited ? shape.top_nodes : shape.nodes),
                 "more experts chosen than there are");
  if (!limited)
    return {shape.ranks * uniform_hit(shape.experts, shape.top_k, shape.experts / shape.ranks),
            shape.nodes * uniform_hit(shape.experts, shape.top_k, of_node)};
  LimitedChoice choice(shape, shape.top_nodes);
  for (int taken = 0; taken < shape.top_k; ++taken) choice.take_one();
  return choice.hits();
}

TokenCopies two_hops(const DispatchShape& shape) {
  const Hits hits = random_hits(shape);
  const double of_node = static_cast<double>(shape.ranks) / shape.nodes;
  return {hits.ranks, hits.nodes, hits.ranks * (of_node - 1) / of_node,
          hits.nodes * (shape.nodes - 1) / shape.nodes};
}

double cube(double x) {
  return x * x * x;
}

}  // namespace

TokenCopies expected_copies(Travel travel, const DispatchShape& shape) {
  SYNCLINE_CHECK(shape.nodes > 0 && shape.ranks > 0 && shape.ranks % shape.nodes == 0, "nodes divide ranks");
  SYNCLINE_CHECK(shape.top_k > 0 && shape.experts % shape.ranks == 0, "ranks divide experts");
  switch (travel) {
    case Travel::TwoHop: return two_hops(shape);
    case Travel::PerRank:
      return shape.round_robin ? in_turn(shape) : to_ranks(random_hits(shape).ranks, shape);
    case Travel::Direct: return spread(shape.top_k, shape);
    case Travel::Padded: return spread(shape.experts, shape);
  }
  return {};
}

DispatchLoad load_of(const TokenCopies& copies, const DispatchShape& shape, double tokens, Bytes copy,
                     double lanes) {
  return {.ranks = shape.ranks,
          .nodes = shape.nodes,
          .experts = static_cast<double>(shape.experts),
          .tokens = tokens,
          .copies = tokens * copies.ranks,
          .moved = tokens * copies.ranks * copy,
          .inside = tokens * copies.inside * copy,
          .between = tokens * copies.between * copy,
          .lanes = lanes};
}

BytesPerSecond rate_between(const std::vector<NodeRate>& rates, int nodes) {
  SYNCLINE_CHECK(!rates.empty(), "no rate between nodes");
  const auto above = std::ranges::find_if(rates, [&](const NodeRate& one) { return one.nodes >= nodes; });
  if (above == rates.end()) return rates.back().rate;
  if (above == rates.begin() || above->nodes == nodes) return above->rate;
  const NodeRate& below = *(above - 1);
  const double way = std::log(static_cast<double>(nodes) / below.nodes) /
                     std::log(static_cast<double>(above->nodes) / below.nodes);
  return below.rate * std::pow(above->rate / below.rate, way);
}

DispatchTime dispatch_time(const DispatchFigures& figures, const DispatchLoad& load) {
  DispatchTime time;
  time.latency = figures.call + figures.rank * (load.ranks - 1) + figures.node * (load.nodes - 1) +
                 figures.expert * load.experts;
  if (load.nodes > 1) time.latency += figures.far;
  double cubes = 0;
  if (figures.inside) cubes += cube((load.inside / *figures.inside).si());
  if (load.between > Bytes(0) && !figures.between.empty())
    cubes += cube((load.between / rate_between(figures.between, load.nodes)).si());
  if (load.lanes > 0) {
    Seconds work = figures.copy * load.copies;
    if (figures.lane) work += load.moved / *figures.lane;
    cubes += cube((work / load.lanes).si());
  }
  time.bytes = figures.token * load.tokens + Seconds(std::cbrt(cubes));
  return time;
}

}  // namespace syncline::moe
