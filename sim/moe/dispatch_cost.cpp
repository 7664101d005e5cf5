#include "sim/moe/dispatch_cost.hpp"

#include <algorithm>
#include <cmath>

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

/// Different ranks and nodes of k experts at random, on at most `top_nodes` nodes.
Hits random_hits(const DispatchShape& shape) {
  const bool limited = shape.top_nodes > 0 && shape.top_nodes < shape.nodes;
  const int nodes = limited ? shape.top_nodes : shape.nodes;
  const int ranks = shape.ranks / shape.nodes * nodes;
  const int of_rank = shape.experts / shape.ranks;
  const int of_node = of_rank * (shape.ranks / shape.nodes);
  const int choice = of_node * nodes;
  SYNCLINE_CHECK(shape.top_k <= choice, "more experts chosen than there are");
  return {ranks * uniform_hit(choice, shape.top_k, of_rank),
          nodes * uniform_hit(choice, shape.top_k, of_node)};
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
