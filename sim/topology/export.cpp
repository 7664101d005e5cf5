#include "sim/topology/export.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <pugixml.hpp>
#include <utility>

#include "sim/core/units.hpp"
#include "sim/topology/fabric.hpp"

namespace syncline {
namespace {

constexpr const char* VertexKinds[]{"accelerator", "nic", "switch"};
constexpr const char* LinkKinds[]{"scale-up", "host-bus", "scale-out"};

const char* name_of(VertexKind kind) { return VertexKinds[static_cast<std::size_t>(kind)]; }
const char* name_of(LinkKind kind) { return LinkKinds[static_cast<std::size_t>(kind)]; }

/// The other direction of the same cable, equal in all figures.
bool is_cable(const Topology& topology, std::size_t id) {
  if (id % 2 != 0 || id + 1 >= topology.links().size()) return false;
  const Link& there = topology.links()[id];
  const Link& back = topology.links()[id + 1];
  return there.from == back.to && there.to == back.from && there.bandwidth == back.bandwidth &&
         there.nominal == back.nominal && there.latency == back.latency && there.kind == back.kind;
}

struct Key {
  const char* id;
  const char* of;
};
constexpr Key Keys[]{{"kind", "node"},    {"node", "node"},    {"bandwidth", "edge"},
                     {"efficiency", "edge"}, {"latency", "edge"}, {"link-kind", "edge"}};

void add_data(pugi::xml_node to, const char* key, const std::string& value) {
  pugi::xml_node data = to.append_child("data");
  data.append_attribute("key") = key;
  data.text() = value.c_str();
}

}  // namespace

void write_graphml(std::ostream& out, const Topology& topology) {
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("graphml");
  root.append_attribute("xmlns") = "http://graphml.graphdrawing.org/xmlns";
  for (const Key& key : Keys) {
    pugi::xml_node node = root.append_child("key");
    node.append_attribute("id") = key.id;
    node.append_attribute("for") = key.of;
    node.append_attribute("attr.name") = key.id;
    node.append_attribute("attr.type") = "string";
  }
  pugi::xml_node graph = root.append_child("graph");
  graph.append_attribute("id") = topology.name().c_str();
  graph.append_attribute("edgedefault") = "undirected";
  for (const Vertex& vertex : topology.vertices()) {
    pugi::xml_node node = graph.append_child("node");
    node.append_attribute("id") = vertex.name.c_str();
    add_data(node, "kind", name_of(vertex.kind));
    if (vertex.kind != VertexKind::Switch) add_data(node, "node", fmt::format("node{}", vertex.node));
  }
  for (std::size_t id = 0; id < topology.links().size(); ++id) {
    const Link& link = topology.links()[id];
    const bool cable = is_cable(topology, id);
    pugi::xml_node edge = graph.append_child("edge");
    edge.append_attribute("source") = topology.vertex(link.from).name.c_str();
    edge.append_attribute("target") = topology.vertex(link.to).name.c_str();
    if (!cable) edge.append_attribute("directed") = "true";
    add_data(edge, "bandwidth", exact_text(link.nominal.si()) + "Bps");
    if (link.bandwidth != link.nominal) add_data(edge, "efficiency", exact_text(link.bandwidth / link.nominal));
    add_data(edge, "latency", exact_text(link.latency.si()) + "s");
    add_data(edge, "link-kind", name_of(link.kind));
    if (cable) ++id;
  }
  document.save(out, " ");
}

void write_dot(std::ostream& out, const Topology& topology) {
  static constexpr const char* Colours[]{"#2f7d32", "#8a6d3b", "#1f5fa8"};  // by kind of link
  static constexpr const char* Shapes[]{"box", "ellipse", "hexagon"};       // by kind of vertex
  fmt::print(out, "graph \"{}\" {{\n  rankdir=BT;\n  node [fontname=\"sans-serif\", fontsize=10];\n", topology.name());
  for (const Vertex& vertex : topology.vertices())
    fmt::print(out, "  \"{}\" [shape={}];\n", vertex.name, Shapes[static_cast<std::size_t>(vertex.kind)]);
  std::map<std::uint32_t, std::string> levels;  // switches of one level stand side by side
  for (const Vertex& vertex : topology.vertices())
    if (vertex.kind == VertexKind::Switch && vertex.level > 0) levels[vertex.level] += fmt::format(" \"{}\";", vertex.name);
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
    fmt::print(out, "  \"{}\" -- \"{}\" [color=\"{}\", label=\"{}{}\"{}];\n", topology.vertex(ends.first).name,
               topology.vertex(ends.second).name, Colours[static_cast<std::size_t>(link.kind)],
               bundle.second > 1 ? fmt::format("{} x ", bundle.second) : "", to_text(link.nominal),
               both ? "" : ", dir=forward");
  }
  fmt::print(out, "}}\n");
}

