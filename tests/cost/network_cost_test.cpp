#include "sim/cost/network_cost.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/config/price_list.hpp"
#include "sim/config/scenario.hpp"
#include "sim/core/error.hpp"

namespace syncline {
using namespace literals;
namespace {

// Prices that a reader can add up.
PriceList small_list() {
  PriceList prices;
  prices.nics = {{400_Gbps, 1, 1000, 900, 2000, 20_W, "nic"}};
  prices.switches = {{400_Gbps, 64, 30000, std::nullopt, std::nullopt, 700_W, "switch"},
                     {400_Gbps, 32, 16000, std::nullopt, std::nullopt, 400_W, "small switch"},
                     {800_Gbps, 32, 50000, std::nullopt, std::nullopt, 900_W, "fast switch"}};
  prices.transceivers = {{400_Gbps, 1, 500, std::nullopt, std::nullopt, 10_W, "transceiver"}};
  prices.copper = {{400_Gbps, 1, 100, std::nullopt, std::nullopt, 1_W, "copper"}};
  return prices;
}

const LinkSpec Cable{400_Gbps, 1.0, 1_us};

TopologySpec fat_tree(int accelerators, int radix) {
  TopologySpec spec;
  spec.name = "tree";
  spec.accelerators = accelerators;
  spec.accelerators_per_node = 8;
  spec.scale_up = ScaleUpSpec{.link = {900_GBps, 1.0, 1_us}};
  spec.nic = NicSpec{8, {64_GBps, 1.0, 1_us}};
  FatTreeSpec tree;
  tree.radix = radix;
  tree.link = Cable;
  spec.scale_out = tree;
  return spec;
}

TopologySpec torus(std::vector<int> shape) {
  TopologySpec spec;
  spec.name = "torus";
  spec.accelerators = 1;
  for (const int n : shape) spec.accelerators *= n;
  TorusSpec fabric;
  fabric.shape = std::move(shape);
  fabric.link = Cable;
  spec.scale_out = fabric;
  return spec;
}

NetworkCost cost_of(const TopologySpec& spec, const PriceList& prices) {
  return network_cost(build_topology(spec), prices);
}

}  // namespace

TEST_CASE("a fat tree of one switch costs its NICs, the switch and two transceivers a cable") {
  const NetworkCost cost = cost_of(fat_tree(32, 64), small_list());
  REQUIRE(cost.price);
  REQUIRE(cost.power);
  // 32 NICs, the switch of 32 ports (the smallest that will do), 64 transceivers; NVLink and PCIe are the nodes' affair
  CHECK(cost.price->typical == 32 * 1000 + 16000 + 64 * 500);
  CHECK(cost.price->low == 32 * 900 + 16000 + 64 * 500);
  CHECK(cost.price->high == 32 * 2000 + 16000 + 64 * 500);
  CHECK(cost.power->si() == 32 * 20 + 400 + 64 * 10);
}

TEST_CASE("two levels add the spines and the cables to them") {
  // 64 NICs on switches of 32 ports: 4 leaves with 16 down and 16 up, 2 spines; 64 + 64 cables
  const NetworkCost cost = cost_of(fat_tree(64, 32), small_list());
  REQUIRE(cost.price);
  CHECK(cost.price->typical == 64 * 1000 + 6 * 16000 + 2 * 128 * 500);
  REQUIRE(cost.power);
  CHECK(cost.power->si() == 64 * 20 + 6 * 400 + 2 * 128 * 10);
}

TEST_CASE("a part that is not in the list is shown, and there is no sum") {
  const NetworkCost cost = cost_of(fat_tree(128, 128), small_list());
  CHECK_FALSE(cost.price);
  CHECK_FALSE(cost.power);
  const auto line = std::ranges::find(cost.lines, "level 1 switch, 128 ports of 400 Gbit/s", &CostLine::part);
  REQUIRE(line != cost.lines.end());
  CHECK(line->count == 1);
  CHECK_FALSE(line->price);
  CHECK(line->source == "no switch of so many ports at that rate in the price list");
}

TEST_CASE("an ideal switch has no price, however few ports it has") {
  TopologySpec spec = fat_tree(32, 64);
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::IdealSwitch, Cable};
  const NetworkCost cost = cost_of(spec, small_list());
  CHECK_FALSE(cost.price);
  CHECK_FALSE(cost.power);
  const auto line = std::ranges::find(cost.lines, "ideal switch", &CostLine::part);
  REQUIRE(line != cost.lines.end());
  CHECK(line->source == "stands for switches that are not known");
}

TEST_CASE("a price without a power leaves the power unknown, and only that") {
  PriceList prices = small_list();
  prices.nics.front().power.reset();
  const NetworkCost cost = cost_of(fat_tree(32, 64), prices);
  CHECK(cost.price);
  CHECK_FALSE(cost.power);
}

