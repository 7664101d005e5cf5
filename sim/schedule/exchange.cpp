#include "sim/schedule/exchange.hpp"

#include <algorithm>
#include <numeric>

namespace syncline {

double ExchangeView::items() const {
  return std::accumulate(counts.begin(), counts.end(), 0.0);
}

double ExchangeView::most_received() const {
  double most = 0;
  for (std::size_t to = 0; to < members; ++to) {
    double received = 0;
    for (std::size_t from = 0; from < members; ++from)
      if (from != to) received += count(from, to);
    most = std::max(most, received);
  }
  return most;
}

double ExchangeView::sent() const {
  double sum = 0;
  for (std::size_t from = 0; from < members; ++from)
    for (std::size_t to = 0; to < members; ++to)
      if (from != to) sum += count(from, to);
  return sum;
}

bool ExchangeView::alike() const {
  for (std::size_t from = 0; from < members; ++from) {
    for (std::size_t to = 0; to < members; ++to)
      if (from != to && count(from, to) != count(0, 1)) return false;
    for (std::size_t node = 0; node < nodes(); ++node)
      if (node != from / node_members && to_node(from, node) != to_node(0, 1)) return false;
  }
  return true;
}

bool ExchangeView::same_as(const ExchangeView& other) const {
  // S is the mean of all items, so what an item is goes by all of them.
  if (members != other.members || node_members != other.node_members || items() != other.items())
    return false;
  for (std::size_t from = 0; from < members; ++from) {
    for (std::size_t to = 0; to < members; ++to)
      if (from != to && count(from, to) != other.count(from, to)) return false;
    for (std::size_t node = 0; node < nodes(); ++node)
      if (node != from / node_members && to_node(from, node) != other.to_node(from, node)) return false;
  }
  return true;
}

ExchangeView view_of(const Exchange& exchange, GroupId group) {
  ExchangeView view{static_cast<std::size_t>(exchange.members),
                    static_cast<std::size_t>(exchange.node_members), exchange.counts, exchange.to_nodes};
  if (exchange.for_all()) return view;
  const std::size_t per_group = view.members * view.nodes();
  view.counts = view.counts.subspan(group.value() * exchange.pairs(), exchange.pairs());
  view.to_nodes = view.to_nodes.subspan(group.value() * per_group, per_group);
  return view;
}

std::size_t members_of_all(const GroupFamily& family) {
  std::size_t members = 0;
  for (std::size_t g = 0; g < family.group_count(); ++g) members += family.members(GroupId(g)).size();
  return members;
}

std::span<const double> factors_of(const Schedule& schedule, const RankLoad& load, GroupId group) {
  const GroupFamily& family = schedule.families[load.family.value()];
  const std::size_t size = family.members(group).size();
  if (load.factors.size() == size) return load.factors;  // of one group for all
  const auto first =
      static_cast<std::size_t>(family.members(group).data() - family.members(GroupId(0)).data());
  return std::span(load.factors).subspan(first, size);
}

double factor_of(const Schedule& schedule, const RankLoad& load, RankId rank) {
  const GroupFamily& family = schedule.families[load.family.value()];
  const auto members = family.members(family.group_of(rank));
  const auto place = static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin());
  return factors_of(schedule, load, family.group_of(rank))[place];
}

}  // namespace syncline
