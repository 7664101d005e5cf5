#include "sim/topology/graph_router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <span>

#include "sim/topology/fabric.hpp"

namespace syncline {
namespace {

using Distance = std::uint16_t;
constexpr Distance Far = std::numeric_limits<Distance>::max();
constexpr std::size_t MostKept = std::size_t{64} << 20;  // bytes of distances

struct Hop {
  std::uint32_t link, to;
};

/// The links out of each vertex, in order of their ids.
class Adjacency {
 public:
  Adjacency(const Topology& topology, const std::vector<bool>& usable, bool backwards) {
    first_.assign(topology.vertices().size() + 1, 0);
    const auto each = [&](const auto& visit) {
      for (std::uint32_t id = 0; id < topology.links().size(); ++id) {
        const Link& link = topology.links()[id];
        if (!usable.empty() && !usable[id]) continue;
        visit(id, backwards ? link.to.value() : link.from.value(),
              backwards ? link.from.value() : link.to.value());
      }
    };
    each([&](std::uint32_t, std::uint32_t from, std::uint32_t) { ++first_[from + 1]; });
    for (std::size_t v = 1; v < first_.size(); ++v) first_[v] += first_[v - 1];
    hops_.resize(first_.back());
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    each([&](std::uint32_t id, std::uint32_t from, std::uint32_t to) { hops_[next[from]++] = {id, to}; });
  }

  [[nodiscard]] std::span<const Hop> from(std::uint32_t vertex) const {
    return std::span(hops_).subspan(first_[vertex], first_[vertex + 1] - first_[vertex]);
  }
  [[nodiscard]] std::size_t vertices() const { return first_.size() - 1; }

 private:
  std::vector<std::uint32_t> first_;  // by vertex, in hops_
  std::vector<Hop> hops_;
};

class GraphRouter : public Router {
 public:
  GraphRouter(const Topology& topology, GraphRouting routing, std::uint64_t seed,
              const std::vector<bool>& usable)
      : out_(topology, usable, false), in_(topology, usable, true), routing_(routing), seed_(seed) {
    for (const VertexId vertex : topology.accelerators()) accelerators_.push_back(vertex.value());
  }

  void route(AcceleratorId source, AcceleratorId target, std::vector<LinkId>& links) const override {
    const std::uint32_t from = accelerators_[source.value()], to = accelerators_[target.value()];
    const std::vector<Distance>& distance = distances_to(to);
    if (distance[from] == Far) return;
    for (std::uint32_t at = from; at != to;) {
      std::size_t nearer = 0;
      for (const Hop& hop : out_.from(at)) nearer += is_nearer(hop, at, distance);
      std::size_t chosen =
          routing_ == GraphRouting::Ecmp ? flow_hash(seed_, source.value(), target.value(), at) % nearer : 0;
      for (const Hop& hop : out_.from(at)) {
        if (!is_nearer(hop, at, distance) || chosen-- > 0) continue;
        links.emplace_back(hop.link);
        at = hop.to;
        break;
      }
    }
  }

  void load(AcceleratorId source, AcceleratorId target, std::vector<LinkUse>& uses) const override {
    if (routing_ != GraphRouting::Spray) return Router::load(source, target, uses);
    const std::uint32_t from = accelerators_[source.value()], to = accelerators_[target.value()];
    const std::vector<Distance>& distance = distances_to(to);
    if (distance[from] == Far || from == to) return;
    std::map<std::uint32_t, double> share{{from, 1.0}};  // of the bytes, by vertex at the same distance
    for (Distance left = distance[from]; left > 0; --left) {
      std::map<std::uint32_t, double> next;
      for (const auto& [at, part] : share) {
        std::size_t nearer = 0;
        for (const Hop& hop : out_.from(at)) nearer += is_nearer(hop, at, distance);
        for (const Hop& hop : out_.from(at)) {
          if (!is_nearer(hop, at, distance)) continue;
          uses.push_back({LinkId(hop.link), part / static_cast<double>(nearer)});
          next[hop.to] += part / static_cast<double>(nearer);
        }
      }
      share = std::move(next);
    }
  }

  [[nodiscard]] std::string description() const override {
    switch (routing_) {
      case GraphRouting::Shortest: return "a path of fewest links, the first of equal ones";
      case GraphRouting::Ecmp:
        return fmt::format("a path of fewest links, by ECMP (seed {}) of equal ones", seed_);
      case GraphRouting::Spray: return "sprayed over all paths of fewest links";
    }
    return "";
  }

 private:
  static bool is_nearer(const Hop& hop, std::uint32_t at, const std::vector<Distance>& distance) {
    return distance[hop.to] != Far && distance[hop.to] + 1 == distance[at];
  }

  /// Breadth first, backwards from the target. Those asked for last are kept.
  const std::vector<Distance>& distances_to(std::uint32_t target) const {
    const auto known = kept_.find(target);
    if (known != kept_.end()) return known->second;
    if ((kept_.size() + 1) * out_.vertices() * sizeof(Distance) > MostKept) kept_.clear();
    std::vector<Distance>& distance = kept_[target];
    distance.assign(out_.vertices(), Far);
    distance[target] = 0;
    std::vector<std::uint32_t> queue{target};
    for (std::size_t i = 0; i < queue.size(); ++i)
      for (const Hop& hop : in_.from(queue[i])) {
        if (distance[hop.to] != Far) continue;
        distance[hop.to] = static_cast<Distance>(distance[queue[i]] + 1);
        queue.push_back(hop.to);
      }
    return distance;
  }

  Adjacency out_, in_;
  GraphRouting routing_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> accelerators_;                      // vertices
  mutable std::map<std::uint32_t, std::vector<Distance>> kept_;  // by target; not shared between threads
};

}  // namespace

std::unique_ptr<const Router> graph_router(const Topology& topology, GraphRouting routing, std::uint64_t seed,
                                           const std::vector<bool>& usable) {
  return std::make_unique<GraphRouter>(topology, routing, seed, usable);
}

}  // namespace syncline
