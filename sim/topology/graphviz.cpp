// Graphviz, out.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <map>
#include <ostream>
#include <utility>

#include "sim/core/units.hpp"
#include "sim/topology/export.hpp"

namespace syncline {

void write_dot(std::ostream& out, const Topology& topology) {
  static constexpr const char* Colours[]{"#2f7d32", "#8a6d3b", "#1f5fa8"};  // by kind of link
  static constexpr const char* Shapes[]{"box", "ellipse", "hexagon"};       // by kind of vertex
  fmt::print(out, "graph \"{}\" {{\n  rankdir=BT;\n  node [fontname=\"sans-serif\", fontsize=10];\n",
             topology.name());
  for (const Vertex& vertex : topology.vertices())
    fmt::print(out, "  \"{}\" [shape={}];\n", vertex.name, Shapes[static_cast<std::size_t>(vertex.kind)]);
  std::map<std::uint32_t, std::string> levels;  // switches of one level stand side by side
  for (const Vertex& vertex : topology.vertices())
    if (vertex.kind == VertexKind::Switch && vertex.level > 0)
      levels[vertex.level] += fmt::format(" \"{}\";", vertex.name);
  for (const auto& [level, names] : levels) fmt::print(out, "  {{ rank=same;{} }}\n", names);
  std::map<std::pair<VertexId, VertexId>, std::pair<LinkId, int>> bundles;
  for (std::size_t id = 0; id < topology.links().size(); ++id) {
    const Link& link = topology.links()[id];
    const auto [bundle, added] = bundles.try_emplace({link.from, link.to}, LinkId(id), 0);
    ++bundle->second.second;
  }
  for (const auto& [ends, bundle] : bundles) {
    const bool both = bundles.contains({ends.second, ends.first});
    if (both && ends.second < ends.first) continue;
    const Link& link = topology.link(bundle.first);
    fmt::print(out, "  \"{}\" -- \"{}\" [color=\"{}\", label=\"{}{}\"{}];\n",
               topology.vertex(ends.first).name, topology.vertex(ends.second).name,
               Colours[static_cast<std::size_t>(link.kind)],
               bundle.second > 1 ? fmt::format("{} x ", bundle.second) : "", to_text(link.nominal),
               both ? "" : ", dir=forward");
  }
  fmt::print(out, "}}\n");
}

}  // namespace syncline
