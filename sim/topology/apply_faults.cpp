#include "sim/topology/apply_faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "sim/core/error.hpp"
#include "sim/core/random.hpp"
#include "sim/topology/fabric.hpp"
#include "sim/topology/graph_router.hpp"

namespace syncline {
namespace {

/// What a part's vertex must be.
VertexKind kind_of(Fault::Part part) {
  return part == Fault::Part::Nic           ? VertexKind::Nic
         : part == Fault::Part::Accelerator ? VertexKind::Accelerator
                                            : VertexKind::Switch;
}
std::string_view word_of(Fault::Part part) {
  switch (part) {
    case Fault::Part::Link: return "link";
    case Fault::Part::Nic: return "NIC";
    case Fault::Part::Switch: return "switch";
    case Fault::Part::Accelerator: return "accelerator";
  }
  return "";
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// The name of the link, or of the two of a cable, as reports write it.
std::vector<std::string> directions(const std::string& name) {
  if (name.find(" → ") != std::string::npos) return {name};
  if (name.find(" -> ") != std::string::npos) return {replaced(name, " -> ", " → ")};
  const std::size_t dash = name.find(" - ");
  if (dash == std::string::npos) return {};
  const std::string left = name.substr(0, dash), right = name.substr(dash + 3);
  const std::size_t number = right.find(" #");  // of parallel cables
  const std::string end = right.substr(0, number),
                    rest = number == std::string::npos ? "" : right.substr(number);
  return {left + " → " + end + rest, end + " → " + left + rest};
}

/// "it has none", "it has one, "fabric"", "it has 4, "spine0" to "spine3"".
std::string extent_of(const std::vector<std::string>& known) {
  if (known.empty()) return "it has none";
  if (known.size() == 1) return fmt::format("it has one, \"{}\"", known.front());
  return fmt::format("it has {}, \"{}\" to \"{}\"", known.size(), known.front(), known.back());
}

[[noreturn]] void refuse_name(const Fault& fault, const std::vector<std::string>& known) {
  const std::vector<std::string> directed = directions(fault.name);
  const std::string near = nearest_name(directed.empty() ? fault.name : directed.front(), known);
  refuse(fmt::format("there is no {} \"{}\" in this topology; {}", word_of(fault.part), fault.name,
                     near.empty() ? extent_of(known) : fmt::format("the nearest is \"{}\"", near)));
}

/// Many faults of a large topology ask often: names are written out only where the first end is right, or for a refusal.
std::vector<LinkId> links_named(const Topology& topology, const Fault& fault) {
  const std::vector<std::string> wanted = directions(fault.name);
  const auto is_wanted = [&](LinkId id) {
    const std::string& from = topology.vertex(topology.link(id).from).name;
    return std::ranges::any_of(wanted, [&](const std::string& name) {
      return name.starts_with(from) && name == topology.link_name(id);
    });
  };
  std::vector<LinkId> found;
  for (std::size_t id = 0; id < topology.links().size(); ++id)
    if (is_wanted(LinkId(id))) found.emplace_back(id);
  if (!wanted.empty() && found.size() >= wanted.size()) return found;

  std::vector<std::string> known;
  for (std::size_t id = 0; id < topology.links().size(); ++id)
    known.push_back(topology.link_name(LinkId(id)));
  if (known.empty()) refuse(fmt::format("there is no link \"{}\"; this topology has none", fault.name));
  if (wanted.empty())
    refuse(fmt::format(
        "\"{}\" names no link; write its two ends, such as \"{}\", or \"{}\" for both directions", fault.name,
        replaced(known.front(), " → ", " -> "), replaced(known.front(), " → ", " - ")));
  refuse_name(fault, known);
}

VertexId vertex_named(const Topology& topology, const Fault& fault) {
  const auto is_of_kind = [&](const Vertex& vertex) { return vertex.kind == kind_of(fault.part); };
  for (std::size_t id = 0; id < topology.vertices().size(); ++id)
    if (const Vertex& vertex = topology.vertices()[id]; is_of_kind(vertex) && vertex.name == fault.name)
      return VertexId(id);
  std::vector<std::string> known;
  for (const Vertex& vertex : topology.vertices())
    if (is_of_kind(vertex)) known.push_back(vertex.name);
  refuse_name(fault, known);
}

/// Keeps the routes that are whole.
class DetourRouter : public Router {
 public:
  DetourRouter(const Topology& topology, std::shared_ptr<const Router> usual, const std::vector<bool>& usable)
      : usual_(std::move(usual)),
        usable_(usable),
        single_(graph_router(topology, GraphRouting::Ecmp, 0, usable)),
        split_(graph_router(topology, GraphRouting::Spray, 0, usable)) {}

  void route(AcceleratorId source, AcceleratorId target, std::vector<LinkId>& links) const override {
    const std::size_t begin = links.size();
    usual_->route(source, target, links);
    if (std::all_of(links.begin() + static_cast<std::ptrdiff_t>(begin), links.end(),
                    [&](LinkId link) { return usable_[link.value()]; }))
      return;
    links.resize(begin);
    single_->route(source, target, links);
  }

  void load(AcceleratorId source, AcceleratorId target, std::vector<LinkUse>& uses) const override {
    const auto begin = static_cast<std::ptrdiff_t>(uses.size());
    usual_->load(source, target, uses);
    const auto is_whole = [&](const LinkUse& use) { return usable_[use.link.value()]; };
    if (std::all_of(uses.begin() + begin, uses.end(), is_whole)) return;
    const bool sprayed =
        std::any_of(uses.begin() + begin, uses.end(), [](const LinkUse& use) { return use.coefficient < 1; });
    uses.resize(static_cast<std::size_t>(begin));
    (sprayed ? split_ : single_)->load(source, target, uses);
  }

  /// The usual way, or any of the usual ways, is broken.
  [[nodiscard]] bool goes_round(AcceleratorId source, AcceleratorId target) const {
    std::vector<LinkUse> uses;
    usual_->load(source, target, uses);
    return std::ranges::any_of(uses, [&](const LinkUse& use) { return !usable_[use.link.value()]; });
  }
  [[nodiscard]] const std::shared_ptr<const Router>& usual() const { return usual_; }

  [[nodiscard]] std::string description() const override {
    return usual_->description() + "; round what is down by a path of fewest links";
  }

 private:
  std::shared_ptr<const Router> usual_;
  std::vector<bool> usable_;  // by LinkId
  std::unique_ptr<const Router> single_, split_;
};

/// By vertex: what `from` reaches over the links that may be taken; backwards: what reaches `from`.
std::vector<bool> reached(const Topology& topology, const std::vector<bool>& usable, VertexId from,
                          bool backwards) {
  std::vector<std::vector<VertexId>> next(topology.vertices().size());
  for (std::size_t id = 0; id < usable.size(); ++id) {
    const Link& link = topology.links()[id];
    if (usable[id])
      next[(backwards ? link.to : link.from).value()].push_back(backwards ? link.from : link.to);
  }
  std::vector<bool> found(next.size());
  found[from.value()] = true;
  std::vector<VertexId> queue{from};
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (const VertexId vertex : next[queue[i].value()]) {
      if (found[vertex.value()]) continue;
      found[vertex.value()] = true;
      queue.push_back(vertex);
    }
  return found;
}

/// All reach each other where the first reaches all, and all reach it.
/// @throws std::invalid_argument naming two accelerators that are apart
void check_reach(const Topology& topology, const std::vector<bool>& usable,
                 const std::vector<AcceleratorId>& down) {
  std::vector<VertexId> up;
  for (std::size_t id = 0; id < topology.accelerators().size(); ++id)
    if (!std::ranges::binary_search(down, AcceleratorId(id))) up.push_back(topology.accelerators()[id]);
  if (up.empty()) refuse("with these faults all accelerators are down");
  const std::vector<bool> from_first = reached(topology, usable, up.front(), false),
                          to_first = reached(topology, usable, up.front(), true);
  const auto refuse_way = [&](VertexId from, VertexId to) {
    refuse(fmt::format(
        "with these faults {} cannot reach {}; leave one out, or give the accelerators that are cut off as "
        "down from the start",
        topology.vertex(from).name, topology.vertex(to).name));
  };
  for (const VertexId vertex : up) {
    if (!to_first[vertex.value()]) refuse_way(vertex, up.front());
    if (!from_first[vertex.value()]) refuse_way(up.front(), vertex);
  }
}

}  // namespace

std::vector<LinkId> links_of(const Topology& topology, const Fault& fault) {
  if (fault.part == Fault::Part::Link) return links_named(topology, fault);
  const VertexId vertex = vertex_named(topology, fault);
  std::vector<LinkId> found;
  for (std::size_t id = 0; id < topology.links().size(); ++id)
    if (topology.links()[id].from == vertex || topology.links()[id].to == vertex) found.emplace_back(id);
  return found;
}

std::vector<AcceleratorId> accelerators_down(const Topology& topology, std::span<const Fault> faults) {
  std::vector<AcceleratorId> down;
  for (const Fault& fault : faults) {
    if (fault.part != Fault::Part::Accelerator || !fault.down) continue;
    const VertexId vertex = vertex_named(topology, fault);
    const auto at = std::ranges::find(topology.accelerators(), vertex);
    down.emplace_back(static_cast<std::size_t>(at - topology.accelerators().begin()));
  }
  std::ranges::sort(down);
  return down;
}

void apply_faults(Topology& topology, std::span<const Fault> faults) {
  bool broken = false;
  for (const Fault& fault : faults) {
    const std::vector<LinkId> links = links_of(topology, fault);  // its name is checked whenever it happens
    if (fault.at) continue;
    broken = broken || fault.down;
    if (fault.down || fault.part == Fault::Part::Accelerator)
      continue;  // a slow one is no affair of the network
    for (const LinkId link : links) topology.limit(link, fault.bandwidth);
  }
  if (broken) topology.set_router(routes_at(topology, faults, Seconds(-1)));  // before any date
}

std::shared_ptr<const Router> routes_at(const Topology& topology, std::span<const Fault> faults,
                                        Seconds date) {
  std::vector<bool> usable(topology.links().size(), true);
  for (const Fault& fault : faults)
    if (fault.down && (!fault.at || *fault.at + fault.reroute <= date))
      for (const LinkId link : links_of(topology, fault)) usable[link.value()] = false;
  check_reach(topology, usable, accelerators_down(topology, faults));
  const auto* detours = dynamic_cast<const DetourRouter*>(&topology.router());
  return std::make_shared<const DetourRouter>(topology, detours ? detours->usual() : topology.shared_router(),
                                              usable);
}

double share_of_detours(const Router& router, std::span<const AcceleratorId> accelerators) {
  constexpr std::size_t MostPairs = 1U << 18;  // a tenth of a second
  const auto* detours = dynamic_cast<const DetourRouter*>(&router);
  const std::size_t n = accelerators.size();
  if (detours == nullptr || n < 2) return 0;
  const std::size_t others = n - 1, asked = std::clamp<std::size_t>(MostPairs / n, 1, others);
  std::size_t round = 0;
  for (std::size_t source = 0; source < n; ++source)
    for (std::size_t i = 0; i < asked; ++i) {
      const std::size_t ahead = 1 + (asked == others ? i : mix(source, i) % others);
      if (detours->goes_round(accelerators[source], accelerators[(source + ahead) % n])) ++round;
    }
  return static_cast<double>(round) / static_cast<double>(n * asked);
}

}  // namespace syncline
