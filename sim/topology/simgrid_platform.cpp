// SimGrid platforms, out and in; simgrid.org/doc/latest/XML_reference.html.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <map>
#include <numeric>
#include <ostream>
#include <string_view>
#include <utility>

#include "sim/core/units.hpp"
#include "sim/topology/export.hpp"
#include "sim/topology/fabric.hpp"
#include "sim/topology/xml_text.hpp"

namespace syncline {
namespace {

/// A platform's links have no ends: routes say which link leaves which host and which follows which. So every link has two
/// ends of its own at first, and ends that a route joins become one place; places that are no host or router are switches.
/// A link that is shared by both directions stands between two vertices of its own, which all its traffic passes.
class Places {
 public:
  int add() {
    parents_.push_back(static_cast<int>(parents_.size()));
    return parents_.back();
  }
  int of(int end) {
    while (parents_[at(end)] != end) end = parents_[at(end)] = parents_[at(parents_[at(end)])];
    return end;
  }
  void join(int a, int b) {
    a = of(a), b = of(b);
    parents_[at(std::max(a, b))] = std::min(a, b);
  }

 private:
  static std::size_t at(int end) { return static_cast<std::size_t>(end); }
  std::vector<int> parents_;
};

class PlatformReader {
 public:
  explicit PlatformReader(const std::string& text) : xml_(text) {}

  GraphSpec read() {
    const pugi::xml_node platform = xml_.root("platform");
    const std::string_view version = platform.attribute("version").value();
    if (version != "4" && !version.starts_with("4."))
      xml_.fail(
          platform,
          fmt::format("platforms of version 4 are understood, not \"{}\"; try simgrid_update_xml", version));
    read_zone(platform);
    for (const pugi::xml_node& route : routes_) read_route(route);
    add_edges();
    if (graph_.vertices.empty()) xml_.fail(platform, "the platform has no <host>");
    check_routes();
    return std::move(graph_);
  }

 private:
  enum class Use {
    OneWay,
    BothWays,
    Shared
  };  // BothWays: SPLITDUPLEX, a bandwidth for each; Shared: one for both
  struct Cable {
    pugi::xml_node node;
    LinkSpec link;
    int tail, head;
    Use use;
    bool used = false;
  };
  struct Given {  // a route, checked at the end
    pugi::xml_node node;
    std::string from, to;
    std::size_t links;
  };
  using Read = void (PlatformReader::*)(const pugi::xml_node&);

  void read_zone(const pugi::xml_node& zone) {
    static const std::map<std::string_view, Read> elements{
        {"zone", &PlatformReader::read_inner_zone}, {"host", &PlatformReader::read_host},
        {"router", &PlatformReader::read_router},   {"link", &PlatformReader::read_link},
        {"route", &PlatformReader::keep_route},     {"cluster", &PlatformReader::read_cluster},
        {"config", &PlatformReader::pass},          {"prop", &PlatformReader::pass}};
    for (const pugi::xml_node child : zone.children()) {
      if (child.type() != pugi::node_element) continue;
      const auto found = elements.find(child.name());
      if (found == elements.end())
        xml_.fail(child,
                  fmt::format("<{}> has no counterpart here; what has is zone, host, router, link, route and "
                              "cluster",
                              child.name()));
      (this->*found->second)(child);
    }
  }

  void pass(const pugi::xml_node&) {}

  void read_inner_zone(const pugi::xml_node& zone) {
    if (!graph_.vertices.empty() || zones_ > 1)
      xml_.fail(
          zone,
          fmt::format("zone \"{}\": several zones in one are not understood; write their hosts and links in "
                      "one zone",
                      zone.attribute("id").value()));
    ++zones_;
    read_zone(zone);
    zones_ = 2;
  }

  void add_vertex(const pugi::xml_node& node, const std::string& name, const char* kind) {
    if (name.empty()) xml_.fail(node, fmt::format("a <{}> without an id", node.name()));
    if (!named_.try_emplace(name, places_.add()).second)
      xml_.fail(node, fmt::format("a second \"{}\"", name));
    graph_.vertices.push_back({name, kind, ""});
  }
  void read_host(const pugi::xml_node& host) {
    refuse_profiles(host);
    add_vertex(host, host.attribute("id").value(), "accelerator");
  }
  void read_router(const pugi::xml_node& router) {
    add_vertex(router, router.attribute("id").value(), "switch");
  }

  /// What changes while a simulation runs.
  void refuse_profiles(const pugi::xml_node& node) const {
    for (const pugi::xml_attribute attribute : node.attributes())
      if (std::string_view(attribute.name()).ends_with("_file"))
        xml_.fail(node,
                  fmt::format("{} \"{}\": {} is not understood; say what fails or slows down under faults",
                              node.name(), node.attribute("id").value(), attribute.name()));
  }

