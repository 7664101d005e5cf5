// Dragonfly and dragonfly+: groups of routers that are joined all to all, by way of one cable or a few.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/topology/fabric.hpp"

namespace syncline {
namespace {

/// Counts, as unsigned numbers.
struct Plan {
  std::uint32_t groups, leaves, spines, endpoints, global;
  std::uint32_t cables = 0;  // between each two groups

  /// Routers of a group that hold its cables to others: the spines, or where there are none all.
  [[nodiscard]] std::uint32_t exits() const { return spines > 0 ? spines : leaves; }
  [[nodiscard]] std::uint32_t routers() const { return leaves + spines; }
};

Plan plan_of(const DragonflySpec& spec, std::size_t endpoints) {
  const auto count = [](int value) { return static_cast<std::uint32_t>(value); };
  Plan plan{count(spec.groups), count(spec.routers), count(spec.spines), count(spec.endpoints),
            count(spec.global)};
  const std::size_t of_group = std::size_t{plan.leaves} * plan.endpoints;
  if (plan.groups == 0) plan.groups = static_cast<std::uint32_t>((endpoints + of_group - 1) / of_group);
  if (plan.groups * of_group < endpoints)
    refuse(fmt::format(
        "a dragonfly of {} groups of {} routers with {} endpoints each holds {}, but there are {} to place; "
        "try groups: {} (or 0: as few as needed)",
        plan.groups, plan.leaves, plan.endpoints, plan.groups * of_group, endpoints,
        (endpoints + of_group - 1) / of_group));
  if (plan.groups == 1) return plan;
  plan.cables = plan.exits() * plan.global / (plan.groups - 1);
  if (plan.cables == 0)
    refuse(fmt::format(
        "{} groups need {} cables out of each, one to every other, but a group has {} × {} = {}; try a "
        "larger scale-out.global, or fewer groups",
        plan.groups, plan.groups - 1, plan.exits(), plan.global, plan.exits() * plan.global));
  if (plan.groups == 2 && spec.routing == DragonflyRouting::Valiant)
    refuse(fmt::format(
        "scale-out.routing is valiant, which goes by way of a third group, and there are 2 for {} endpoints; "
        "try routing: minimal, or groups: 3",
        endpoints));
  return plan;
}

class Dragonfly : public Fabric {
 public:
  Dragonfly(Topology& topology, const DragonflySpec& spec, const Endpoints& endpoints)
      : plan_(plan_of(spec, endpoints.vertices.size())), routing_(spec.routing), seed_(spec.seed) {
    std::vector<VertexId> routers;
    for (std::uint32_t group = 0; group < plan_.groups; ++group)
      for (std::uint32_t i = 0; i < plan_.routers(); ++i) {
        const bool spine = i >= plan_.leaves;
        routers.push_back(topology.add_vertex(
            VertexKind::Switch,
            fmt::format("group{}.{}{}", group, spine ? "spine" : "router", spine ? i - plan_.leaves : i)));
      }
    const auto router = [&](std::uint32_t group, std::uint32_t i) {
      return routers[group * plan_.routers() + i];
    };
    first_endpoint_ = next_link(topology);
    for (std::uint32_t e = 0; e < endpoints.vertices.size(); ++e)
      topology.add_cable(endpoints.vertices[e], router(group_of(e), leaf_of(e)), spec.link,
                         LinkKind::ScaleOut);
    first_local_ = next_link(topology);
    for (std::uint32_t group = 0; group < plan_.groups; ++group)
      for (std::uint32_t low = 0; low < plan_.leaves; ++low) {
        const std::uint32_t begin = plan_.spines > 0 ? plan_.leaves : low + 1;
        for (std::uint32_t high = begin; high < plan_.routers(); ++high)
          topology.add_cable(router(group, low), router(group, high), spec.link, LinkKind::ScaleOut);
      }
    first_global_ = next_link(topology);
    for (std::uint32_t low = 0; low < plan_.groups; ++low)
      for (std::uint32_t high = low + 1; high < plan_.groups; ++high)
        for (std::uint32_t cable = 0; cable < plan_.cables; ++cable)
          topology.add_cable(router(low, exit(low, high, cable)), router(high, exit(high, low, cable)),
                             spec.global_link.value_or(spec.link), LinkKind::ScaleOut);
  }

