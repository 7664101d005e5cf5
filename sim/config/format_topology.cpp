// The keys of a topology file.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "sim/config/format_parts.hpp"
#include "sim/config/formats.hpp"
#include "sim/topology/export.hpp"

namespace syncline {

// Found by argument-dependent lookup from the codecs, so not in an unnamed namespace.
Fields fields_of(TwistSpec& twist);
Fields fields_of(PcieSpec& pcie);
Fields fields_of(ScaleUpSpec& scale_up);
Fields fields_of(NicSpec& nic);
Fields fields_of(FatTreeSpec& tree);
Fields fields_of(TorusSpec& torus);
Fields fields_of(AllToAllSpec& fabric);
Fields fields_of(DragonflySpec& dragonfly);
Fields fields_of(GraphSpec::Node& vertex);
Fields fields_of(GraphSpec::Edge& edge);
Fields fields_of(GraphSpec& graph);
Codec codec(CollectiveFigures& figures);  // format_collectives.cpp

namespace {

constexpr std::size_t LargestGraphFile = std::size_t{256} << 20;
constexpr Limits Levels{.low = 0, .high = 6};
constexpr Limits Ports{.low = 2, .high = 65536};
constexpr Limits Dimensions{.low = 1, .high = 6};
constexpr Limits Oversubscriptions{.low = 1e-6, .high = 1e6};
constexpr Limits AnyDimension{.low = 0, .high = 7};
constexpr Limits AnyTwist{.low = -65536, .high = 65536};
constexpr Limits Routers{.low = 0, .high = 4096};

enum class ScaleOutKind { FatTree, Torus, AllToAll, Dragonfly };
using ScaleOut = decltype(TopologySpec::scale_out);

Names<ScaleOutKind> scale_out_kinds() {
  return {{"fat-tree", ScaleOutKind::FatTree},
          {"torus", ScaleOutKind::Torus},
          {"all-to-all", ScaleOutKind::AllToAll},
          {"dragonfly", ScaleOutKind::Dragonfly}};
}

template <class Spec>
Fields with_kind(ScaleOutKind& kind, Spec& spec) {
  Fields fields = fields_of(spec);
  fields.insert(fields.begin(), required("kind", kind, scale_out_kinds()));
  return fields;
}

void read_scale_out(const ConfigValue& value, ScaleOut& fabric) {
  fabric = std::monostate{};
  if (is_none(value.node)) return;
  ScaleOutKind kind{};
  const Names<ScaleOutKind> kinds = scale_out_kinds();
  const Codec kind_codec = codec(kind, kinds);
  if (value.node.kind != ConfigNode::Kind::Map)
    return read_fields(value, {});  // says that a block is expected
  const ConfigEntry* entry = value.node.find("kind");
  if (entry == nullptr) return missing_key(value, "kind", kind_codec);
  const auto chosen =
      std::ranges::find(kinds, entry->value.text, &std::pair<std::string, ScaleOutKind>::first);
  if (chosen == kinds.end())
    return kind_codec.read({entry->value, entry->mark, value.below("kind"), value.errors});
  switch (chosen->second) {
    case ScaleOutKind::FatTree: return read_fields(value, with_kind(kind, fabric.emplace<FatTreeSpec>()));
    case ScaleOutKind::Torus: return read_fields(value, with_kind(kind, fabric.emplace<TorusSpec>()));
    case ScaleOutKind::AllToAll: return read_fields(value, with_kind(kind, fabric.emplace<AllToAllSpec>()));
    case ScaleOutKind::Dragonfly: return read_fields(value, with_kind(kind, fabric.emplace<DragonflySpec>()));
  }
}

ConfigNode write_scale_out(ScaleOut& fabric) {
  ScaleOutKind kind{};
  if (auto* tree = std::get_if<FatTreeSpec>(&fabric)) {
    kind = ScaleOutKind::FatTree;
    return write_fields(with_kind(kind, *tree));
  }
  if (auto* torus = std::get_if<TorusSpec>(&fabric)) {
    kind = ScaleOutKind::Torus;
    return write_fields(with_kind(kind, *torus));
  }
  if (auto* all_to_all = std::get_if<AllToAllSpec>(&fabric)) {
    kind = ScaleOutKind::AllToAll;
    return write_fields(with_kind(kind, *all_to_all));
  }
  if (auto* dragonfly = std::get_if<DragonflySpec>(&fabric)) {
    kind = ScaleOutKind::Dragonfly;
    return write_fields(with_kind(kind, *dragonfly));
  }
  return {};
}

Codec scale_out_codec(ScaleOut& fabric) {
  return {"a block such as \"{kind: fat-tree, ...}\"",
          [&fabric](const ConfigValue& value) { read_scale_out(value, fabric); },
          [&fabric] { return write_scale_out(fabric); }};
}

/// `none` takes away what a base has.
Codec twist_codec(std::vector<TwistSpec>& twists) {
  const Codec list = codec(twists);
  const auto read = [&twists, list](const ConfigValue& value) {
    if (is_none(value.node)) return twists.clear();
    if (value.node.kind == ConfigNode::Kind::Scalar)
      return value.fail(fmt::format("expected twists such as {{of: 0, along: 1, by: 4}}, or none, not \"{}\"",
                                    value.node.text));
    list.read(value);
  };
  return {list.expects, read, list.write};
}

}  // namespace

Fields fields_of(LinkSpec& link) {
  return {required("bandwidth", link.bandwidth), optional("efficiency", link.efficiency, AnyShare),
          required("latency", link.latency)};
}

Fields fields_of(ScaleUpSpec& scale_up) {
  using Kind = ScaleUpSpec::Kind;
  return {required("kind", scale_up.kind,
                   Names<Kind>{{"switch", Kind::Switch},
                               {"full-mesh", Kind::FullMesh},
                               {"torus", Kind::Torus},
                               {"pcie", Kind::Pcie}}),
          optional("shape", scale_up.shape),
          printed_if(scale_up.kind == Kind::Torus, optional("dimensions", scale_up.dimensions, Dimensions)),
          optional("wrap", scale_up.wrap),
          {"twist", false, twist_codec(scale_up.twist)},
          printed_if(scale_up.kind == Kind::Pcie, optional("pcie", scale_up.pcie)),
          required("link", scale_up.link)};
}

Fields fields_of(NicSpec& nic) {
  return {required("per-node", nic.per_node), required("host-bus", nic.host_bus)};
}

Fields fields_of(FatTreeSpec& tree) {
  return {optional("levels", tree.levels, Levels),
          optional("radix", tree.radix, Ports),
          optional("oversubscription", tree.oversubscription, Oversubscriptions),
          optional("rail-optimised", tree.rail_optimised),
          printed_if(tree.rail_only, optional("rail-only", tree.rail_only)),
          printed_if(tree.routing != FatTreeRouting::DModK,
                     optional("routing", tree.routing,
                              Names<FatTreeRouting>{{"d-mod-k", FatTreeRouting::DModK},
                                                    {"ecmp", FatTreeRouting::Ecmp},
                                                    {"spray", FatTreeRouting::Spray}})),
          printed_if(tree.routing == FatTreeRouting::Ecmp, optional("seed", tree.seed)),
          required("link", tree.link)};
}

Fields fields_of(TorusSpec& torus) {
  return {optional("shape", torus.shape),
          optional("dimensions", torus.dimensions, Dimensions),
          optional("wrap", torus.wrap),
          {"twist", false, twist_codec(torus.twist)},
          required("link", torus.link)};
}

Fields fields_of(AllToAllSpec& fabric) {
  using Kind = AllToAllSpec::Kind;
  return {optional("fabric", fabric.kind,
                   Names<Kind>{{"ideal-switch", Kind::IdealSwitch}, {"full-mesh", Kind::FullMesh}}),
          required("link", fabric.link)};
}

Fields fields_of(DragonflySpec& dragonfly) {
  return {optional("groups", dragonfly.groups, Routers),
          required("routers", dragonfly.routers),
          optional("spines", dragonfly.spines, Routers),
          required("endpoints", dragonfly.endpoints),
          required("global", dragonfly.global),
          optional("routing", dragonfly.routing,
                   Names<DragonflyRouting>{{"minimal", DragonflyRouting::Minimal},
                                           {"valiant", DragonflyRouting::Valiant}}),
          optional("seed", dragonfly.seed),
          required("link", dragonfly.link),
          optional("global-link", dragonfly.global_link)};
}

Fields fields_of(TwistSpec& twist) {
  return {required("of", twist.of, AnyDimension), required("along", twist.along, AnyDimension),
          required("by", twist.by, AnyTwist)};
}

Fields fields_of(PcieSpec& pcie) {
  return {optional("sockets", pcie.sockets), optional("switches", pcie.switches, Routers),
          printed_if(pcie.switches > 0, optional("uplink", pcie.uplink)),
          printed_if(pcie.sockets > 1, optional("between-sockets", pcie.between_sockets))};
}

Fields fields_of(GraphSpec::Node& vertex) {
  return {required("name", vertex.name),
          {"kind", true, kept_word_codec(vertex.kind, {"accelerator", "nic", "switch"})},
          printed_if(!vertex.node.empty(), optional("node", vertex.node))};
}

Fields fields_of(GraphSpec::Edge& edge) {
  return {required("from", edge.from), required("to", edge.to),
          printed_if(!edge.both, optional("both", edge.both)),
          printed_if(!edge.kind.empty(),
                     {"kind", false, kept_word_codec(edge.kind, {"scale-up", "host-bus", "scale-out"})}),
          required("link", edge.link)};
}

Fields fields_of(GraphSpec& graph) {
  return {optional("routing", graph.routing,
                   Names<GraphRouting>{{"shortest", GraphRouting::Shortest},
                                       {"ecmp", GraphRouting::Ecmp},
                                       {"spray", GraphRouting::Spray}}),
          optional("seed", graph.seed), required("vertices", graph.vertices), optional("edges", graph.edges)};
}

/// With `graph`, which keys there are depends on the file.
Codec codec(TopologySpec& topology) {
  const auto read = [&topology](const ConfigValue& value) {
    topology.graph.reset();
    if (value.node.kind == ConfigNode::Kind::Map && value.node.find("graph") != nullptr)
      topology.graph.emplace();
    read_fields(value, fields_of(topology));
    if (!topology.graph) return;
    topology.accelerators = static_cast<int>(
        std::ranges::count(topology.graph->vertices, std::string("accelerator"), &GraphSpec::Node::kind));
    topology.accelerators_per_node = 1;
  };
  return {"a block of keys", read, [&topology] { return write_fields(fields_of(topology)); }};
}

ConfigNode graph_file(const std::string& file, ConfigErrors& errors) {
  GraphSpec graph;
  ConfigNode node;
  node.kind = ConfigNode::Kind::Faulty;
  try {
    const std::string text = read_text_file(file, LargestGraphFile);
    graph = file.ends_with(".xml") ? read_simgrid_platform(text) : read_graphml(text);
  } catch (const FormatError& error) {
    Place place = error.place();
    place.file = file;
    errors.add(std::move(place), error.reason());
    return node;
  } catch (const std::invalid_argument& error) {
    errors.add({file, 0, 0, ""}, error.what());
    return node;
  }
  std::string version = "1";
  node = write_fields({{"version", true, codec(version)}, required("graph", graph)});
  move_to(node, {std::make_shared<const ConfigSource>(ConfigSource{file, {}})});
  return node;
}

Fields fields_of(TopologySpec& topology) {
  if (topology.graph)
    return {version_field(false), optional("name", topology.name), optional("source", topology.source),
            required("graph", *topology.graph), optional("collectives", topology.collectives)};
  return {version_field(false),
          optional("name", topology.name),
          optional("source", topology.source),
          required("accelerators", topology.accelerators, Accelerators),
          optional("accelerators-per-node", topology.accelerators_per_node, Accelerators),
          optional("scale-up", topology.scale_up),
          optional("nic", topology.nic),
          {"scale-out", false, scale_out_codec(topology.scale_out)},
          optional("collectives", topology.collectives)};
}

}  // namespace syncline
