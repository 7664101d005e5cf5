// Fat tree: folded Clos network of equal switches with parallel cables where few switches above suffice. It
// is a "parallel ports generalised fat tree" (PGFT): a switch of level l stands for a subtree of the leaves,
// several switches (replicas) for the same one; going up chooses a replica, going down a subtree.
//
// Source: E. Zahavi, "Fat-tree routing and node ordering providing contention free traffic for MPI global
// collectives", J. Parallel Distrib. Comput. 72 (2012), for the structure and for D-mod-k routing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "sim/core/error.hpp"
#include "sim/topology/fabric.hpp"

namespace syncline {
namespace {

constexpr int MostLevels = 16;
constexpr std::size_t MostSwitches = std::size_t{1} << 18;  // of one level

struct Ports {
  std::uint32_t down, up;
};

/// The largest split of `radix` ports whose ratio is exactly `oversubscription`.
Ports split_ports(int level, int radix, double oversubscription) {
  const int most_up = static_cast<int>(std::floor(radix / (1 + oversubscription) * (1 + 1e-12)));
  for (int up = most_up; up >= 1; --up) {
    const double down = up * oversubscription;
    if (std::abs(down - std::round(down)) < 1e-9 * down && std::round(down) >= 1) {
      return {static_cast<std::uint32_t>(std::round(down)), static_cast<std::uint32_t>(up)};
    }
  }
  const int nearest_up = std::clamp(most_up, 1, radix - 1);
  refuse(fmt::format(
      "scale-out.oversubscription {} of level {} is no ratio of whole ports of a switch of radix {}; "
      "near it is {}:{} = {:.4g}",
      oversubscription, level, radix, radix - nearest_up, nearest_up,
      static_cast<double>(radix - nearest_up) / nearest_up));
}

/// Level l of the tree, 1 = leaves; symbols as in the paper.
struct Level {
  std::uint32_t slots = 1;     // m_1 ... m_l: endpoint places below a switch of this level
  std::uint32_t replicas = 1;  // w_2 ... w_l: switches that stand for the same places
  std::uint32_t subtrees = 1;  // how many different sets of places there are
  std::uint32_t parents = 0;   // w_{l+1}: switches above, to each of which it has
  std::uint32_t cables = 0;    // p_{l+1}: parallel cables
  std::uint32_t first_link = 0;

  /// Id of the link up of a switch to one of its parents; the link down is the next id.
  [[nodiscard]] std::uint32_t uplink(std::uint32_t subtree, std::uint32_t replica, std::uint32_t parent,
                                     std::uint32_t cable) const {
    const std::uint32_t at = subtree * replicas + replica;
    return first_link + 2 * ((at * parents + parent) * cables + cable);
  }
};

/// Where endpoints stand below the leaves. Rail-optimised: leaves come in groups of one a rail, and a group
/// serves `per_leaf` nodes. Otherwise leaves are filled in order.
struct Placement {
  std::uint32_t per_leaf;
  std::uint32_t rails;  // 1: not rail-optimised

  [[nodiscard]] std::uint32_t slot(std::uint32_t endpoint) const {
    if (rails == 1) return endpoint;
    const std::uint32_t node = endpoint / rails, rail = endpoint % rails;
    return (node / per_leaf * rails + rail) * per_leaf + node % per_leaf;
  }
  [[nodiscard]] std::uint32_t leaves(std::uint32_t endpoints) const {
    const std::uint32_t units = endpoints / rails;  // each takes one place on a leaf of every rail
    return (units + per_leaf - 1) / per_leaf * rails;
  }
};

struct Plan {
  Placement placement;
  std::vector<Level> levels;
};

std::uint32_t largest_divisor(std::uint32_t of, std::uint32_t at_most) {
  for (std::uint32_t divisor = std::min(of, at_most); divisor > 1; --divisor) {
    if (of % divisor == 0) return divisor;
  }
  return 1;
}

class Planner {
 public:
  Planner(const FatTreeSpec& spec, const Endpoints& endpoints)
      : spec_(spec),
        radix_(static_cast<std::uint32_t>(spec.radix)),
        endpoints_(static_cast<std::uint32_t>(endpoints.vertices.size())),
        rails_(spec.rail_optimised ? endpoints.per_node : 1) {}

