// `syncline topology`: what a cluster is made of, and its figures measured on the graph.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/config/catalogue.hpp"
#include "sim/config/price_list.hpp"
#include "sim/config/scenario.hpp"
#include "sim/core/units.hpp"
#include "sim/topology/export.hpp"
#include "sim/topology/measures.hpp"
#include "tools/build_info.hpp"
#include "tools/network_prices.hpp"
#include "tools/options.hpp"
#include "tools/output_file.hpp"
#include "tools/subcommand.hpp"

namespace syncline {
namespace {

using Json = nlohmann::ordered_json;

using Rows = std::vector<std::pair<std::string, std::string>>;

std::string text_of(const LinkSpec& link) {
  const std::string efficiency = link.efficiency == 1 ? "" : fmt::format(" × {:.4g}", link.efficiency);
  return fmt::format("{}{}, {}", to_text(link.bandwidth), efficiency, to_text(link.latency));
}

struct ScaleOutText {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(const FatTreeSpec& tree) const {
    return fmt::format("fat tree of {}-port switches{}; {}", tree.radix,
                       tree.rail_only        ? ", one for each rail (rail-only)"
                       : tree.rail_optimised ? ", rail-optimised"
                                             : "",
                       text_of(tree.link));
  }
  std::string operator()(const TorusSpec& torus) const {
    return fmt::format("{}torus {}; {}", torus.twist.empty() ? "" : "twisted ",
                       shape.empty() ? "" : fmt::format("{}", fmt::join(shape, " × ")), text_of(torus.link));
  }
  std::string operator()(const DragonflySpec& dragonfly) const {
    return fmt::format("dragonfly{}, {} routers a group with {} endpoints each; {}",
                       dragonfly.spines > 0 ? "+" : "", dragonfly.routers, dragonfly.endpoints,
                       text_of(dragonfly.link));
  }
  std::string operator()(const AllToAllSpec& fabric) const {
    const bool ideal = fabric.kind == AllToAllSpec::Kind::IdealSwitch;
    return fmt::format("all-to-all, {}; {}", ideal ? "one ideal switch" : "full mesh", text_of(fabric.link));
  }
  std::vector<int> shape;  // as built
};

constexpr std::string_view ScaleUpWords[]{"switch", "full mesh", "torus", "PCIe tree"};

Rows describe(const TopologySpec& spec, const Topology& topology) {
  Rows rows{{"source", spec.source}};
  if (spec.scale_up)
    rows.emplace_back("scale-up",
                      fmt::format("{}; {}", ScaleUpWords[static_cast<std::size_t>(spec.scale_up->kind)],
                                  text_of(spec.scale_up->link)));
  if (spec.nic)
    rows.emplace_back("NICs",
                      fmt::format("{} a node; host bus {}", spec.nic->per_node, text_of(spec.nic->host_bus)));
  if (spec.graph)
    rows.emplace_back(
        "graph", fmt::format("{} vertices, {} edges", spec.graph->vertices.size(), spec.graph->edges.size()));
  else
    rows.emplace_back("scale-out", std::visit(ScaleOutText{topology.shape().torus}, spec.scale_out));
  rows.emplace_back("routing", topology.router().description());
  return rows;
}

Rows describe(const Measures& measures) {
  Rows rows{
      {"accelerators",
       fmt::format("{} in {} node{}", measures.accelerators, measures.nodes, measures.nodes == 1 ? "" : "s")},
      {"parts",
       fmt::format("{} NICs, {} switches, {} cables", measures.nics, measures.switches, measures.cables)},
      {"diameter", fmt::format("{} links, {} (shortest paths; routes may be longer)", measures.diameter,
                               to_text(measures.largest_latency))},
      {"paths",
       fmt::format("{:.6g} of fewest links between the farthest accelerators", measures.path_diversity)},
      {"bisection", to_text(measures.bisection) + " one way"},
      {"injection", to_text(measures.injection) + " out of an accelerator"}};
  for (const Oversubscription& level : measures.oversubscription)
    rows.emplace_back(fmt::format("level {}", level.level),
                      fmt::format("oversubscription {:.4g}:1", level.ratio));
  return rows;
}

Rows describe(const Parts& parts) {
  Rows rows;
  for (const Parts::Switches& switches : parts.switches)
    rows.emplace_back(
        "switches",
        fmt::format("{} x {} ports, {}{}", switches.count, switches.ports, word_of(switches.network),
                    switches.level > 0 ? fmt::format(", level {}", switches.level) : ""));
  for (const Parts::Cables& cables : parts.cables)
    rows.emplace_back("cables", fmt::format("{} x {}, {} to {}, {}", cables.count, to_text(cables.bandwidth),
                                            word_of(cables.from), word_of(cables.to), word_of(cables.kind)));
  return rows;
}

Json json_of(const TopologySpec& spec, const Topology& topology) {
  const Measures measures = measure(topology);
  const Parts parts = parts_of(topology);
  Json json{{"schema", Schema},
            {"version", build::Version},
            {"topology", spec.name},
            {"source", spec.source},
            {"accelerators", measures.accelerators},
            {"nodes", measures.nodes},
            {"nics", measures.nics},
            {"switches", measures.switches},
            {"cables", measures.cables},
            {"routing", topology.router().description()},
            {"diameter_links", measures.diameter},
            {"largest_latency_s", measures.largest_latency.si()},
            {"path_diversity", measures.path_diversity},
            {"bisection_bytes_per_s", measures.bisection.si()},
            {"injection_bytes_per_s", measures.injection.si()},
            {"oversubscription", Json::array()},
            {"parts", {{"switches", Json::array()}, {"cables", Json::array()}}}};
  for (const Oversubscription& level : measures.oversubscription)
    json["oversubscription"].push_back({{"level", level.level}, {"ratio", level.ratio}});
  for (const Parts::Switches& switches : parts.switches)
    json["parts"]["switches"].push_back({{"network", word_of(switches.network)},
                                         {"level", switches.level},
                                         {"ports", switches.ports},
                                         {"count", switches.count}});
  for (const Parts::Cables& cables : parts.cables)
    json["parts"]["cables"].push_back({{"kind", word_of(cables.kind)},
                                       {"from", word_of(cables.from)},
                                       {"to", word_of(cables.to)},
                                       {"bandwidth_bytes_per_s", cables.bandwidth.si()},
                                       {"count", cables.count}});
  return json;
}

void print(const Rows& rows) {
  for (const auto& [name, text] : rows)
    if (!text.empty()) fmt::print("  {:<14}{}\n", name, text);
}

/// A format that topologies are written in.
struct Format {
  const char* flag;
  const std::string& file;  // empty: not asked for; "-": standard output
  std::function<void(std::ostream&)> write;
  std::function<std::vector<std::string>()> lost = [] { return std::vector<std::string>{}; };
};

void write_to(const std::string& file, const std::function<void(std::ostream&)>& write) {
  std::ostringstream text;  // whole before anything is written: what cannot be written leaves no half
  try {
    write(text);
  } catch (const std::invalid_argument& error) {
    throw InputError(Diagnostic{{}, error.what()});
  }
  if (file == "-") {
    std::cout << text.str() << std::flush;
    if (!std::cout) throw EnvironmentError("cannot write to standard output");
    return;
  }
  write_text_file(file, text.str());
}

class DescribeTopology : public Subcommand {
 public:
  std::string name() const override { return "topology"; }
  std::string summary() const override { return "Describe and measure a cluster"; }
  std::string example() const override {
    return "  syncline topology dgx-h100 --set accelerators=512 --set scale-out.oversubscription=4\n"
           "  syncline topology dgx-h100 --set accelerators=16 --simgrid-xml platform.xml\n"
           "  syncline topology --list";
  }
  void add_options(CLI::App& app) override {
    CLI::Option* list = app.add_flag("--list", list_, "Print the names of the catalogue");
    app.add_option("topology", name_, "Name in the catalogue, or a file")
        ->type_name("NAME|FILE")
        ->excludes(list);
    add_set_option(app, assignments_, "--set accelerators=512");
    app.add_option("--graphml", graphml_,
                   "Write the graph as GraphML, which a topology file's name may be; - for stdout")
        ->type_name("FILE");
    app.add_option("--dot", dot_, "Write it for Graphviz; - for stdout")->type_name("FILE");
    app.add_option("--simgrid-xml", platform_, "Write it as a SimGrid platform with all routes; - for stdout")
        ->type_name("FILE");
    app.add_flag("--json", json_, "Print one JSON object instead of the table");
    app.add_flag("--links", links_, "List every link by the name that reports and faults use");
  }
  ExitCode run() override {
    if (list_) {
      for (const std::string& known : names_in(Topologies)) fmt::print("{}\n", known);
      return Done;
    }
    if (name_.empty()) throw InputError(Diagnostic{{}, "name a topology or a file, or give --list"});
    const TopologySpec spec = load_topology(name_, overrides_of(assignments_));
    const Topology topology = build_topology(spec);
    bool written = false;
    const GraphRoutes routes = nearest_routes(spec);
    for (const Format& format : {
             Format{"--graphml", graphml_, [&](std::ostream& out) { write_graphml(out, topology, routes); },
                    [&] { return lost_in_graphml(topology, routes); }},
             Format{"--dot", dot_, [&](std::ostream& out) { write_dot(out, topology); }},
             Format{"--simgrid-xml", platform_,
                    [&](std::ostream& out) { write_simgrid_platform(out, topology); },
                    [&] { return lost_in_platform(topology); }},
         }) {
      if (format.file.empty()) continue;
      write_to(format.file, format.write);
      written = true;
      if (const std::vector<std::string> lost = format.lost(); !lost.empty())
        fmt::print(stderr, "{}: warning: the file does not hold {}\n", format.flag,
                   fmt::join(lost, ", nor "));
    }
    if (links_) {
      for (std::size_t id = 0; id < topology.links().size(); ++id)
        fmt::print("{}\n", topology.link_name(LinkId(id)));
      written = true;
    }
    if (written) return Done;
    if (json_) {
      fmt::print("{}\n", json_of(spec, topology).dump(2));
      return Done;
    }
    fmt::print("{}\n", spec.name);
    print(describe(spec, topology));
    fmt::print("measured on the graph, at the bandwidth that is simulated\n");
    print(describe(measure(topology)));
    print(describe(parts_of(topology)));
    if (const auto prices = default_price_list())
      fmt::print("its network by the price list \"{}\": typical price, range, power under full traffic\n{}",
                 prices->name, cost_table(network_cost(topology, *prices)));
    return Done;
  }

 private:
  std::string name_;
  std::string graphml_, dot_, platform_;
  bool list_ = false, links_ = false, json_ = false;
  std::vector<std::string> assignments_;
};

}  // namespace

std::unique_ptr<Subcommand> make_topology() {
  return std::make_unique<DescribeTopology>();
}

}  // namespace syncline
