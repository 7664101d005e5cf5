#include "sim/collective/exchange_rounds.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "sim/core/error.hpp"

namespace syncline {
namespace {

using Positions = std::vector<std::uint32_t>;

bool by_node(Algorithm algorithm) {
  return algorithm == Algorithm::TwoHop || algorithm == Algorithm::Hierarchical;
}

void append_if_any(Track& track, Round round) {
  if (!round.flows.empty()) track.push_back(std::move(round));
}

class Planner {
 public:
  explicit Planner(const ExchangeView& exchange)
      : exchange_(exchange),
        n_(static_cast<std::uint32_t>(exchange.members)),
        item_(exchange.items() > 0 ? static_cast<double>(n_) / exchange.items() : 0) {}

  [[nodiscard]] Track direct() const {
    Round round;
    for (std::uint32_t shift = 1; shift < n_; ++shift) add_shift(shift, round);
    Track track;
    append_if_any(track, std::move(round));
    return track;
  }

  [[nodiscard]] Track pairwise() const {
    Track track;
    for (std::uint32_t shift = 1; shift < n_; ++shift) {
      Round round;
      add_shift(shift, round);
      append_if_any(track, std::move(round));
    }
    return track;
  }

  /// @param nodes  as many members on each
  [[nodiscard]] Track two_hop(const std::vector<Positions>& nodes) const {
    Round across, inside;
    for (const Positions& from : nodes)
      for (std::size_t to = 0; to < nodes.size(); ++to)
        for (std::size_t place = 0; &from != &nodes[to] && place < from.size(); ++place)
          add(from[place], nodes[to][place], items_across(from[place], to, nodes[to]), across);
    for (const Positions& node : nodes)
      for (std::size_t place = 0; place < node.size(); ++place)
        for (const std::uint32_t target : node) {
          double items = 0;  // of those at this place of all nodes, this one among them
          for (const Positions& from : nodes) items += exchange_.count(from[place], target);
          if (target != node[place]) add(node[place], target, items, inside);
        }
    Track track;
    append_if_any(track, std::move(across));
    append_if_any(track, std::move(inside));
    return track;
  }

 private:
  [[nodiscard]] double items_across(std::uint32_t from, std::size_t node, const Positions& members) const {
    if (exchange_.node_members > 0) return exchange_.to_node(from, node);
    double items = 0;
    for (const std::uint32_t to : members) items += exchange_.count(from, to);
    return items;
  }
  void add(std::uint32_t from, std::uint32_t to, double items, Round& round) const {
    if (items > 0) round.flows.push_back({from, to, items * item_});
  }
  void add_shift(std::uint32_t shift, Round& round) const {
    for (std::uint32_t from = 0; from < n_; ++from) {
      const std::uint32_t to = (from + shift) % n_;
      add(from, to, exchange_.count(from, to), round);
    }
  }

  const ExchangeView& exchange_;
  std::uint32_t n_;
  double item_;  // share of S
};

std::vector<Positions> nodes_of(const ExchangeView& exchange, const Layout& layout) {
  if (exchange.node_members == 0) return layout.nodes;
  std::vector<Positions> nodes(exchange.nodes(), Positions(exchange.node_members));
  std::uint32_t first = 0;
  for (Positions& node : nodes) {
    std::iota(node.begin(), node.end(), first);
    first += static_cast<std::uint32_t>(node.size());
  }
  return nodes;
}

Track rounds_forward(Algorithm algorithm, const ExchangeView& exchange, const Layout& layout) {
  const Planner planner(exchange);
  if (by_node(algorithm)) return planner.two_hop(nodes_of(exchange, layout));
  if (algorithm == Algorithm::Pairwise) return planner.pairwise();
  SYNCLINE_CHECK(algorithm == Algorithm::Direct, "an algorithm that carries out no exchange");
  return planner.direct();
}

}  // namespace

std::span<const Algorithm> exchange_algorithms() {
  static constexpr std::array All{Algorithm::Direct, Algorithm::Pairwise, Algorithm::TwoHop,
                                  Algorithm::Hierarchical};
  return All;
}

bool goes_by_layout(Algorithm algorithm, const ExchangeView& exchange) {
  return by_node(algorithm) && exchange.node_members == 0;
}

std::optional<std::string> exchange_refusal_of(Algorithm algorithm, const ExchangeView& exchange,
                                               const Layout& layout) {
  const std::span<const Algorithm> all = exchange_algorithms();
  if (std::ranges::find(all, algorithm) == all.end()) {
    std::vector<std::string_view> names;
    for (const Algorithm one : all) names.push_back(name_of(one));
    return fmt::format("all-to-all with an exchange cannot go by {}; it goes by {}", name_of(algorithm),
                       fmt::join(names, ", "));
  }
  if (!goes_by_layout(algorithm, exchange)) return std::nullopt;
  return refusal_of(CollectiveKind::AllToAll, algorithm, layout);
}

std::vector<Track> exchange_rounds(Algorithm algorithm, const ExchangeView& exchange, bool back,
                                   const Layout& layout) {
  Track track = rounds_forward(algorithm, exchange, layout);
  return {back ? reversed(track) : std::move(track)};
}

CollectivePlan plan_exchange(Algorithm algorithm, Bytes bytes, const ExchangeView& exchange, bool back,
                             const Layout& layout) {
  CollectivePlan plan;
  plan.algorithm = algorithm;
  plan.bytes = bytes;
  plan.tracks =
      std::make_shared<const std::vector<Track>>(exchange_rounds(algorithm, exchange, back, layout));
  return plan;
}

}  // namespace syncline