  /// The tree of the wanted number of levels, or of as few as will do.
  [[nodiscard]] Plan plan() const {
    if (spec_.levels > MostLevels) {
      refuse(fmt::format("scale-out.levels must be at most {}, not {}", MostLevels, spec_.levels));
    }
    if (spec_.levels > 0) {
      if (std::optional<Plan> plan = with_levels(spec_.levels)) return *plan;
    }
    for (int levels = std::max(1, spec_.levels); levels <= MostLevels; ++levels) {
      const std::optional<Plan> plan = with_levels(levels);
      if (!plan) continue;
      if (spec_.levels == 0) return *plan;
      refuse(fmt::format(
          "a fat-tree of {} levels and radix {} is too small for {} NICs; try levels: {} (or 0: as few "
          "as needed)",
          spec_.levels, spec_.radix, endpoints_, levels));
    }
    refuse(fmt::format(
        "a fat-tree of switches of radix {} cannot be made large enough for {} NICs; try a larger radix",
        spec_.radix, endpoints_));
  }

 private:
  [[nodiscard]] Ports ports(int level) const {
    const auto at = static_cast<std::size_t>(level - 1);
    return split_ports(level, spec_.radix,
                       at < spec_.oversubscription.size() ? spec_.oversubscription[at] : 1.0);
  }

  [[nodiscard]] std::optional<Plan> with_levels(int count) const {
    if (count == 1) {
      if (endpoints_ > radix_) return std::nullopt;
      return Plan{{endpoints_, 1}, {Level{.slots = endpoints_}}};
    }
    Plan plan{{std::min(ports(1).down, endpoints_ / rails_), rails_}, {}};
    plan.levels.push_back({.slots = plan.placement.per_leaf, .subtrees = plan.placement.leaves(endpoints_)});
    for (int level = 2; level <= count; ++level) {
      Level& below = plan.levels.back();
      const std::uint32_t down = level < count ? ports(level).down : radix_;
      const std::uint32_t up_of_below = ports(level - 1).up;
      if (level == count && below.subtrees > down) return std::nullopt;
      const std::uint32_t children = std::min(down, below.subtrees);
      below.cables = largest_divisor(up_of_below, down / children);
      below.parents = up_of_below / below.cables;
      const Level next{.slots = below.slots * children,
                       .replicas = below.replicas * below.parents,
                       .subtrees = (below.subtrees + children - 1) / children};
      if (std::size_t{next.replicas} * next.subtrees > MostSwitches) {
        refuse(fmt::format(
            "a fat-tree of {} levels would have more than {} switches at level {}; try fewer levels", count,
            MostSwitches, level));
      }
      plan.levels.push_back(next);
    }
    return plan;
  }

  const FatTreeSpec& spec_;
  std::uint32_t radix_, endpoints_, rails_;
};

std::string switch_name(const std::string& prefix, std::size_t level, std::uint32_t index) {
  static constexpr const char* Names[] = {"leaf", "spine", "core"};
  return prefix + (level <= std::size(Names) ? fmt::format("{}{}", Names[level - 1], index)
                                             : fmt::format("level{}.{}", level, index));
}

class FatTree : public Fabric {
 public:
  /// @param prefix  of the switches' names
  FatTree(Topology& topology, const FatTreeSpec& spec, const Endpoints& endpoints, Plan plan,
          const std::string& prefix)
      : placement_(plan.placement),
        levels_(std::move(plan.levels)),
        routing_(spec.routing),
        seed_(spec.seed) {
    const LinkSpec& link = spec.link;
    const std::vector<std::vector<VertexId>> switches = add_switches(topology, prefix);
    first_link_ = static_cast<std::uint32_t>(topology.links().size());
    for (std::uint32_t e = 0; e < endpoints.vertices.size(); ++e) {
      const VertexId leaf = switches[0][placement_.slot(e) / placement_.per_leaf];
      topology.add_cable(endpoints.vertices[e], leaf, link, LinkKind::ScaleOut);
    }
    for (std::size_t l = 0; l + 1 < levels_.size(); ++l)
      add_uplinks(topology, link, l, switches[l], switches[l + 1]);
  }

