#include "sim/topology/topology.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/core/error.hpp"
#include "sim/topology/export.hpp"

namespace syncline {

std::string_view word_of(VertexKind kind) {
  static constexpr std::string_view Words[]{"accelerator", "nic", "switch"};
  return Words[static_cast<std::size_t>(kind)];
}
std::string_view word_of(LinkKind kind) {
  static constexpr std::string_view Words[]{"scale-up", "host-bus", "scale-out"};
  return Words[static_cast<std::size_t>(kind)];
}

std::string_view word_of(GraphRouting routing) {
  static constexpr std::string_view Words[]{"shortest", "ecmp", "spray"};
  return Words[static_cast<std::size_t>(routing)];
}

VertexId Topology::add_vertex(VertexKind kind, std::string name, std::uint32_t node, std::uint8_t level) {
  const VertexId id(vertices_.size());
  vertices_.push_back({kind, level, node, std::move(name)});
  if (kind == VertexKind::Accelerator) accelerators_.push_back(id);
  return id;
}

LinkId Topology::add_link(VertexId from, VertexId to, const LinkSpec& spec, LinkKind kind) {
  SYNCLINE_CHECK(from.value() < vertices_.size() && to.value() < vertices_.size(),
                 "a link needs two known ends");
  const LinkId id(links_.size());
  links_.push_back({from, to, spec.usable(), spec.bandwidth, spec.latency, kind});
  return id;
}

LinkId Topology::add_cable(VertexId a, VertexId b, const LinkSpec& spec, LinkKind kind) {
  const LinkId forward = add_link(a, b, spec, kind);
  add_link(b, a, spec, kind);
  return forward;
}

std::string Topology::link_name(LinkId id) const {
  // Builders add parallel cables one after another, so the same pair of ends stands two ids away.
  const auto parallel = [&](std::size_t other) {
    return other < links_.size() && links_[other].from == link(id).from && links_[other].to == link(id).to;
  };
  const std::size_t at = id.value();
  std::size_t before = 0;
  while (at >= 2 * (before + 1) && parallel(at - 2 * (before + 1))) ++before;
  const std::string name = fmt::format("{} → {}", vertex(link(id).from).name, vertex(link(id).to).name);
  return before > 0 || parallel(at + 2) ? fmt::format("{} #{}", name, before) : name;
}

std::vector<LinkId> Topology::route(AcceleratorId source, AcceleratorId target) const {
  std::vector<LinkId> links;
  router_->route(source, target, links);
  return links;
}

Seconds Topology::latency(std::span<const LinkId> route) const {
  Seconds sum;
  for (const LinkId id : route) sum += link(id).latency;
  return sum;
}

Seconds Topology::latency(std::span<const LinkUse> uses) const {
  Seconds sum;
  for (const LinkUse& use : uses) sum += link(use.link).latency * use.coefficient;
  return sum;
}

double Topology::seconds_per_byte(std::span<const LinkUse> uses) const {
  double most = 0;
  for (const LinkUse& use : uses) most = std::max(most, use.coefficient / link(use.link).bandwidth.si());
  return most;
}

void Router::load(AcceleratorId source, AcceleratorId target, std::vector<LinkUse>& uses) const {
  std::vector<LinkId> links;
  route(source, target, links);
  add_plain(links, uses);
}

}  // namespace syncline
