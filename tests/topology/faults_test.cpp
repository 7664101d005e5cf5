// Parts that are down or slow from the start, and the ways round them.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "sim/topology/apply_faults.hpp"
#include "tests/topology/specs.hpp"

namespace syncline {
namespace {

Fault down(Fault::Part part, std::string name) {
  Fault fault;
  fault.part = part;
  fault.name = std::move(name);
  fault.down = true;
  return fault;
}

std::string refusal(const TopologySpec& spec, const std::vector<Fault>& faults) {
  try {
    Topology topology = build_topology(spec);
    apply_faults(topology, faults);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

std::string cut_off(const std::string& from, const std::string& to) {
  return "with these faults " + from + " cannot reach " + to +
         "; leave one out, or give the accelerators that are cut off as down from the start";
}

bool takes(const Topology& topology, std::size_t from, std::size_t to, const std::vector<LinkId>& links) {
  for (const LinkId link : topology.route(AcceleratorId(from), AcceleratorId(to)))
    if (std::ranges::find(links, link) != links.end()) return true;
  return false;
}

}  // namespace

TEST_CASE("routes avoid what is down, and others stay as they were") {
  struct Row {
    std::string name;
    TopologySpec spec;
    Fault fault;
  };
  const std::vector<Row> rows = {
      {"a cable up", fat_tree(32, 1, {.radix = 8}), down(Fault::Part::Link, "leaf0 - spine1")},
      {"one direction", fat_tree(32, 1, {.radix = 8}), down(Fault::Part::Link, "leaf0 -> spine1")},
      {"a spine", fat_tree(32, 1, {.radix = 8}), down(Fault::Part::Switch, "spine2")},
      {"a NIC", fat_tree(32, 4, {.radix = 8}), down(Fault::Part::Nic, "node3.nic2")},
      {"a link of a torus", torus(27, {3, 3, 3}), down(Fault::Part::Link, "node0.gpu0 - node1.gpu0")},
      {"a link of a mesh", all_to_all(8, Mesh), down(Fault::Part::Link, "node0.gpu0 - node1.gpu0")},
  };
  for (const Row& row : rows) {
    SUBCASE(row.name.c_str()) {
      const Topology whole = build_topology(row.spec);
      Topology broken = build_topology(row.spec);
      const std::vector<Fault> faults{row.fault};
      const std::vector<LinkId> lost = links_of(whole, row.fault);
      REQUIRE_FALSE(lost.empty());
      apply_faults(broken, faults);
      bool some_moved = false;
      for (std::size_t i = 0; i < whole.accelerators().size(); ++i)
        for (std::size_t j = 0; j < whole.accelerators().size(); ++j) {
          const bool was_on_it = takes(whole, i, j, lost);
          some_moved = some_moved || was_on_it;
          REQUIRE_FALSE(takes(broken, i, j, lost));
          if (!was_on_it)
            REQUIRE(whole.route(AcceleratorId(i), AcceleratorId(j)) ==
                    broken.route(AcceleratorId(i), AcceleratorId(j)));
          else
            REQUIRE_FALSE(broken.route(AcceleratorId(i), AcceleratorId(j)).empty());
        }
      CHECK(some_moved);
    }
  }
}

TEST_CASE("sprayed traffic keeps the paths that are left, in even shares") {
  TopologySpec spec = fat_tree(32, 1, {.radix = 8});  // 8 leaves of 4 NICs, 4 spines
  std::get<FatTreeSpec>(spec.scale_out).routing = FatTreeRouting::Spray;
  Topology topology = build_topology(spec);
  const std::vector<Fault> faults{down(Fault::Part::Switch, "spine3")};
  apply_faults(topology, faults);
  std::vector<LinkUse> uses;
  topology.router().load(AcceleratorId(0), AcceleratorId(31), uses);
  int thirds = 0;
  for (const LinkUse& use : uses) thirds += use.coefficient == doctest::Approx(1.0 / 3);
  CHECK(thirds == 6);  // up and down over 3 spines
}

TEST_CASE("degraded parts keep their routes and lose bandwidth") {
  Topology topology = build_topology(fat_tree(32, 4, {.radix = 8}));
  Fault slow = down(Fault::Part::Nic, "node0.nic1");
  slow.down = false;
  slow.bandwidth = 0.25;
  const std::vector<Fault> faults{slow};
  apply_faults(topology, faults);
  for (const LinkId link : links_of(topology, slow)) {
    CHECK(topology.link(link).bandwidth == topology.link(link).nominal * 0.25);
  }
  CHECK(links_of(topology, slow).size() == 4);  // host bus and cable, both ways
}

TEST_CASE("what begins later is no affair of the first routes") {
  Fault late = down(Fault::Part::Switch, "spine0");
  late.down = false;
  late.bandwidth = 0.5;
  late.at = Seconds(1);
  Topology topology = build_topology(fat_tree(32, 1, {.radix = 8}));
  const std::vector<Fault> faults{late};
  apply_faults(topology, faults);
  for (const Link& link : topology.links()) CHECK(link.bandwidth == link.nominal);
}

TEST_CASE("who is cut off, and what is not there, is said by name") {
  const TopologySpec tree = fat_tree(32, 1, {.radix = 8});
  CHECK(refusal(tree, {down(Fault::Part::Switch, "leaf3")}) == cut_off("node12.gpu0", "node0.gpu0"));
  std::vector<Fault> with_its_nodes{down(Fault::Part::Switch, "leaf3")};
  for (const int node : {12, 13, 14, 15})
    with_its_nodes.push_back(down(Fault::Part::Accelerator, "node" + std::to_string(node) + ".gpu0"));
  CHECK(refusal(tree, with_its_nodes).empty());
  CHECK(refusal(tree, {down(Fault::Part::Switch, "spin1")}) ==
        "there is no switch \"spin1\" in this topology; the nearest is \"spine1\"");
  CHECK(refusal(tree, {down(Fault::Part::Nic, "node3.nic1")}).find("the nearest is \"node3.nic0\"") !=
        std::string::npos);
  CHECK(refusal(tree, {down(Fault::Part::Link, "leaf0 - spine9")}).find("there is no link") !=
        std::string::npos);
  CHECK(refusal(tree, {down(Fault::Part::Link, "leaf0 - spine9")}).find("the nearest is \"leaf0 → spine0") !=
        std::string::npos);
  CHECK(refusal(tree, {down(Fault::Part::Link, "leaf0")}).find("write its two ends") != std::string::npos);
}

TEST_CASE("who is cut off in one direction only is cut off") {
  const TopologySpec star = all_to_all(4, Ideal);
  CHECK(refusal(star, {down(Fault::Part::Link, "node2.gpu0 -> fabric")}) ==
        cut_off("node2.gpu0", "node0.gpu0"));
  CHECK(refusal(star, {down(Fault::Part::Link, "fabric -> node2.gpu0")}) ==
        cut_off("node0.gpu0", "node2.gpu0"));
  // Of the two directions between 0 and 1 on a ring each is left the long way round.
  CHECK(refusal(torus(5, {5}), {down(Fault::Part::Link, "node0.gpu0 -> node1.gpu0")}).empty());
}

TEST_CASE("a cluster without any accelerator left is refused") {
  CHECK(refusal(all_to_all(2, Mesh), {down(Fault::Part::Accelerator, "node0.gpu0"),
                                      down(Fault::Part::Accelerator, "node1.gpu0")}) ==
        "with these faults all accelerators are down");
}

TEST_CASE("whether all reach each other takes two searches, however many there are") {
  Topology topology = build_topology(fat_tree(8192, 8, {.radix = 64}));
  const auto up = std::ranges::find_if(topology.links(), [&](const Link& link) {
    return topology.vertex(link.from).name == "leaf0" && topology.vertex(link.to).level == 2;
  });
  REQUIRE(up != topology.links().end());
  const LinkId one_way(static_cast<std::size_t>(up - topology.links().begin()));
  const auto begin = std::chrono::steady_clock::now();
  apply_faults(topology, std::vector{down(Fault::Part::Link, topology.link_name(one_way))});
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  CHECK(taken.count() < 1.5);  // a search for each would be 4 s and more
}

TEST_CASE("links are found by name, of parallel cables the one, in either direction or both") {
  struct Row {
    std::string name;
    std::vector<std::string> expected;
  };
  // Two leaves of 16 under a spine of 32 ports: 16 cables from each leaf.
  const Topology topology =
      build_topology(fat_tree(32, 1, {.levels = 2, .radix = 32, .oversubscription = {1}}));
  for (const Row& row :
       {Row{"leaf0 - spine0 #2", {"leaf0 → spine0 #2", "spine0 → leaf0 #2"}},
        Row{"leaf0 -> spine0 #2", {"leaf0 → spine0 #2"}}, Row{"spine0 → leaf0 #2", {"spine0 → leaf0 #2"}},
        Row{"node1.nic0 - leaf0", {"node1.nic0 → leaf0", "leaf0 → node1.nic0"}}}) {
    CAPTURE(row.name);
    std::vector<std::string> found;
    for (const LinkId link : links_of(topology, down(Fault::Part::Link, row.name)))
      found.push_back(topology.link_name(link));
    CHECK(found == row.expected);
  }
}

TEST_CASE("the share of detours is counted, and of many pairs comes near") {
  // A NIC that is down is on the way of its accelerator to and from all of other nodes: 2 (n - 4) of n (n - 1) pairs.
  struct Row {
    int accelerators;
    double
        within;  // of 2^18 pairs asked for 64 are from its accelerator, and about 64 to it: 3 · 8 of 128 are 19 %
  };
  for (const Row& row : {Row{64, 1e-12}, Row{256, 1e-12}, Row{4096, 0.19}}) {
    CAPTURE(row.accelerators);
    Topology topology = build_topology(fat_tree(row.accelerators, 4, {.radix = 64}));
    std::vector<AcceleratorId> all;
    for (std::size_t id = 0; id < topology.accelerators().size(); ++id) all.emplace_back(id);
    CHECK(share_of_detours(topology.router(), all) == 0);
    apply_faults(topology, std::vector{down(Fault::Part::Nic, "node3.nic1")});
    const double n = row.accelerators;
    CHECK(share_of_detours(topology.router(), all) ==
          doctest::Approx(2 * (n - 4) / (n * (n - 1))).epsilon(row.within));
  }
}

TEST_CASE("an accelerator that is down is not missed by the others") {
  Topology topology = build_topology(fat_tree(32, 4, {.radix = 8}));
  const std::vector<Fault> faults{down(Fault::Part::Accelerator, "node2.gpu1")};
  CHECK(accelerators_down(topology, faults) == std::vector{AcceleratorId(9)});
  apply_faults(topology, faults);
  CHECK_FALSE(topology.route(AcceleratorId(8), AcceleratorId(31)).empty());
}

}  // namespace syncline
