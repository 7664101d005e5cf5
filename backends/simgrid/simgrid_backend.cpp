#include "backends/simgrid/simgrid_backend.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <vector>

#include "backends/replay/replay.hpp"
#include "backends/simgrid/fluid_network.hpp"
#include "backends/simgrid/native_network.hpp"
#include "sim/topology/apply_faults.hpp"

namespace syncline {
namespace {

void check_native(const Cluster& cluster) {
  for (const Fault& fault : cluster.faults)
    if (fault.at && fault.part != Fault::Part::Accelerator)
      throw std::invalid_argument(
          fmt::format("\"{}\" fails within the step, and the links of SimGrid's native network stay "
                      "as they are; ask for the fluid network, or leave out \"at\"",
                      fault.name));
}

constexpr const char* NotFolded = "do not fold (run.fold: false, and no --fold)";

/// What a fault leaves of the links at accelerators and NICs.
using SharesAt = std::map<VertexId, std::vector<double>>;

/// Whether it is of links at accelerators and NICs of nodes that hold ranks, all of a kind with as many links that have
/// as little left.
bool alike_for_all(const SharesAt& left, const Cluster& cluster) {
  std::set<std::uint32_t> used;  // nodes
  for (const AcceleratorId id : cluster.placement) used.insert(cluster.topology.node_of(id));
  std::map<VertexKind, std::vector<double>> first;
  const std::span<const Vertex> vertices = cluster.topology.vertices();
  for (std::size_t v = 0; v < vertices.size(); ++v) {
    if (vertices[v].kind == VertexKind::Switch || !used.contains(vertices[v].node)) continue;
    const auto found = left.find(VertexId(v));
    const std::vector<double> own = found == left.end() ? std::vector<double>() : found->second;
    if (first.try_emplace(vertices[v].kind, own).first->second != own) return false;
  }
  return true;
}

/// The fault that makes ranks of a role differ, if one does. Of an accelerator that is down there are no ranks.
const Fault* uneven_fault(const Cluster& cluster) {
  SharesAt left;
  const Fault* last = nullptr;
  for (const Fault& fault : cluster.faults) {
    if (fault.part == Fault::Part::Accelerator && fault.down && !fault.at) continue;
    if (fault.at || fault.part == Fault::Part::Accelerator) return &fault;
    for (const LinkId link : links_of(cluster.topology, fault)) {
      const Link& its = cluster.topology.link(link);
      bool at_end = false;
      for (const VertexId end : {its.from, its.to}) {
        if (cluster.topology.vertex(end).kind == VertexKind::Switch) continue;
        left[end].push_back(fault.down ? 0 : fault.bandwidth);
        at_end = true;
      }
      if (!at_end) return &fault;
    }
    last = &fault;
  }
  return last == nullptr || alike_for_all(left, cluster) ? nullptr : last;
}

void check_fold(const Cluster& cluster) {
  if (!cluster.noise.none())
    throw std::invalid_argument(fmt::format(
        "with noise every rank is different, and none can stand for others; leave out noise, or {}",
        NotFolded));
  if (const Fault* fault = uneven_fault(cluster))
    throw std::invalid_argument(
        fmt::format("\"{}\" makes ranks of a role differ, so that none can stand for the others; "
                    "leave out that fault, or {}",
                    fault->name, NotFolded));
}

class SimgridBackend : public Backend {
 public:
  RunResult run(const Schedule& schedule, const Cluster& cluster, const RunOptions& options) override {
    const auto begin = std::chrono::steady_clock::now();
    const bool native = options.network == NetworkModel::Native;
    if (native && options.detail != Detail::Full)
      throw std::invalid_argument("SimGrid's native network carries plain flows only; ask for full detail");
    if (options.fold && options.detail != Detail::Aggregate)
      throw std::invalid_argument(
          "full detail plays every transfer of every rank and cannot be folded; ask for aggregate detail");
    if (native) check_native(cluster);
    if (options.fold) check_fold(cluster);
    const Cast cast = options.fold ? one_a_role(schedule) : everybody(schedule);
    const std::vector<BytesPerSecond> capacities = link_capacities(cluster.topology);
    std::unique_ptr<Network> network;
    if (native)
      network = std::make_unique<simgrid_backend::NativeNetwork>(capacities);
    else
      network = std::make_unique<simgrid_backend::FluidNetwork>(capacities, options.progress);
    RunResult result = replay(schedule, cluster, cast, options.detail, *network, options.timeline);
    result.engine.name =
        fmt::format("{}, {} network, {} detail", simgrid_version(), native ? "native" : "fluid",
                    options.detail == Detail::Full ? "full" : "aggregate");
    result.engine.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }
};

}  // namespace

std::unique_ptr<Backend> make_simgrid_backend() {
  return std::make_unique<SimgridBackend>();
}

std::string simgrid_version() {
  return simgrid_backend::simgrid_version();
}

}  // namespace syncline
