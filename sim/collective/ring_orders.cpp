#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "sim/collective/collective.hpp"
#include "sim/collective/rounds.hpp"

namespace syncline {

bool fully_meshed(std::span<const AcceleratorId> members, const Topology& topology) {
  for (std::size_t i = 0; i < members.size(); ++i)
    for (std::size_t j = i + 1; j < members.size(); ++j)
      if (topology.route(members[i], members[j]).size() != 1) return false;
  return true;
}

namespace {

using Order = std::vector<std::uint32_t>;

std::uint32_t index_in_node(AcceleratorId accelerator, const Topology& topology) {
  return accelerator.value() % static_cast<std::uint32_t>(topology.shape().accelerators_per_node);
}

// Where in the node's list each of its NICs first has a member; one entry where there are no NICs.
std::vector<std::size_t> first_by_nic(const Order& node, std::span<const AcceleratorId> members,
                                      const Topology& topology) {
  const Shape& shape = topology.shape();
  std::map<std::uint32_t, std::size_t> first;
  for (std::size_t i = 0; i < node.size(); ++i)
    first.try_emplace(index_in_node(members[node[i]], topology) *
                          static_cast<std::uint32_t>(shape.nics_per_node) /
                          static_cast<std::uint32_t>(shape.accelerators_per_node),
                      i);
  std::vector<std::size_t> places;
  for (const auto& [nic, place] : first) places.push_back(place);
  return places;
}

/// Members of the node are in a full mesh, and even in number.
bool even_mesh(const Order& node, std::span<const AcceleratorId> members, const Topology& topology) {
  if (node.size() < 4 || node.size() % 2 != 0) return false;
  std::vector<AcceleratorId> inside;
  for (const std::uint32_t position : node) inside.push_back(members[position]);
  return fully_meshed(inside, topology);
}

std::vector<Order> rings_across_nodes(const std::vector<Order>& nodes, std::span<const AcceleratorId> members,
                                      const Topology& topology) {
  std::size_t channels = nodes.size() == 1 ? 1 : members.size();
  std::vector<std::vector<std::size_t>> entries;
  for (const Order& node : nodes) {
    entries.push_back(first_by_nic(node, members, topology));
    channels = std::min(channels, entries.back().size());
  }
  std::vector<Order> rings(channels);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Order& node = nodes[n];
    // Behind a switch all ways through a node are alike. In a mesh of g, g even, those to and fro (0, 1, −1, 2, −2, ...)
    // from different entries share no link: they are the Hamiltonian paths into which Walecki splits it (Lucas 1892).
    const bool to_and_fro = even_mesh(node, members, topology);
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t i = 0; i < node.size(); ++i) {
        const std::size_t step = !to_and_fro ? i : i % 2 == 1 ? (i + 1) / 2 : node.size() - i / 2;
        rings[c].push_back(node[(entries[n][c] + step) % node.size()]);
      }
    }
  }
  return rings;
}

// The search for rings in a mesh gives up after so many steps; 8 take 125, 10 take 412.
constexpr int MostMeshSteps = 100000;

/// n − 1 rings through a full mesh of n that take every link once, found by trying; there are none for 4 and 6 (Tillson,
/// J. Combinatorial Theory B 29, 1980).
class MeshRings {
 public:
  explicit MeshRings(std::size_t n) : n_(n), taken_(n * n, false) {}

  /// Nothing when there are none, or none were found.
  std::vector<Order> find() {
    if (!next_ring()) rings_.clear();
    return std::move(rings_);
  }

 private:
  // Ring k leaves 0 for k.
  bool next_ring() {
    if (rings_.size() + 1 == n_) return true;
    Order path{0, static_cast<std::uint32_t>(rings_.size() + 1)};
    std::vector<bool> visited(n_, false);
    visited[0] = visited[path[1]] = true;
    return extend(path, visited);
  }

  bool extend(Order& path, std::vector<bool>& visited) {
    if (++steps_ > MostMeshSteps) return false;
    const std::size_t from = path.back() * n_;
    if (path.size() == n_) {
      if (taken_[from]) return false;
      taken_[from] = true;
      rings_.push_back(path);
      if (next_ring()) return true;
      rings_.pop_back();
      taken_[from] = false;
      return false;
    }
    for (std::uint32_t to = 1; to < n_; ++to) {
      if (visited[to] || taken_[from + to]) continue;
      taken_[from + to] = visited[to] = true;
      path.push_back(to);
      if (extend(path, visited)) return true;
      path.pop_back();
      taken_[from + to] = visited[to] = false;
    }
    return false;
  }

  std::size_t n_;
  std::vector<bool> taken_;  // links, from · n + to
  std::vector<Order> rings_;
  int steps_ = 0;
};

// In a full mesh of n, stepping by any stride prime to n visits all, and no two strides share a link. That takes all links
// where n is prime, and four rings' where it is 8: there a search finds seven.
std::vector<Order> rings_in_mesh(std::size_t n) {
  std::vector<Order> rings;
  for (std::size_t stride = 1; stride < n; ++stride) {
    if (std::gcd(stride, n) != 1) continue;
    Order& ring = rings.emplace_back();
    for (std::size_t i = 0; i < n; ++i) ring.push_back(static_cast<std::uint32_t>(i * stride % n));
  }
  if (rings.size() + 1 == n) return rings;
  std::vector<Order> found = MeshRings(n).find();
  return found.empty() ? rings : found;
}

