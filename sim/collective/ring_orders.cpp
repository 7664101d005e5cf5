#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "sim/collective/collective.hpp"

namespace syncline {
namespace {

using Order = std::vector<std::uint32_t>;

// Positions of the members, node by node in the order in which the nodes appear.
std::vector<Order> by_node(std::span<const AcceleratorId> members, const Topology& topology) {
  std::vector<Order> nodes;
  std::map<std::uint32_t, std::size_t> index;
  for (std::uint32_t position = 0; position < members.size(); ++position) {
    const auto [entry, added] = index.try_emplace(topology.node_of(members[position]), nodes.size());
    if (added) nodes.emplace_back();
    nodes[entry->second].push_back(position);
  }
  return nodes;
}

std::uint32_t index_in_node(AcceleratorId accelerator, const Topology& topology) {
  return accelerator.value() % static_cast<std::uint32_t>(topology.shape().accelerators_per_node);
}

// How many NICs the members on one node have between them.
std::size_t nics_of(const Order& node, std::span<const AcceleratorId> members, const Topology& topology) {
  const Shape& shape = topology.shape();
  if (shape.nics_per_node == 0) return 1;
  std::set<std::uint32_t> nics;
  for (const std::uint32_t position : node)
    nics.insert(index_in_node(members[position], topology) * static_cast<std::uint32_t>(shape.nics_per_node) /
                static_cast<std::uint32_t>(shape.accelerators_per_node));
  return nics.size();
}

std::vector<Order> rings_across_nodes(const std::vector<Order>& nodes, std::span<const AcceleratorId> members,
                                      const Topology& topology) {
  std::size_t channels = nodes.size() == 1 ? 1 : members.size();
  for (const Order& node : nodes) channels = std::min(channels, nics_of(node, members, topology));
  std::vector<Order> rings(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    for (const Order& node : nodes) {
      const std::size_t first = c * node.size() / channels;  // spread over the NICs when there are fewer of them
      for (std::size_t i = 0; i < node.size(); ++i) rings[c].push_back(node[(first + i) % node.size()]);
    }
  }
  return rings;
}

// One link from the first member to each other one: they are fully meshed.
bool neighbours_of_all(std::span<const AcceleratorId> members, const Topology& topology) {
  return std::all_of(members.begin() + 1, members.end(), [&](AcceleratorId other) {
    return topology.route(members.front(), other).size() == 1;
  });
}

// In a full mesh of n, stepping by any stride prime to n visits all, and no two strides share a link.
std::vector<Order> rings_in_mesh(std::size_t n) {
  std::vector<Order> rings;
  for (std::size_t stride = 1; stride < n; ++stride) {
    if (std::gcd(stride, n) != 1) continue;
    Order& ring = rings.emplace_back();
    for (std::size_t i = 0; i < n; ++i) ring.push_back(static_cast<std::uint32_t>(i * stride % n));
  }
  return rings;
}

// The accelerators of a torus in snake order: dimension order[0] runs fastest, to and fro (a reflected Gray code).
Order snake(const std::vector<int>& shape, const std::vector<std::size_t>& order) {
  std::vector<std::uint32_t> stride(shape.size(), 1);
  for (std::size_t d = 1; d < shape.size(); ++d) stride[d] = stride[d - 1] * static_cast<std::uint32_t>(shape[d - 1]);
  const auto count = static_cast<std::uint32_t>(std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>()));
  Order path;
  for (std::uint32_t step = 0; step < count; ++step) {
    std::uint32_t rest = step, at = 0;
    for (const std::size_t d : order) {
      const auto extent = static_cast<std::uint32_t>(shape[d]);
      const std::uint32_t digit = rest % extent;
      rest /= extent;
      at += (rest % 2 == 0 ? digit : extent - 1 - digit) * stride[d];
    }
    path.push_back(at);
  }
  return path;
}

std::vector<Order> rings_on_torus(std::span<const AcceleratorId> members, const std::vector<int>& shape) {
  std::vector<std::uint32_t> position_of(members.size());
  for (std::uint32_t i = 0; i < members.size(); ++i) position_of[members[i].value()] = i;
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<Order> rings;
  for (std::size_t rotation = 0; rotation < shape.size(); ++rotation) {
    if (shape[order.front()] > 1) {
      Order ring = snake(shape, order);
      for (std::uint32_t& vertex : ring) vertex = position_of[vertex];
      rings.push_back(ring);
      std::reverse(ring.begin(), ring.end());
      rings.push_back(std::move(ring));
    }
    std::rotate(order.begin(), order.begin() + 1, order.end());
  }
  return rings;
}

}  // namespace

std::vector<Order> ring_orders(std::span<const AcceleratorId> members, const Topology& topology) {
  const bool whole = members.size() == topology.accelerators().size();
  if (whole && members.size() > 1 && !topology.shape().torus.empty() &&
      topology.shape().accelerators_per_node == 1)
    return rings_on_torus(members, topology.shape().torus);

  if (members.size() > 2 && neighbours_of_all(members, topology)) return rings_in_mesh(members.size());
  return rings_across_nodes(by_node(members, topology), members, topology);
}

}  // namespace syncline
