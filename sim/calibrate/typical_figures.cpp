#include "sim/calibrate/typical_figures.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/calibrate/algorithm_lists.hpp"
#include "sim/calibrate/fabric_fit.hpp"

namespace syncline::calibrate {
namespace {

using Protocols = std::vector<ProtocolFigures>;

double median(const std::set<double>& values) {
  const auto middle = std::next(values.begin(), static_cast<std::ptrdiff_t>((values.size() - 1) / 2));
  return values.size() % 2 == 1 ? *middle : (*middle + *std::next(middle)) / 2;
}

/// Of one protocol, wherever it has figures.
ProtocolFigures median_of(const std::string& protocol, const std::vector<const ProtocolFigures*>& all) {
  const auto of = [&all](auto value_of) {
    std::set<double> values;
    for (const ProtocolFigures* one : all) values.insert(value_of(*one));
    return median(values);
  };
  return {.protocol = protocol,
          .call = Seconds(of([](const ProtocolFigures& one) { return one.call.si(); })),
          .hop_inside = Seconds(of([](const ProtocolFigures& one) { return one.hop_inside.si(); })),
          .hop_between = Seconds(of([](const ProtocolFigures& one) { return one.hop_between.si(); })),
          .share_inside = of([](const ProtocolFigures& one) { return one.share_inside; }),
          .share_between = of([](const ProtocolFigures& one) { return one.share_between; }),
          .own_block = of([](const ProtocolFigures& one) { return one.own_block; }),
          .wire = of([](const ProtocolFigures& one) { return one.wire; })};
}

Protocols median_of(const std::vector<const Protocols*>& systems) {
  Protocols typical;
  for (const Protocols* system : systems) {
    for (const ProtocolFigures& first : *system) {
      if (std::ranges::find(typical, first.protocol, &ProtocolFigures::protocol) != typical.end()) continue;
      std::vector<const ProtocolFigures*> same;
      for (const Protocols* other : systems)
        for (const ProtocolFigures& one : *other)
          if (one.protocol == first.protocol) same.push_back(&one);
      typical.push_back(median_of(first.protocol, same));
    }
  }
  return typical;
}

}  // namespace

TypicalFigures typical_figures(std::span<const TopologySpec> measured) {
  std::vector<const TopologySpec*> systems;
  for (const TopologySpec& spec : measured)
    if (spec.collectives) systems.push_back(&spec);
  if (systems.empty())
    throw std::invalid_argument("none of the topologies has figures of its communication library");
  TypicalFigures typical;
  for (const AlgorithmList algorithm : AlgorithmLists) {
    std::vector<const Protocols*> lists;
    for (const TopologySpec* system : systems) lists.push_back(&((*system->collectives).*algorithm));
    typical.collectives.*algorithm = median_of(lists);
  }
  std::set<double> inside, between;
  for (const TopologySpec* system : systems) {
    if (system->scale_up) inside.insert(efficiency_inside(*system));
    if (!std::holds_alternative<std::monostate>(system->scale_out))
      between.insert(efficiency_between(*system));
  }
  if (!inside.empty()) typical.efficiency_inside = median(inside);
  if (!between.empty()) typical.efficiency_between = median(between);
  return typical;
}

TopologySpec never_measured(TopologySpec spec, const TypicalFigures& typical) {
  const bool reduces = spec.collectives && !spec.collectives->in_network.empty();
  spec.collectives = typical.collectives;
  if (!reduces) spec.collectives->in_network.clear();
  set_efficiency(spec, typical.efficiency_inside, typical.efficiency_between);
  if (spec.scale_up)  // what a PCIe tree's inner links reach was measured too
    for (LinkSpec* link : {&spec.scale_up->pcie.uplink, &spec.scale_up->pcie.between_sockets})
      link->efficiency = typical.efficiency_inside;
  return spec;
}

}  // namespace syncline::calibrate