// Ring channels on a torus start at up to so many places: more even the load out further, and cost time to simulate.
constexpr std::uint32_t MostTranslations = 8;

// A walk through all of a torus, one link a step and back to its start: a Gray code whose digit order[0] runs fastest.
// A digit whose higher digits run through a multiple of its extent goes round and round (modular Gray code, all steps
// the same way: Bae and Bose, IEEE Trans. Computers 52, 2003); any other goes to and fro (reflected), and closes when
// the higher digits run through an even number. `start` is where the walk begins.
Order walk(const TorusBox& torus, const std::vector<std::size_t>& order,
           const std::vector<std::uint32_t>& start) {
  std::vector<std::uint32_t> stride(torus.extent.size(), 1);
  for (std::size_t d = 1; d < stride.size(); ++d) stride[d] = stride[d - 1] * torus.extent[d - 1];
  const std::uint32_t count = torus.count();
  Order path;
  path.reserve(count);
  for (std::uint32_t step = 0; step < count; ++step) {
    std::uint32_t higher = step, range = count, at = 0;
    for (const std::size_t d : order) {
      const std::uint32_t extent = torus.extent[d];
      const std::uint32_t digit = higher % extent;
      higher /= extent;
      range /= extent;
      const bool modular = torus.wrapped && (range % extent == 0 || range == 1);
      const std::uint32_t reflected = higher % 2 == 0 ? digit : extent - 1 - digit;
      const std::uint32_t place = modular ? (digit + extent - higher % extent) % extent : reflected;
      at += (place + start[d]) % extent * stride[d];
    }
    path.push_back(at);
  }
  return path;
}

// One walk fills a torus unevenly: its slow dimensions hardly carry anything. So every dimension is the fastest in turn,
// every walk goes both ways, and each begins at several places along a diagonal.
std::vector<Order> rings_on_torus(const TorusBox& torus) {
  const std::uint32_t longest = *std::max_element(torus.extent.begin(), torus.extent.end());
  const auto extended =
      std::count_if(torus.extent.begin(), torus.extent.end(), [](auto extent) { return extent > 1; });
  const std::uint32_t translations = torus.wrapped && extended > 1 ? std::min(MostTranslations, longest) : 1;
  std::vector<std::size_t> order(torus.extent.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<Order> rings;
  for (std::size_t rotation = 0; rotation < order.size(); ++rotation) {
    for (std::uint32_t t = 0; t < translations && torus.extent[order.front()] > 1; ++t) {
      std::vector<std::uint32_t> start;
      for (const std::uint32_t extent : torus.extent) start.push_back(t * extent / translations);
      Order ring = walk(torus, order, start);
      for (std::uint32_t& vertex : ring) vertex = torus.position_of[vertex];
      rings.push_back(ring);
      std::reverse(ring.begin(), ring.end());
      rings.push_back(std::move(ring));
    }
    std::rotate(order.begin(), order.begin() + 1, order.end());
  }
  return rings;
}

}  // namespace

std::optional<TorusBox> torus_box(std::span<const AcceleratorId> members, const Topology& topology) {
  const Shape& shape = topology.shape();
  if (shape.torus.empty() || members.size() < 2) return std::nullopt;
  std::uint32_t vertices = 1;
  for (const int size : shape.torus) vertices *= static_cast<std::uint32_t>(size);
  const std::uint32_t torus = members.front().value() / vertices;
  for (const AcceleratorId member : members)
    if (member.value() / vertices != torus) return std::nullopt;

  TorusBox box;
  std::vector<std::uint32_t> place(members.size(), 0);
  std::uint32_t stride = 1, box_stride = 1;
  for (std::size_t d = 0; d < shape.torus.size(); ++d) {
    const auto size = static_cast<std::uint32_t>(shape.torus[d]);
    const auto coordinate = [&](AcceleratorId member) { return member.value() % vertices / stride % size; };
    std::vector<std::uint32_t> rank_of(size,
                                       0);  // by coordinate: 1 where a member has it, then how many are below
    for (const AcceleratorId member : members) rank_of[coordinate(member)] = 1;
    std::exclusive_scan(rank_of.begin(), rank_of.end(), rank_of.begin(), 0U);
    std::uint32_t extent = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      place[i] += rank_of[coordinate(members[i])] * box_stride;
      extent = std::max(extent, rank_of[coordinate(members[i])] + 1);
    }
    box.extent.push_back(extent);
    box.wrapped = box.wrapped && (extent <= 2 || (extent == size && shape.torus_wrap[d]));
    stride *= size;
    box_stride *= extent;
  }
  if (box.count() != members.size()) return std::nullopt;
  box.position_of.assign(members.size(), std::numeric_limits<std::uint32_t>::max());
  for (std::uint32_t i = 0; i < members.size(); ++i) box.position_of[place[i]] = i;
  return box;
}

std::vector<Order> ring_orders(std::span<const AcceleratorId> members, const Topology& topology) {
  if (const std::optional<TorusBox> box = torus_box(members, topology)) return rings_on_torus(*box);
  if (members.size() > 2 && fully_meshed(members, topology)) return rings_in_mesh(members.size());
  return rings_across_nodes(positions_by_node(members, topology), members, topology);
}

}  // namespace syncline