TEST_CASE("one node has no network between nodes") {
  TopologySpec spec = fat_tree(8, 64);
  spec.scale_out = std::monostate{};
  const NetworkCost cost = cost_of(spec, small_list());
  CHECK(cost.lines.empty());
  REQUIRE(cost.price);
  CHECK(cost.price->typical == 0);
}

TEST_CASE("cables between blocks of a torus") {
  struct Row {
    std::string name;
    std::vector<int> shape;
    std::vector<bool> wrap;
    int cables;
  };
  const std::vector<Row> rows = {
      // Jouppi et al., ISCA 2023: 48 switches of 128 ports, two ports a cable
      {"a whole TPU v4 pod", {16, 16, 16}, {}, 48 * 128 / 2},
      {"one block, closed: 3 faces of 16", {4, 4, 4}, {}, 48},
      {"one block, open", {4, 4, 4}, {false, false, false}, 0},
      {"two blocks: 16 lines of 8 cross twice, 2 x 32 lines of 4 once", {4, 4, 8}, {}, 16 * 2 + 64},
      {"smaller than a block", {2, 2, 2}, {}, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(cables_between_blocks(row.shape, row.wrap, 4) == row.cables);
  }
}

TEST_CASE("a torus of three dimensions has circuit switches between blocks, one of two is copper") {
  PriceList prices = small_list();
  prices.optical_circuits = OpticalCircuits{3, 4, {.usd = 50, .power = 2_W, .source = "port"}};
  // 4 x 4 x 4: 192 cables, 48 of them optical: 96 ports and 96 transceivers
  const NetworkCost cube = cost_of(torus({4, 4, 4}), prices);
  REQUIRE(cube.price);
  CHECK(cube.price->typical == 96 * 50 + 96 * 500 + 144 * 100);
  REQUIRE(cube.power);
  CHECK(cube.power->si() == 96 * 2 + 96 * 10 + 144 * 1);
  const NetworkCost square = cost_of(torus({8, 8}), prices);  // 2 x 64 cables
  REQUIRE(square.price);
  CHECK(square.price->typical == 128 * 100);
}

TEST_CASE("slices of a torus that are nodes count their cables too") {
  PriceList prices = small_list();
  prices.optical_circuits = OpticalCircuits{3, 4, {.usd = 50, .power = 2_W, .source = "port"}};
  TopologySpec spec = fat_tree(128, 64);
  spec.accelerators_per_node = 64;
  spec.scale_up = ScaleUpSpec{.kind = ScaleUpSpec::Kind::Torus, .link = Cable, .shape = {4, 4, 4}};
  spec.nic->per_node = 16;  // 32 NICs
  const NetworkCost cost = cost_of(spec, prices);
  REQUIRE(cost.price);
  // twice the cube above, and 32 NICs on a switch of 32 ports
  CHECK(cost.price->typical == 2 * (96 * 50 + 96 * 500 + 144 * 100) + 32 * 1000 + 16000 + 64 * 500);
}

TEST_CASE("a tapered tree never costs more than a full one, and rail-only no more than rails with spines") {
  const PriceList prices = load_price_list("network");
  for (const int accelerators : {256, 512, 1024}) {
    CAPTURE(accelerators);
    const std::string count = std::to_string(accelerators);
    const auto typical = [&](std::vector<Override> overrides) {
      overrides.push_back({"accelerators", count});
      const NetworkCost cost = cost_of(load_topology("dgx-h100", overrides), prices);
      REQUIRE(cost.price);
      REQUIRE(cost.power);
      CHECK(cost.price->low <= cost.price->typical);
      CHECK(cost.price->typical <= cost.price->high);
      return cost.price->typical;
    };
    const double full = typical({});
    CHECK(typical({{"scale-out.oversubscription", "4"}}) <= full);
    CHECK(typical({{"scale-out.rail-only", "true"}}) <= full);
  }
}

TEST_CASE("the price list names the source of every part") {
  const PriceList prices = load_price_list("network");
  CHECK_FALSE(prices.source.empty());
  for (const std::vector<PricedPart>* parts :
       {&prices.nics, &prices.switches, &prices.transceivers, &prices.copper}) {
    CHECK_FALSE(parts->empty());
    for (const PricedPart& part : *parts) {
      CAPTURE(part.source);
      CHECK_FALSE(part.source.empty());
      CHECK(part.usd_low.value_or(0) <= part.usd.value_or(0));
      CHECK(part.usd_high.value_or(1e9) >= part.usd.value_or(0));
    }
  }
}

TEST_CASE("a price list that is not there is refused with the names that are") {
  try {
    static_cast<void>(load_price_list("networks"));
    FAIL("accepted");
  } catch (const InputError& error) {
    const std::string message = error.what();
    CHECK(message.find("\"network\"") != std::string::npos);
  }
}

}  // namespace syncline