  /// With the unit that SimGrid takes a bare number to have.
  LinkSpec link_of(const pugi::xml_node& node, const char* bandwidth, const char* latency) const {
    const auto text = [&](const char* key, const char* unit) {
      const std::string given = node.attribute(key).value();
      const bool bare = !given.empty() && given.find_first_not_of("0123456789.eE+-") == std::string::npos;
      return bare ? given + unit : given;
    };
    LinkSpec link;
    try {
      if (!node.attribute(bandwidth)) refuse(fmt::format("it has no {}, such as \"50GBps\"", bandwidth));
      link.bandwidth = parse_bytes_per_second(text(bandwidth, "Bps"));
      if (!(link.bandwidth > BytesPerSecond(0)))
        refuse(fmt::format("a {} of 0 carries nothing; leave it out", bandwidth));
      link.latency = node.attribute(latency) ? parse_seconds(text(latency, "s")) : Seconds(0);
    } catch (const std::invalid_argument& error) {
      xml_.fail(node,
                fmt::format("<{}> \"{}\": {}", node.name(), node.attribute("id").value(), error.what()));
    }
    return link;
  }

  void read_link(const pugi::xml_node& link) {
    const std::string name = link.attribute("id").value();
    const std::string policy = link.attribute("sharing_policy").as_string("SHARED");
    if (policy != "SHARED" && policy != "SPLITDUPLEX")
      xml_.fail(
          link,
          fmt::format(
              "link \"{}\" has sharing_policy \"{}\"; links here are shared by all flows of a direction: "
              "SHARED or SPLITDUPLEX",
              name, policy));
    refuse_profiles(link);
    const int tail = places_.add(), head = places_.add();
    const Use use = policy == "SPLITDUPLEX" ? Use::BothWays : Use::OneWay;
    if (!cables_.try_emplace(name, Cable{link, link_of(link, "bandwidth", "latency"), tail, head, use})
             .second)
      xml_.fail(link, fmt::format("a second link \"{}\"", name));
    order_.push_back(name);
  }

  /// Hosts around a router, each with a cable; with a backbone, all traffic crosses that one link between two routers.
  void read_cluster(const pugi::xml_node& cluster) {
    const std::string id = cluster.attribute("id").value();
    static constexpr std::pair<const char*, const char*> Refused[]{
        {"topology", "write it as a topology file, whose scale-out is a torus, fat-tree or dragonfly"},
        {"loopback_bw", "a host's traffic with itself costs nothing here"},
        {"limiter_link", "limit the hosts' own bandwidth (bw) instead"}};
    for (const auto& [key, way_out] : Refused)
      if (const pugi::xml_attribute given = cluster.attribute(key);
          given && std::string_view(given.value()) != "FLAT")
        xml_.fail(cluster, fmt::format("cluster \"{}\": {} is not understood; {}", id, key, way_out));
    if (const char* policy = cluster.attribute("bb_sharing_policy").as_string("SHARED");
        std::string_view(policy) != "SHARED")
      xml_.fail(
          cluster,
          fmt::format("cluster \"{}\" has bb_sharing_policy \"{}\", a backbone without contention; leave out "
                      "bb_bw",
                      id, policy));
    const LinkSpec link = link_of(cluster, "bw", "lat");
    const bool backbone = static_cast<bool>(cluster.attribute("bb_bw"));
    const bool duplex =
        std::string_view(cluster.attribute("sharing_policy").as_string("SPLITDUPLEX")) == "SPLITDUPLEX";
    if (!duplex) xml_.fail(cluster, fmt::format("cluster \"{}\": its hosts' cables must be SPLITDUPLEX", id));
    const std::string in = id + (backbone ? ".in" : ".router"), out = backbone ? id + ".out" : in;
    std::vector<std::string> hosts;
    for (const int number : numbers_of(cluster)) {
      hosts.push_back(fmt::format("{}{}{}", cluster.attribute("prefix").value(), number,
                                  cluster.attribute("suffix").value()));
      add_vertex(cluster, hosts.back(), "accelerator");
    }
    add_vertex(cluster, in, "switch");
    if (backbone) {
      add_vertex(cluster, out, "switch");
      graph_.edges.push_back({in, out, link_of(cluster, "bb_bw", "bb_lat"), false, ""});
    }
    for (const std::string& host : hosts) {
      graph_.edges.push_back({host, in, link, !backbone, ""});
      if (backbone) graph_.edges.push_back({out, host, link, false, ""});
    }
  }

