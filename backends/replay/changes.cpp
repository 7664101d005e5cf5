#include "backends/replay/changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "sim/core/error.hpp"
#include "sim/topology/apply_faults.hpp"

namespace syncline {
namespace {

/// The links that are down at a date, ascending.
std::vector<LinkId> down_at(const Cluster& cluster, Seconds date) {
  std::vector<LinkId> down;
  for (const Fault& fault : cluster.faults) {
    if (!fault.down || (fault.at && *fault.at > date)) continue;
    const std::vector<LinkId> links = links_of(cluster.topology, fault);
    down.insert(down.end(), links.begin(), links.end());
  }
  std::ranges::sort(down);
  return down;
}

}  // namespace

std::vector<Change> changes_of(const Cluster& cluster) {
  std::vector<Change> changes;
  for (std::size_t i = 0; i < cluster.faults.size(); ++i) {
    const Fault& fault = cluster.faults[i];
    if (!fault.at) continue;
    if (fault.part == Fault::Part::Accelerator) {
      if (fault.down)
        throw std::invalid_argument(
            fmt::format("accelerator \"{}\" goes down within the step, and a synchronous job stops there: "
                        "there is no step to "
                        "predict; leave out \"at\", so that its ranks are placed on others",
                        fault.name));
      changes.push_back({*fault.at, Change::Kind::Slow, i});
      continue;
    }
    Change change{*fault.at, fault.down ? Change::Kind::Stop : Change::Kind::Narrow, i,
                  links_of(cluster.topology, fault)};
    if (!fault.down) {
      const std::vector<LinkId> down = down_at(cluster, *fault.at);
      std::erase_if(change.links, [&](LinkId link) { return std::ranges::binary_search(down, link); });
    }
    changes.push_back(std::move(change));
    if (!fault.down) continue;
    const Seconds known = *fault.at + fault.reroute;
    changes.push_back(
        {known, Change::Kind::Reroute, i, {}, routes_at(cluster.topology, cluster.faults, known)});
  }
  std::ranges::stable_sort(changes, {}, &Change::date);
  return changes;
}

std::size_t rank_on(const Cluster& cluster, const Fault& fault) {
  const Topology& topology = cluster.topology;
  const auto holds = [&](AcceleratorId id) {
    return topology.vertex(topology.accelerators()[id.value()]).name == fault.name;
  };
  return static_cast<std::size_t>(std::ranges::find_if(cluster.placement, holds) - cluster.placement.begin());
}

// From the one that sends more than it receives to the one that receives more than it sends: all between pass
// on.
void take_present_way(const Topology& topology, std::vector<LinkUse>& uses) {
  std::map<VertexId, double> sent;
  for (const LinkUse& use : uses) {
    sent[topology.link(use.link).from] += use.coefficient;
    sent[topology.link(use.link).to] -= use.coefficient;
  }
  const auto [target, source] =
      std::ranges::minmax_element(sent, {}, [](const auto& entry) { return entry.second; });
  const auto accelerator = [&](VertexId vertex) {
    const auto at = std::ranges::lower_bound(topology.accelerators(), vertex);
    SYNCLINE_CHECK(at != topology.accelerators().end() && *at == vertex,
                   "a transfer that does not end at accelerators");
    return AcceleratorId(static_cast<std::size_t>(at - topology.accelerators().begin()));
  };
  const AcceleratorId from = accelerator(source->first), to = accelerator(target->first);
  uses.clear();
  topology.router().load(from, to, uses);
}

}  // namespace syncline
