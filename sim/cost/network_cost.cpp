#include "sim/cost/network_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>

#include "sim/topology/measures.hpp"

namespace syncline {
namespace {

using namespace literals;

constexpr double RateTolerance = 1 + 1e-9;  // rates of files are decimal

std::string rate_text(BytesPerSecond rate) {
  return fmt::format("{:.4g} Gbit/s", rate / 1_Gbps);
}

std::optional<Price> times(const PricedPart& part, int count) {
  if (!part.usd) return std::nullopt;
  return Price{*part.usd * count, part.usd_low.value_or(*part.usd) * count,
               part.usd_high.value_or(*part.usd) * count};
}

/// The slowest part that is fast enough, of those the one with fewest ports; nullptr when there is none.
const PricedPart* find(const std::vector<PricedPart>& parts, BytesPerSecond rate, int ports = 1) {
  const PricedPart* best = nullptr;
  for (const PricedPart& part : parts) {
    if (part.rate * RateTolerance < rate || part.ports < ports) continue;
    if (best == nullptr || part.rate < best->rate || (part.rate == best->rate && part.ports < best->ports))
      best = &part;
  }
  return best;
}

class Bill {
 public:
  Bill(const Topology& topology, const PriceList& prices)
      : topology_(topology), prices_(prices), parts_(parts_of(topology)) {}

  NetworkCost made_out() {
    add_nics();
    add_switches();
    add_cables();
    NetworkCost cost{std::move(lines_), Price{}, Watts(0)};
    for (const CostLine& line : cost.lines) {
      if (cost.price && line.price)
        cost.price = Price{cost.price->typical + line.price->typical, cost.price->low + line.price->low,
                           cost.price->high + line.price->high};
      else
        cost.price.reset();
      if (cost.power && line.power)
        *cost.power += *line.power;
      else
        cost.power.reset();
    }
    return cost;
  }

 private:
  void add(std::string name, int count, const PricedPart* part, std::string_view missing) {
    if (count == 0) return;
    CostLine line{std::move(name), count, std::nullopt, std::nullopt, std::string(missing)};
    if (part != nullptr) {
      line.price = times(*part, count);
      if (part->power) line.power = *part->power * count;
      line.source = part->source;
    }
    lines_.push_back(std::move(line));
  }

  /// Bandwidth of the fastest cable between nodes with an end of that kind; 0 without any.
  BytesPerSecond fastest(VertexKind end) const {
    BytesPerSecond rate;
    for (const Parts::Cables& cables : parts_.cables)
      if (cables.kind == LinkKind::ScaleOut && (cables.from == end || cables.to == end))
        rate = std::max(rate, cables.bandwidth);
    return rate;
  }

  void add_nics() {
    if (parts_.nics == 0) return;
    const BytesPerSecond rate = fastest(VertexKind::Nic);
    if (rate == BytesPerSecond(0)) return;  // one node: nothing is joined
    add(fmt::format("NIC, {}", rate_text(rate)), parts_.nics, find(prices_.nics, rate),
        "no such NIC in the price list");
  }

  /// A switch alone that is no level of a tree: an ideal one, which stands for switches that are not known.
  bool has_ideal_switch() const {
    const auto between_nodes = [](const Parts::Switches& switches) {
      return switches.network == LinkKind::ScaleOut;
    };
    const auto first = std::ranges::find_if(parts_.switches, between_nodes);
    return first != parts_.switches.end() && first->level == 0 && first->count == 1 &&
           std::ranges::count_if(parts_.switches, between_nodes) == 1;
  }

  void add_switches() {
    const BytesPerSecond rate = fastest(VertexKind::Switch);
    if (has_ideal_switch()) return add("ideal switch", 1, nullptr, "stands for switches that are not known");
    for (const Parts::Switches& switches : parts_.switches) {
      if (switches.network != LinkKind::ScaleOut) continue;
      const PricedPart* part = find(prices_.switches, rate, switches.ports);
      const std::string level = switches.level > 0 ? fmt::format("level {} ", switches.level) : "";
      const std::string name =
          part != nullptr ? fmt::format("{}switch, {} of {} ports of {} used", level, switches.ports,
                                        part->ports, rate_text(part->rate))
                          : fmt::format("{}switch, {} ports of {}", level, switches.ports, rate_text(rate));
      add(name, switches.count, part, "no switch of so many ports at that rate in the price list");
    }
  }

  void add_cable(Medium medium, BytesPerSecond rate, int count) {
    if (medium == Medium::Copper)
      add(fmt::format("copper cable, {}", rate_text(rate)), count, find(prices_.copper, rate),
          "no such copper cable in the price list");
    else
      add(fmt::format("optical transceiver, {}, two a cable", rate_text(rate)), 2 * count,
          find(prices_.transceivers, rate), "no such transceiver in the price list");
  }

  /// Of all tori, where they are built with optical circuit switches; else 0.
  int optical_cables() const {
    const Shape& shape = topology_.shape();
    if (!prices_.optical_circuits ||
        static_cast<int>(shape.torus.size()) != prices_.optical_circuits->dimensions)
      return 0;
    const int of_one = std::accumulate(shape.torus.begin(), shape.torus.end(), 1, std::multiplies<>());
    return cables_between_blocks(shape.torus, shape.torus_wrap, prices_.optical_circuits->block) *
           (parts_.accelerators / of_one);
  }

  void add_cables() {
    const bool torus = !topology_.shape().torus.empty();
    std::map<std::pair<Medium, BytesPerSecond>, int> counts;
    for (const Parts::Cables& cables : parts_.cables) {
      const bool of_torus =
          torus && cables.from == VertexKind::Accelerator && cables.to == VertexKind::Accelerator;
      if (cables.kind != LinkKind::ScaleOut && !of_torus) continue;
      if (of_torus) {
        const int optical = optical_cables();
        counts[{Medium::Optics, cables.bandwidth}] += optical;
        counts[{prices_.between_endpoints, cables.bandwidth}] += cables.count - optical;
        if (optical > 0)
          add("port of an optical circuit switch", 2 * optical, &prices_.optical_circuits->port, "");
        continue;
      }
      const int switches =
          (cables.from == VertexKind::Switch ? 1 : 0) + (cables.to == VertexKind::Switch ? 1 : 0);
      const Medium media[]{prices_.between_endpoints, prices_.endpoint_to_switch, prices_.between_switches};
      counts[{media[switches], cables.bandwidth}] += cables.count;
    }
    for (const auto& [what, count] : counts) add_cable(what.first, what.second, count);
  }

  const Topology& topology_;
  const PriceList& prices_;
  Parts parts_;
  std::vector<CostLine> lines_;
};

}  // namespace

int cables_between_blocks(const std::vector<int>& shape, const std::vector<bool>& wrap, int block) {
  const int all = std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>());
  int cables = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const int n = shape[d];
    const bool closed = (wrap.empty() || wrap[d]) && n >= block;
    cables += all / n * ((n - 1) / block + (closed ? 1 : 0));
  }
  return cables;
}

NetworkCost network_cost(const Topology& topology, const PriceList& prices) {
  return Bill(topology, prices).made_out();
}

}  // namespace syncline