  /// "0-7,10": 0 to 7 and 10.
  std::vector<int> numbers_of(const pugi::xml_node& cluster) const {
    const std::string radical = cluster.attribute("radical").value();
    std::vector<int> numbers;
    for (std::size_t begin = 0; begin <= radical.size();) {
      const std::size_t end = std::min(radical.find(',', begin), radical.size());
      const std::string part = radical.substr(begin, end - begin);
      const std::size_t dash = part.find('-');
      try {
        const long long first = parse_integer(part.substr(0, dash));
        const long long last = dash == std::string::npos ? first : parse_integer(part.substr(dash + 1));
        const auto room = static_cast<long long>(MostHosts - numbers.size());
        if (last < first || last - first >= room) throw std::invalid_argument("is too large, or falls");
        for (long long number = first; number <= last; ++number) numbers.push_back(static_cast<int>(number));
      } catch (const std::invalid_argument&) {
        xml_.fail(cluster,
                  fmt::format(
                      "cluster \"{}\": radical \"{}\" should be numbers and ranges of at most {} hosts, such "
                      "as \"0-7,10\"",
                      cluster.attribute("id").value(), radical, MostHosts));
      }
      begin = end + 1;
    }
    return numbers;
  }

  void keep_route(const pugi::xml_node& route) { routes_.push_back(route); }  // its links may stand below it

  void read_route(const pugi::xml_node& route) {
    struct Step {
      Cable* cable;
      bool up;
    };
    std::vector<Step> steps;
    for (const pugi::xml_node step : route.children("link_ctn")) {
      const auto found = cables_.find(step.attribute("id").value());
      if (found == cables_.end())
        xml_.fail(step, fmt::format("there is no link \"{}\"", step.attribute("id").value()));
      steps.push_back(
          {&found->second, std::string_view(step.attribute("direction").as_string("UP")) != "DOWN"});
    }
    const std::string from = route.attribute("src").value(), to = route.attribute("dst").value();
    if (from == to)
      xml_.fail(route, fmt::format("a route from \"{}\" to itself; such traffic costs nothing here", from));
    const bool symmetrical = std::string_view(route.attribute("symmetrical").as_string("YES")) != "NO";
    std::size_t links = 0;
    int at = place_named(route, from);
    for (const auto& [cable, up] : steps) {
      if (symmetrical && cable->use == Use::OneWay)
        share(*cable, steps.size() == 1);
      else if (cable->use == Use::Shared)
        refuse_sharing(*cable);
      cable->used = true;
      links += cable->use == Use::Shared ? SharedLinks : 1;
      places_.join(at, up ? cable->tail : cable->head);
      at = up ? cable->head : cable->tail;
    }
    places_.join(at, place_named(route, to));
    given_.push_back({route, from, to, links});
  }

  /// Its ends are known only where one route, between neighbours, says them.
  void share(Cable& cable, bool alone) const {
    if (!alone || cable.used) refuse_sharing(cable);
    cable.use = Use::Shared;
  }
  [[noreturn]] void refuse_sharing(const Cable& cable) const {
    xml_.fail(
        cable.node,
        fmt::format("link \"{}\" is shared by both directions, and part of routes with other links; try "
                    "sharing_policy=\"SPLITDUPLEX\", or symmetrical=\"NO\" and a link for each way",
                    cable.node.attribute("id").value()));
  }

  int place_named(const pugi::xml_node& at, const std::string& name) const {
    const auto found = named_.find(name);
    if (found == named_.end()) xml_.fail(at, fmt::format("there is no host or router \"{}\"", name));
    return found->second;
  }

  std::string name_of(int end) {
    const auto [found, added] = name_of_place_.try_emplace(places_.of(end), "");
    if (added) {
      found->second = fmt::format("switch{}", unnamed_++);
      graph_.vertices.push_back({found->second, "switch", ""});
    }
    return found->second;
  }

  void add_edges() {
    for (const auto& [name, end] : named_) {
      const auto [known, added] = name_of_place_.try_emplace(places_.of(end), name);
      if (!added)
        refuse(fmt::format(
            "by the platform's routes \"{}\" and \"{}\" are one place: a route without links, or a link that "
            "is used both ways; try sharing_policy=\"SPLITDUPLEX\"",
            known->second, name));
    }
    for (const std::string& name : order_) {
      const Cable& cable = cables_.at(name);
      if (!cable.used) continue;
      const std::string tail = name_of(cable.tail), head = name_of(cable.head);
      if (cable.use != Use::Shared) {
        graph_.edges.push_back({tail, head, cable.link, cable.use == Use::BothWays, ""});
        continue;
      }
      LinkSpec free = cable.link;  // carries no more than the link itself, so that it holds nothing up
      free.latency = Seconds(0);
      const std::string in = name + ".in", out = name + ".out";
      for (const std::string& vertex : {in, out}) graph_.vertices.push_back({vertex, "switch", ""});
      graph_.edges.push_back({in, out, cable.link, false, ""});
      for (const std::string& end : {tail, head}) {
        graph_.edges.push_back({end, in, free, false, ""});
        graph_.edges.push_back({out, end, free, false, ""});
      }
    }
  }

