#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <string_view>

#include "sim/topology/fabric.hpp"

namespace syncline {
namespace {

constexpr int MostAccelerators = 1 << 18;  // a typing error, not a cluster, is above this
constexpr int MostTorusDimensions = 8;

void check_link(std::string_view where, const LinkSpec& link) {
  const double bandwidth = link.bandwidth.si(), latency = link.latency.si();
  if (!(bandwidth > 0) || std::isinf(bandwidth)) {
    refuse(fmt::format("{}.bandwidth must be above 0, not {} B/s", where, bandwidth));
  }
  if (!(link.efficiency > 0 && link.efficiency <= 1)) {
    refuse(fmt::format("{}.efficiency must be above 0 and at most 1, not {}", where, link.efficiency));
  }
  if (!(latency >= 0) || std::isinf(latency)) {
    refuse(fmt::format("{}.latency must be 0 or more, not {} s", where, latency));
  }
}

void check_counts(const TopologySpec& spec) {
  if (spec.accelerators < 1) {
    refuse(fmt::format("accelerators must be at least 1, not {}", spec.accelerators));
  }
  if (spec.accelerators > MostAccelerators) {
    refuse(fmt::format("accelerators must be at most {}, not {}", MostAccelerators, spec.accelerators));
  }
  if (spec.accelerators_per_node < 1) {
    refuse(fmt::format("accelerators-per-node must be at least 1, not {}", spec.accelerators_per_node));
  }
  if (spec.accelerators % spec.accelerators_per_node != 0) {
    refuse(fmt::format("accelerators-per-node ({}) does not divide accelerators ({})",
                       spec.accelerators_per_node, spec.accelerators));
  }
}

void check_torus(std::string_view where, const TorusSpec& torus) {
  check_link(fmt::format("{}.link", where), torus.link);
  const std::size_t dimensions =
      torus.shape.empty() ? static_cast<std::size_t>(torus.dimensions) : torus.shape.size();
  if (dimensions < 1 || dimensions > MostTorusDimensions) {
    refuse(fmt::format("a torus has 1 to {} dimensions, not {}", MostTorusDimensions,
                       torus.shape.empty() ? torus.dimensions : static_cast<int>(dimensions)));
  }
  if (!torus.wrap.empty() && torus.wrap.size() != dimensions) {
    refuse(fmt::format("{}.wrap has {} entries for {} dimensions", where, torus.wrap.size(), dimensions));
  }
}

void check_pcie(const PcieSpec& pcie, int per_node) {
  const int hubs = pcie.switches > 0 ? pcie.switches : pcie.sockets;
  if (pcie.sockets < 1) refuse(fmt::format("scale-up.pcie.sockets must be at least 1, not {}", pcie.sockets));
  if (pcie.switches < 0 || (pcie.switches > 0 && pcie.switches % pcie.sockets != 0))
    refuse(fmt::format("scale-up.pcie.switches ({}) must be a multiple of sockets ({}), or 0: none",
                       pcie.switches, pcie.sockets));
  if (per_node % hubs != 0)
    refuse(fmt::format("scale-up.pcie: {} accelerators a node cannot be shared equally by {} {}", per_node,
                       hubs, pcie.switches > 0 ? "switches" : "sockets"));
  if (pcie.switches > 0) check_link("scale-up.pcie.uplink", pcie.uplink);
  if (pcie.sockets > 1) check_link("scale-up.pcie.between-sockets", pcie.between_sockets);
}

void check_scale_up(const ScaleUpSpec& scale_up, int accelerators, int per_node) {
  check_link("scale-up.link", scale_up.link);
  if (scale_up.kind == ScaleUpSpec::Kind::Torus) {
    check_torus("scale-up", torus_of(scale_up));
  } else if (scale_up.kind == ScaleUpSpec::Kind::Pcie) {
    check_pcie(scale_up.pcie, per_node);
  } else if (!scale_up.shape.empty() || !scale_up.wrap.empty()) {
    refuse("scale-up.shape and scale-up.wrap belong to kind: torus");
  }
  const auto links = static_cast<std::size_t>(accelerators) * static_cast<std::size_t>(per_node - 1);
  if (scale_up.kind == ScaleUpSpec::Kind::FullMesh && links > MostMeshLinks) {
    refuse(
        fmt::format("full-mesh nodes of {} would have {} links in all, more than the {} that are built; try "
                    "scale-up.kind: switch",
                    per_node, links, MostMeshLinks));
  }
}

void check_nic(const NicSpec& nic, int accelerators_per_node) {
  check_link("nic.host-bus", nic.host_bus);
  if (nic.per_node < 1 || accelerators_per_node % nic.per_node != 0) {
    refuse(fmt::format("nic.per-node ({}) must divide accelerators-per-node ({})", nic.per_node,
                       accelerators_per_node));
  }
}

struct CheckScaleOut {
  const TopologySpec& spec;