  /// Minimal: inside the source's group to a router with a cable to the target's, over it, and inside to the target. Of
  /// several cables, and of the spines of a dragonfly+, a hash of the flow takes one. Valiant: the same twice, by way of
  /// a third group (Valiant, SIAM J. Comput. 11, 1982).
  void route(std::uint32_t source, std::uint32_t target, std::vector<LinkId>& links) const override {
    if (source == target) return;
    links.emplace_back(first_endpoint_ + 2 * source);
    const std::uint32_t from = group_of(source), to = group_of(target);
    std::uint32_t at = leaf_of(source);
    if (from == to) {
      go_inside(from, at, leaf_of(target), hash(source, target, 0), links);
    } else if (routing_ == DragonflyRouting::Valiant) {
      std::uint32_t by = static_cast<std::uint32_t>(hash(source, target, 1) % (plan_.groups - 2));
      for (const std::uint32_t end : {std::min(from, to), std::max(from, to)}) by += by >= end ? 1 : 0;
      at = go_over(from, at, by, hash(source, target, 2), links);
      at = go_over(by, at, to, hash(source, target, 3), links);
      go_inside(to, at, leaf_of(target), hash(source, target, 4), links);
    } else {
      at = go_over(from, at, to, hash(source, target, 2), links);
      go_inside(to, at, leaf_of(target), hash(source, target, 4), links);
    }
    links.emplace_back(first_endpoint_ + 2 * target + 1);
  }

  [[nodiscard]] std::string description() const override {
    if (plan_.groups == 1) return "minimal: all in one group";
    return routing_ == DragonflyRouting::Valiant
               ? fmt::format("by way of a third group (Valiant, seed {})", seed_)
               : fmt::format("minimal: one cable between groups, by a hash (seed {}) where there are several",
                             seed_);
  }

 private:
  static std::uint32_t next_link(const Topology& topology) {
    return static_cast<std::uint32_t>(topology.links().size());
  }
  [[nodiscard]] std::uint64_t hash(std::uint32_t source, std::uint32_t target, std::uint32_t salt) const {
    return flow_hash(seed_, source, target, salt);
  }
  [[nodiscard]] std::uint32_t group_of(std::uint32_t endpoint) const {
    return endpoint / (plan_.leaves * plan_.endpoints);
  }
  [[nodiscard]] std::uint32_t leaf_of(std::uint32_t endpoint) const {
    return endpoint / plan_.endpoints % plan_.leaves;
  }
  /// The router of `group` that holds its cable to another: cables are dealt round the routers.
  [[nodiscard]] std::uint32_t exit(std::uint32_t group, std::uint32_t other, std::uint32_t cable) const {
    const std::uint32_t others = plan_.groups - 1;
    const std::uint32_t port = (other + others - group) % plan_.groups * plan_.cables + cable;
    return (plan_.spines > 0 ? plan_.leaves : 0) + port % plan_.exits();
  }

  /// Link from one router of a group to another that is joined to it.
  [[nodiscard]] LinkId local(std::uint32_t group, std::uint32_t from, std::uint32_t to) const {
    const auto [low, high] = std::minmax(from, to);
    const std::uint32_t a = plan_.leaves;
    const bool plus = plan_.spines > 0;
    const std::uint32_t of_group = plus ? a * plan_.spines : a * (a - 1) / 2;
    const std::uint32_t at =
        plus ? low * plan_.spines + (high - a) : low * (2 * a - low - 1) / 2 + (high - low - 1);
    return LinkId(first_local_ + 2 * (group * of_group + at) + (from > to ? 1 : 0));
  }

  void go_inside(std::uint32_t group, std::uint32_t from, std::uint32_t to, std::uint64_t choice,
                 std::vector<LinkId>& links) const {
    if (from == to) return;
    const bool both_leaves = from < plan_.leaves && to < plan_.leaves;
    const bool both_spines = from >= plan_.leaves && to >= plan_.leaves;
    if (plan_.spines == 0 || (!both_leaves && !both_spines)) {
      links.push_back(local(group, from, to));
      return;
    }
    const std::uint32_t middle = both_leaves
                                     ? plan_.leaves + static_cast<std::uint32_t>(choice % plan_.spines)
                                     : static_cast<std::uint32_t>(choice % plan_.leaves);
    links.push_back(local(group, from, middle));
    links.push_back(local(group, middle, to));
  }

  /// From a router of one group to the other end of a cable to the next; returns the router reached.
  std::uint32_t go_over(std::uint32_t group, std::uint32_t from, std::uint32_t next, std::uint64_t choice,
                        std::vector<LinkId>& links) const {
    const auto cable = static_cast<std::uint32_t>(choice % plan_.cables);
    go_inside(group, from, exit(group, next, cable), choice, links);
    const auto [low, high] = std::minmax(group, next);
    const std::uint32_t pair = low * (2 * plan_.groups - low - 1) / 2 + (high - low - 1);
    links.emplace_back(first_global_ + 2 * (pair * plan_.cables + cable) + (group > next ? 1 : 0));
    return exit(next, group, cable);
  }

  Plan plan_;
  DragonflyRouting routing_;
  std::uint64_t seed_;
  std::uint32_t first_endpoint_ = 0, first_local_ = 0, first_global_ = 0;
};

}  // namespace

std::unique_ptr<const Fabric> build_dragonfly(Topology& topology, const DragonflySpec& spec,
                                              const Endpoints& endpoints) {
  return std::make_unique<Dragonfly>(topology, spec, endpoints);
}

}  // namespace syncline