void write_simgrid_platform(std::ostream& out, const Topology& topology) {
  const std::size_t hosts = topology.accelerators().size();
  if (hosts > MostPlatformHosts)
    refuse(fmt::format("a SimGrid platform has a route for every pair of hosts: {} hosts are more than the {} that are "
                       "written; try fewer accelerators",
                       hosts, MostPlatformHosts));
  // SimGrid's settings of an even share without factors; simgrid.org/doc/latest/Configuring_SimGrid.html.
  static constexpr std::pair<const char*, const char*> Settings[]{
      {"network/model", "CM02"},      {"network/crosstraffic", "0"}, {"network/TCP-gamma", "1e300"},
      {"network/weight-S", "0"},      {"network/bandwidth-factor", "1"}, {"network/latency-factor", "1"},
      {"network/optim", "Full"},      {"smpi/bw-factor", "0:1"},       {"smpi/lat-factor", "0:1"},
      {"smpi/async-small-thresh", "0"}, {"smpi/send-is-detached-thresh", "0"},
      {"smpi/simulate-computation", "no"}};
  fmt::print(out, "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                  "<platform version=\"4.1\">\n  <config>\n");
  for (const auto& [key, value] : Settings) fmt::print(out, "    <prop id=\"{}\" value=\"{}\"/>\n", key, value);
  fmt::print(out, "  </config>\n  <zone id=\"{}\" routing=\"Full\">\n", topology.name());
  const auto host = [&](std::size_t i) { return topology.vertex(topology.accelerators()[i]).name; };
  for (std::size_t i = 0; i < hosts; ++i) fmt::print(out, "    <host id=\"{}\" speed=\"1Gf\"/>\n", host(i));
  for (std::size_t id = 0; id < topology.links().size(); ++id) {
    const Link& link = topology.links()[id];
    fmt::print(out, "    <link id=\"l{}\" bandwidth=\"{}Bps\" latency=\"{}s\"/>  <!-- {} -->\n", id,
               exact_text(link.bandwidth.si()), exact_text(link.latency.si()), topology.link_name(LinkId(id)));
  }
  std::vector<LinkUse> uses;
  for (std::size_t i = 0; i < hosts; ++i)
    for (std::size_t j = 0; j < hosts; ++j) {
      if (i == j) continue;
      uses.clear();
      topology.router().load(AcceleratorId(i), AcceleratorId(j), uses);
      fmt::print(out, "    <route src=\"{}\" dst=\"{}\" symmetrical=\"NO\">", host(i), host(j));
      for (const LinkUse& use : uses) {
        if (use.coefficient != 1)
          refuse("traffic is sprayed over several paths, for which a SimGrid platform has no word; try routing: d-mod-k or "
                 "ecmp");
        fmt::print(out, "<link_ctn id=\"l{}\"/>", use.link.value());
      }
      fmt::print(out, "</route>\n");
    }
  fmt::print(out, "  </zone>\n</platform>\n");
}

GraphSpec read_graphml(const std::string& text) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  const auto line_of = [&](std::ptrdiff_t offset) {
    return 1 + std::count(text.begin(), text.begin() + std::min<std::ptrdiff_t>(offset, std::ssize(text)), '\n');
  };
  const auto fail = [&](std::ptrdiff_t offset, const std::string& reason) {
    refuse(fmt::format("line {}: {}", line_of(offset), reason));
  };
  if (!parsed) fail(parsed.offset, fmt::format("not valid XML: {}", parsed.description()));
  const pugi::xml_node root = document.child("graphml"), graph = root.child("graph");
  if (!graph) fail(0, "holds no <graphml> with a <graph>");
  std::map<std::string, std::string> names;  // attr.name by key id
  for (const pugi::xml_node key : root.children("key"))
    names[key.attribute("id").value()] = key.attribute("attr.name").value();
  const auto value = [&](const pugi::xml_node& of, const std::string& name) -> std::string {
    for (const pugi::xml_node data : of.children("data")) {
      const auto key = names.find(data.attribute("key").value());
      if (key != names.end() && key->second == name) return data.text().get();
    }
    return "";
  };
  GraphSpec spec;
  for (const pugi::xml_node node : graph.children("node")) {
    GraphSpec::Node vertex{node.attribute("id").value(), value(node, "kind"), value(node, "node")};
    if (vertex.name.empty()) fail(node.offset_debug(), "a <node> without an id");
    if (vertex.kind.empty())
      fail(node.offset_debug(), fmt::format("node \"{}\" has no data \"kind\"; give accelerator, nic or switch", vertex.name));
    spec.vertices.push_back(std::move(vertex));
  }
  const bool directed = std::string_view(graph.attribute("edgedefault").value()) == "directed";
  for (const pugi::xml_node node : graph.children("edge")) {
    GraphSpec::Edge edge{node.attribute("source").value(), node.attribute("target").value(), {}, true, value(node, "link-kind")};
    edge.both = !node.attribute("directed").as_bool(directed);
    try {
      edge.link.bandwidth = parse_bytes_per_second(value(node, "bandwidth"));
      edge.link.latency = parse_seconds(value(node, "latency"));
      const std::string efficiency = value(node, "efficiency");
      if (!efficiency.empty()) edge.link.efficiency = parse_number(efficiency);
    } catch (const std::invalid_argument& error) {
      fail(node.offset_debug(), fmt::format("edge from \"{}\" to \"{}\": {}", edge.from, edge.to, error.what()));
    }
    spec.edges.push_back(std::move(edge));
  }
  return spec;
}

}  // namespace syncline