  /// Up to the nearest common level and down again. D-mod-k: the port up is a digit of the target's place, so
  /// that traffic to different targets spreads, and every target is reached from any switch level by one
  /// switch. ECMP: each switch on the way takes a port by its own hash of the flow. Of sprayed traffic the path is one of
  /// many: that of D-mod-k.
  void route(std::uint32_t source, std::uint32_t target, std::vector<LinkId>& links) const override {
    if (source == target) return;
    const std::uint32_t from = placement_.slot(source), to = placement_.slot(target);
    const std::size_t turn = levels_below_common(from, to);
    links.resize(links.size() +
                 2 * (turn + 1));  // filled from both ends: up and down meet at the same switch
    auto up = links.end() - 2 * (static_cast<std::ptrdiff_t>(turn) + 1);
    auto down = links.end();
    *up++ = LinkId(first_link_ + 2 * source);
    *--down = LinkId(first_link_ + 2 * target + 1);
    std::uint32_t replica = 0;
    for (std::size_t l = 0; l < turn; ++l) {
      const Level& level = levels_[l];
      std::uint32_t port = to / level.replicas % (level.parents * level.cables);
      std::uint32_t cable_down = port / level.parents;
      if (routing_ == FatTreeRouting::Ecmp) {
        const auto salt = static_cast<std::uint32_t>(2 * l);
        port = flow_hash(seed_, source, target, salt) % (level.parents * level.cables);
        cable_down = flow_hash(seed_, source, target, salt + 1) % level.cables;
      }
      const std::uint32_t parent = port % level.parents, cable = port / level.parents;
      *up++ = LinkId(level.uplink(from / level.slots, replica, parent, cable));
      *--down = LinkId(level.uplink(to / level.slots, replica, parent, cable_down) + 1);
      replica += level.replicas * parent;
    }
  }

  /// Sprayed: every port up of every switch that the packets come by takes an equal part, and the same on the way down.
  void load(std::uint32_t source, std::uint32_t target, std::vector<LinkUse>& uses) const override {
    if (routing_ != FatTreeRouting::Spray || source == target) return Fabric::load(source, target, uses);
    const std::uint32_t from = placement_.slot(source), to = placement_.slot(target);
    const std::size_t turn = levels_below_common(from, to);
    uses.push_back({LinkId(first_link_ + 2 * source), 1.0});
    for (std::size_t l = 0; l < turn; ++l) {
      const Level& level = levels_[l];
      const double share = 1.0 / (static_cast<double>(level.replicas) * level.parents * level.cables);
      for (std::uint32_t replica = 0; replica < level.replicas; ++replica)
        for (std::uint32_t parent = 0; parent < level.parents; ++parent)
          for (std::uint32_t cable = 0; cable < level.cables; ++cable) {
            uses.push_back({LinkId(level.uplink(from / level.slots, replica, parent, cable)), share});
            uses.push_back({LinkId(level.uplink(to / level.slots, replica, parent, cable) + 1), share});
          }
    }
    uses.push_back({LinkId(first_link_ + 2 * target + 1), 1.0});
  }

  [[nodiscard]] std::string description() const override {
    if (levels_.size() == 1) return "through one switch";
    const std::string up = routing_ == FatTreeRouting::DModK ? "up by D-mod-k, then down"
                           : routing_ == FatTreeRouting::Ecmp
                               ? fmt::format("up by ECMP (seed {}), then down", seed_)
                               : "sprayed over all equal-cost paths";
    return fmt::format("{} ({} levels of switches)", up, levels_.size());
  }

  [[nodiscard]] bool has_rails() const override { return placement_.rails > 1; }