  /// Routes are found anew, as paths of fewest links; those that are given must be such.
  void check_routes() const {
    if (given_.empty()) return;
    TopologySpec spec;
    spec.graph = graph_;
    const Topology topology = build_topology(spec);
    std::map<std::string, AcceleratorId> hosts;
    for (std::size_t i = 0; i < topology.accelerators().size(); ++i)
      hosts.emplace(topology.vertex(topology.accelerators()[i]).name, AcceleratorId(i));
    for (const Given& route : given_) {
      const auto from = hosts.find(route.from), to = hosts.find(route.to);
      if (from == hosts.end() || to == hosts.end()) continue;  // a router's: a part of others
      const std::size_t fewest = topology.route(from->second, to->second).size();
      if (fewest < route.links)
        xml_.fail(route.node,
                  fmt::format(
                      "the route from \"{}\" to \"{}\" takes {} links where {} would do; traffic here takes "
                      "the fewest",
                      route.from, route.to, route.links, fewest));
    }
  }

  static constexpr std::size_t MostHosts = std::size_t{1} << 18;
  static constexpr std::size_t SharedLinks = 3;  // into, over and out of a shared link
  const XmlText xml_;
  GraphSpec graph_;
  Places places_;
  std::map<std::string, int> named_;  // places of hosts and routers
  std::map<int, std::string> name_of_place_;
  std::map<std::string, Cable> cables_;
  std::vector<std::string> order_;  // of the links in the file
  std::vector<pugi::xml_node> routes_;
  std::vector<Given> given_;
  int zones_ = 0, unnamed_ = 0;
};

}  // namespace

GraphSpec read_simgrid_platform(const std::string& text) {
  return PlatformReader(text).read();
}

void write_simgrid_platform(std::ostream& out, const Topology& topology) {
  const std::size_t hosts = topology.accelerators().size();
  if (hosts > MostPlatformHosts)
    refuse(fmt::format(
        "a SimGrid platform has a route for every pair of hosts: {} hosts are more than the {} that are "
        "written; try fewer accelerators",
        hosts, MostPlatformHosts));
  // SimGrid's settings of an even share without factors; simgrid.org/doc/latest/Configuring_SimGrid.html. Those of SMPI's
  // own overheads (smpi/os, smpi/or, smpi/ois) are 0 from the start, and known under smpirun only.
  static constexpr std::pair<const char*, const char*> Settings[]{{"network/model", "CM02"},
                                                                  {"network/crosstraffic", "0"},
                                                                  {"network/TCP-gamma", "1e300"},
                                                                  {"network/weight-S", "0"},
                                                                  {"network/bandwidth-factor", "1"},
                                                                  {"network/latency-factor", "1"},
                                                                  {"network/optim", "Full"},
                                                                  {"smpi/bw-factor", "0:1"},
                                                                  {"smpi/lat-factor", "0:1"},
                                                                  {"smpi/async-small-thresh", "0"},
                                                                  {"smpi/send-is-detached-thresh", "0"},
                                                                  {"smpi/simulate-computation", "no"}};
  fmt::print(out,
             "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
             "<platform version=\"4.1\">\n  <config>\n");
  for (const auto& [key, value] : Settings)
    fmt::print(out, "    <prop id=\"{}\" value=\"{}\"/>\n", key, value);
  fmt::print(out, "  </config>\n  <zone id=\"{}\" routing=\"Full\">\n", topology.name());
  const auto host = [&](std::size_t i) { return topology.vertex(topology.accelerators()[i]).name; };
  for (std::size_t i = 0; i < hosts; ++i) fmt::print(out, "    <host id=\"{}\" speed=\"1Gf\"/>\n", host(i));
  for (std::size_t id = 0; id < topology.links().size(); ++id) {
    const Link& link = topology.links()[id];
    fmt::print(out, "    <link id=\"l{}\" bandwidth=\"{}Bps\" latency=\"{}s\"/>  <!-- {} -->\n", id,
               exact_text(link.bandwidth.si()), exact_text(link.latency.si()),
               topology.link_name(LinkId(id)));
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
          refuse(
              "traffic is sprayed over several paths, for which a SimGrid platform has no word; try routing: "
              "d-mod-k or "
              "ecmp");
        fmt::print(out, "<link_ctn id=\"l{}\"/>", use.link.value());
      }
      fmt::print(out, "</route>\n");
    }
  fmt::print(out, "  </zone>\n</platform>\n");
}

}  // namespace syncline