  void operator()(std::monostate) const {
    const int nodes = spec.accelerators / spec.accelerators_per_node;
    if (nodes > 1) {
      refuse(fmt::format(
          "{} nodes and no scale-out would be disconnected; add scale-out, or make it one node with "
          "accelerators-per-node: {}",
          nodes, spec.accelerators));
    }
  }

  void operator()(const FatTreeSpec& tree) const {
    check_link("scale-out.link", tree.link);
    if (!spec.nic) refuse("a fat-tree connects NICs, and nodes have none; add nic");
    if (tree.rail_only && spec.nic->per_node > 1 && !spec.scale_up)
      refuse(
          "a rail-only fat-tree joins nothing but NICs of equal index, so other accelerators meet inside "
          "nodes only; "
          "add scale-up");
    if (tree.radix < 2) refuse(fmt::format("scale-out.radix must be at least 2, not {}", tree.radix));
    if (tree.levels < 0) {
      refuse(fmt::format("scale-out.levels must be 0 (as few as needed) or more, not {}", tree.levels));
    }
    for (const double ratio : tree.oversubscription) {
      if (!(ratio > 0) || std::isinf(ratio)) {
        refuse(fmt::format("scale-out.oversubscription must be above 0, not {}", ratio));
      }
    }
  }

  void operator()(const TorusSpec& torus) const { check_torus("scale-out", torus); }

  void operator()(const AllToAllSpec& all) const { check_link("scale-out.link", all.link); }

  void operator()(const DragonflySpec& dragonfly) const {
    check_link("scale-out.link", dragonfly.link);
    if (dragonfly.global_link) check_link("scale-out.global-link", *dragonfly.global_link);
    const auto check = [](std::string_view key, int value, int low) {
      constexpr int Most = 4096;
      if (value < low || value > Most)
        refuse(fmt::format("scale-out.{} must be {} to {}, not {}", key, low, Most, value));
    };
    check("groups", dragonfly.groups, 0);
    check("routers", dragonfly.routers, 1);
    check("spines", dragonfly.spines, 0);
    check("endpoints", dragonfly.endpoints, 1);
    check("global", dragonfly.global, 1);
  }
};

void check_protocols(std::string_view algorithm, const std::vector<ProtocolFigures>& protocols) {
  for (const ProtocolFigures& figures : protocols) {
    for (const Seconds time : {figures.call, figures.hop_inside, figures.hop_between}) {
      if (!(time >= Seconds(0)) || std::isinf(time.si()))
        refuse(fmt::format("collectives.{}: times must be 0 or more, not {} s", algorithm, time.si()));
    }
    for (const double share : {figures.share_inside, figures.share_between}) {
      if (!(share > 0 && share <= 1))
        refuse(fmt::format("collectives.{}: shares must be above 0 and at most 1, not {}", algorithm, share));
    }
  }
}

void check_collectives(const CollectiveFigures& figures, const TopologySpec& spec) {
  check_protocols("ring", figures.ring);
  check_protocols("ring-all-reduce", figures.ring_all_reduce);
  check_protocols("ring-reduce-scatter", figures.ring_reduce_scatter);
  check_protocols("ring-broadcast", figures.ring_broadcast);
  check_protocols("ring-reduce", figures.ring_reduce);
  check_protocols("tree", figures.tree);
  check_protocols("in-network", figures.in_network);
  check_protocols("direct", figures.direct);
  check_protocols("send", figures.send);
  if (!figures.in_network.empty() && (!spec.scale_up || spec.scale_up->kind != ScaleUpSpec::Kind::Switch))
    refuse("collectives.in-network is the work of a scale-up switch, and there is none; remove it");
  if (figures.node_limit && !(*figures.node_limit > BytesPerSecond(0)))
    refuse(fmt::format("collectives.node-limit must be above 0, not {} B/s", figures.node_limit->si()));
}

}  // namespace

void refuse(const std::string& reason) {
  throw std::invalid_argument(reason);
}

void check_spec(const TopologySpec& spec) {
  check_counts(spec);
  if (spec.scale_up) check_scale_up(*spec.scale_up, spec.accelerators, spec.accelerators_per_node);
  if (spec.nic) check_nic(*spec.nic, spec.accelerators_per_node);
  std::visit(CheckScaleOut{spec}, spec.scale_out);
  if (spec.collectives) check_collectives(*spec.collectives, spec);
}

}  // namespace syncline