 private:
  /// Two places are below one switch of the level after so many.
  [[nodiscard]] std::size_t levels_below_common(std::uint32_t from, std::uint32_t to) const {
    std::size_t turn = 0;
    while (from / levels_[turn].slots != to / levels_[turn].slots) ++turn;
    return turn;
  }

  /// By level, then by subtree and replica.
  std::vector<std::vector<VertexId>> add_switches(Topology& topology, const std::string& prefix) const {
    std::vector<std::vector<VertexId>> switches(levels_.size());
    for (std::size_t l = 0; l < levels_.size(); ++l) {
      for (std::uint32_t i = 0; i < levels_[l].subtrees * levels_[l].replicas; ++i) {
        switches[l].push_back(topology.add_vertex(VertexKind::Switch, switch_name(prefix, l + 1, i), 0,
                                                  static_cast<std::uint8_t>(l + 1)));
      }
    }
    return switches;
  }

  void add_uplinks(Topology& topology, const LinkSpec& link, std::size_t l,
                   const std::vector<VertexId>& lower, const std::vector<VertexId>& upper) {
    Level& level = levels_[l];
    const Level& above = levels_[l + 1];
    level.first_link = static_cast<std::uint32_t>(topology.links().size());
    for (std::uint32_t at = 0; at < lower.size(); ++at) {
      const std::uint32_t subtree_above = at / level.replicas * level.slots / above.slots;
      for (std::uint32_t parent = 0; parent < level.parents; ++parent) {
        const std::uint32_t replica_above = at % level.replicas + level.replicas * parent;
        for (std::uint32_t cable = 0; cable < level.cables; ++cable) {
          topology.add_cable(lower[at], upper[subtree_above * above.replicas + replica_above], link,
                             LinkKind::ScaleOut);
        }
      }
    }
  }

  Placement placement_;
  std::vector<Level> levels_;
  FatTreeRouting routing_;
  std::uint64_t seed_;
  std::uint32_t first_link_ = 0;
};

/// A fat tree for the NICs of each rail, and nothing between them.
class RailOnly : public Fabric {
 public:
  RailOnly(Topology& topology, const FatTreeSpec& spec, const Endpoints& endpoints) {
    FatTreeSpec of_rail = spec;
    of_rail.rail_optimised = false;
    for (std::uint32_t rail = 0; rail < endpoints.per_node; ++rail) {
      std::vector<VertexId> members;
      for (std::size_t e = rail; e < endpoints.vertices.size(); e += endpoints.per_node)
        members.push_back(endpoints.vertices[e]);
      const Endpoints own{members, 1};
      rails_.push_back(std::make_unique<FatTree>(topology, of_rail, own, Planner(of_rail, own).plan(),
                                                 fmt::format("rail{}.", rail)));
    }
  }

  void route(std::uint32_t source, std::uint32_t target, std::vector<LinkId>& links) const override {
    rail_of(source, target).route(place(source), place(target), links);
  }
  void load(std::uint32_t source, std::uint32_t target, std::vector<LinkUse>& uses) const override {
    rail_of(source, target).load(place(source), place(target), uses);
  }
  [[nodiscard]] std::string description() const override {
    return "each rail by itself " + rails_.front()->description();
  }
  [[nodiscard]] bool has_rails() const override { return true; }

 private:
  [[nodiscard]] std::uint32_t place(std::uint32_t endpoint) const {
    return endpoint / static_cast<std::uint32_t>(rails_.size());
  }
  [[nodiscard]] const Fabric& rail_of(std::uint32_t source, std::uint32_t target) const {
    SYNCLINE_CHECK(source % rails_.size() == target % rails_.size(), "nothing joins two rails");
    return *rails_[source % rails_.size()];
  }

  std::vector<std::unique_ptr<const FatTree>> rails_;
};

}  // namespace

std::unique_ptr<const Fabric> build_fat_tree(Topology& topology, const FatTreeSpec& spec,
                                             const Endpoints& endpoints) {
  if (spec.rail_only) return std::make_unique<RailOnly>(topology, spec, endpoints);
  return std::make_unique<FatTree>(topology, spec, endpoints, Planner(spec, endpoints).plan(), "");
}

}  // namespace syncline
