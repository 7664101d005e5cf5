// Fabrics without shared links: one ideal switch, or a cable between every two endpoints.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "sim/topology/fabric.hpp"

namespace syncline {
namespace {

class IdealSwitch : public Fabric {
 public:
  IdealSwitch(Topology& topology, const LinkSpec& link, const Endpoints& endpoints)
      : first_link_(static_cast<std::uint32_t>(topology.links().size())) {
    const VertexId hub = topology.add_vertex(VertexKind::Switch, "fabric");
    for (const VertexId endpoint : endpoints.vertices)
      topology.add_cable(endpoint, hub, link, LinkKind::ScaleOut);
  }

  void route(std::uint32_t source, std::uint32_t target, std::vector<LinkId>& links) const override {
    if (source == target) return;
    links.emplace_back(first_link_ + 2 * source);
    links.emplace_back(first_link_ + 2 * target + 1);
  }

  [[nodiscard]] std::string description() const override { return "through one ideal switch"; }

 private:
  std::uint32_t first_link_;
};

class FullMesh : public Fabric {
 public:
  FullMesh(Topology& topology, const LinkSpec& link, const Endpoints& endpoints)
      : first_link_(topology.links().size()), size_(endpoints.vertices.size()) {
    for (std::size_t low = 0; low < size_; ++low) {
      for (std::size_t high = low + 1; high < size_; ++high) {
        topology.add_cable(endpoints.vertices[low], endpoints.vertices[high], link, LinkKind::ScaleOut);
      }
    }
  }

  void route(std::uint32_t source, std::uint32_t target, std::vector<LinkId>& links) const override {
    if (source == target) return;
    const std::size_t low = std::min(source, target), high = std::max(source, target);
    const std::size_t cable = low * (2 * size_ - low - 1) / 2 + (high - low - 1);  // row by row
    links.emplace_back(first_link_ + 2 * cable + (source > target ? 1 : 0));
  }

  [[nodiscard]] std::string description() const override { return "over the direct link"; }

 private:
  std::size_t first_link_, size_;
};

}  // namespace

std::unique_ptr<const Fabric> build_all_to_all(Topology& topology, const AllToAllSpec& spec,
                                               const Endpoints& endpoints) {
  if (spec.kind == AllToAllSpec::Kind::IdealSwitch) {
    return std::make_unique<IdealSwitch>(topology, spec.link, endpoints);
  }
  const std::size_t count = endpoints.vertices.size();
  if (count * (count - 1) > MostMeshLinks) {
    refuse(fmt::format(
        "a full-mesh of {} endpoints would have {} links, more than the {} that are built; try fabric: "
        "ideal-switch",
        count, count * (count - 1), MostMeshLinks));
  }
  return std::make_unique<FullMesh>(topology, spec.link, endpoints);
}

}  // namespace syncline
