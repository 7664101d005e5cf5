// GraphML, out and in.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <ostream>
#include <set>
#include <string_view>
#include <utility>

#include "sim/core/units.hpp"
#include "sim/topology/export.hpp"
#include "sim/topology/fabric.hpp"
#include "sim/topology/xml_text.hpp"

namespace syncline {
namespace {

/// The other direction of the same cable, equal in all figures.
bool is_cable(const Topology& topology, std::size_t id) {
  if (id + 1 >= topology.links().size()) return false;
  const Link& there = topology.links()[id];
  const Link& back = topology.links()[id + 1];
  return there.from == back.to && there.to == back.from && there.bandwidth == back.bandwidth &&
         there.nominal == back.nominal && there.latency == back.latency && there.kind == back.kind;
}

struct Key {
  const char* id;
  const char* of;
};
constexpr Key Keys[]{{"kind", "node"},       {"node", "node"},    {"bandwidth", "edge"},
                     {"efficiency", "edge"}, {"latency", "edge"}, {"link-kind", "edge"},
                     {"routing", "graph"},   {"seed", "graph"}};

void add_data(pugi::xml_node to, const char* key, const std::string& value) {
  pugi::xml_node data = to.append_child("data");
  data.append_attribute("key") = key;
  data.text() = value.c_str();
}

/// The values of a file's elements by their names, or what their keys have for all that say nothing.
class Values {
 public:
  Values(const XmlText& xml, const pugi::xml_node& root) : xml_(xml) {
    for (const pugi::xml_node key : root.children("key"))
      keys_[key.attribute("id").value()] = {key.attribute("attr.name").value(),
                                            key.attribute("for").as_string("all"),
                                            key.child("default").text().get()};
  }

  [[nodiscard]] std::string operator()(const pugi::xml_node& of, std::string_view name) const {
    for (const pugi::xml_node data : of.children("data")) {
      const auto key = keys_.find(data.attribute("key").value());
      if (key == keys_.end())
        xml_.fail(data,
                  fmt::format("data of \"{}\", which no <key> declares", data.attribute("key").value()));
      if (key->second.name == name) return data.text().get();
    }
    for (const auto& [id, key] : keys_)
      if (key.name == name && (key.of == of.name() || key.of == "all")) return key.otherwise;
    return "";
  }

 private:
  struct Declared {
    std::string name, of, otherwise;
  };
  const XmlText& xml_;
  std::map<std::string, Declared> keys_;  // by id
};

class GraphmlReader {
 public:
  explicit GraphmlReader(const std::string& text)
      : xml_(text), root_(xml_.root("graphml")), graph_(root_.child("graph")), value_(xml_, root_) {}

  GraphSpec read() {
    if (!graph_) xml_.fail(root_, "a <graphml> without a <graph>");
    if (const pugi::xml_node second = graph_.next_sibling("graph"))
      xml_.fail(second, "a second <graph>; one is a cluster");
    if (const pugi::xml_node hyper = graph_.child("hyperedge"))
      xml_.fail(
          hyper,
          "a <hyperedge> has no counterpart here; write a node of kind switch, and an edge to each end");
    read_routes();
    for (const pugi::xml_node node : graph_.children("node")) read_node(node);
    const std::string_view edges = graph_.attribute("edgedefault").value();
    if (edges != "directed" && edges != "undirected")
      xml_.fail(graph_,
                fmt::format(
                    "edgedefault should be undirected (an edge is a cable) or directed (a link one way), not "
                    "\"{}\"",
                    edges));
    for (const pugi::xml_node edge : graph_.children("edge")) read_edge(edge, edges == "directed");
    return std::move(spec_);
  }

 private:
  void read_routes() {
    const std::string routing = value_(graph_, "routing"), seed = value_(graph_, "seed");
    std::vector<std::string> known;
    for (const GraphRouting one : {GraphRouting::Shortest, GraphRouting::Ecmp, GraphRouting::Spray}) {
      known.emplace_back(word_of(one));
      if (known.back() == routing) spec_.routing = one;
    }
    if (!routing.empty() && word_of(spec_.routing) != routing)
      xml_.fail(graph_, unknown_name("routing", routing, known));
    if (seed.empty()) return;
    const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), spec_.seed);
    if (error != std::errc{} || end != seed.data() + seed.size())
      xml_.fail(graph_, fmt::format("the seed \"{}\" should be a whole number from 0", seed));
  }

  void read_node(const pugi::xml_node& node) {
    GraphSpec::Node vertex{node.attribute("id").value(), value_(node, "kind"), value_(node, "node")};
    if (vertex.name.empty()) xml_.fail(node, "a <node> without an id");
    if (node.child("graph"))
      xml_.fail(node,
                fmt::format("node \"{}\" holds a graph; write its nodes beside the others", vertex.name));
    if (vertex.kind.empty())
      xml_.fail(node, fmt::format("node \"{}\" has no data \"kind\"; give accelerator, nic or switch",
                                  vertex.name));
    if (std::ranges::find(Kinds, vertex.kind) == std::end(Kinds))
      xml_.fail(node, fmt::format("node \"{}\": {}", vertex.name,
                                  unknown_name("kind", vertex.kind, {std::begin(Kinds), std::end(Kinds)})));
    if (!names_.insert(vertex.name).second) xml_.fail(node, fmt::format("a second node \"{}\"", vertex.name));
    spec_.vertices.push_back(std::move(vertex));
  }

  void read_edge(const pugi::xml_node& node, bool directed) {
    GraphSpec::Edge edge{node.attribute("source").value(),
                         node.attribute("target").value(),
                         {},
                         true,
                         value_(node, "link-kind")};
    edge.both = !node.attribute("directed").as_bool(directed);
    const std::string where = fmt::format("edge from \"{}\" to \"{}\"", edge.from, edge.to);
    for (const std::string& end : {edge.from, edge.to})
      if (!names_.contains(end)) {
        const std::string near = nearest_name(end, {names_.begin(), names_.end()});
        xml_.fail(node, fmt::format("{} ends at \"{}\", which is no node{}", where, end,
                                    near.empty() ? "" : fmt::format("; the nearest is \"{}\"", near)));
      }
    try {
      const auto needed = [&](const char* name, const char* example) {
        std::string text = value_(node, name);
        if (text.empty()) refuse(fmt::format("it has no data \"{}\", such as {}", name, example));
        return text;
      };
      edge.link.bandwidth = parse_bytes_per_second(needed("bandwidth", "400Gbps"));
      if (!(edge.link.bandwidth > BytesPerSecond(0)))
        refuse("a bandwidth of 0; leave the edge out, or give it one");
      edge.link.latency = parse_seconds(needed("latency", "1us"));
      const std::string efficiency = value_(node, "efficiency");
      if (!efficiency.empty()) edge.link.efficiency = parse_number(efficiency);
    } catch (const FormatError&) {
      throw;
    } catch (const std::invalid_argument& error) {
      xml_.fail(node, fmt::format("{}: {}", where, error.what()));
    }
    spec_.edges.push_back(std::move(edge));
  }

  static constexpr std::string_view Kinds[]{"accelerator", "nic", "switch"};
  const XmlText xml_;
  const pugi::xml_node root_, graph_;
  const Values value_;
  std::set<std::string> names_;  // of nodes
  GraphSpec spec_;
};

}  // namespace

void write_graphml(std::ostream& out, const Topology& topology, const GraphRoutes& routes) {
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
  add_data(graph, "routing", std::string(word_of(routes.routing)));
  if (routes.routing == GraphRouting::Ecmp) add_data(graph, "seed", fmt::format("{}", routes.seed));
  for (const Vertex& vertex : topology.vertices()) {
    pugi::xml_node node = graph.append_child("node");
    node.append_attribute("id") = vertex.name.c_str();
    add_data(node, "kind", std::string(word_of(vertex.kind)));
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
    if (link.bandwidth != link.nominal)
      add_data(edge, "efficiency", exact_text(link.bandwidth / link.nominal));
    add_data(edge, "latency", exact_text(link.latency.si()) + "s");
    add_data(edge, "link-kind", std::string(word_of(link.kind)));
    if (cable) ++id;
  }
  document.save(out, " ");
}

GraphSpec read_graphml(const std::string& text) {
  return GraphmlReader(text).read();
}

}  // namespace syncline
