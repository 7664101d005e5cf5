// Our network model and SimGrid's own, held equal flow by flow; and both to the link's arithmetic.
#include <doctest/doctest.h>

#include <functional>
#include <memory>

#include "backends/replay/replay.hpp"
#include "backends/simgrid/fluid_network.hpp"
#include "backends/simgrid/native_network.hpp"
#include "sim/core/random.hpp"
#include "sim/network/fluid.hpp"
#include "tests/support/ends.hpp"

namespace syncline {
namespace {

using namespace literals;
using testing::Ends;

enum class Kind { Plain, Fluid, Native };

std::unique_ptr<Network> make_network(Kind kind, const std::vector<BytesPerSecond>& capacities) {
  if (kind == Kind::Plain) return std::make_unique<PlainNetwork>(capacities);
  if (kind == Kind::Fluid) return std::make_unique<simgrid_backend::FluidNetwork>(capacities);
  return std::make_unique<simgrid_backend::NativeNetwork>(capacities);
}

constexpr Kind AllKinds[] = {Kind::Plain, Kind::Fluid, Kind::Native};

std::vector<LinkUse> over(std::initializer_list<unsigned> links) {
  std::vector<LinkUse> uses;
  for (const unsigned link : links) uses.push_back({LinkId(link), 1.0});
  return uses;
}

TEST_CASE("1 GB over 50 GB/s and 5 us takes 20.005 ms on every network") {
  for (const Kind kind : AllKinds) {
    CAPTURE(static_cast<int>(kind));
    const auto network = make_network(kind, {50_GBps});
    Ends ends(*network);
    network->transfer(over({0}), 1_GB, 5_us, 0);
    network->run(ends);
    CHECK(ends.at[0] == doctest::Approx(0.020005).epsilon(1e-9));
  }
}

TEST_CASE("incast of 8 to 1 takes 8 times a single flow on every network") {
  for (const Kind kind : AllKinds) {
    CAPTURE(static_cast<int>(kind));
    const auto network =
        make_network(kind, std::vector<BytesPerSecond>(9, 50_GBps));  // 8 ways in, one way out
    Ends ends(*network);
    for (unsigned i = 0; i < 8; ++i) network->transfer(over({i, 8}), 1_GB, 10_us, i);
    network->run(ends);
    for (unsigned i = 0; i < 8; ++i) CHECK(ends.at[i] == doctest::Approx(8 * 0.020 + 10e-6).epsilon(1e-9));
  }
}

TEST_CASE("sharing does not depend on latency: a near and a far flow get the same") {
  // SimGrid's own default would give the flow of 2 us fifty times the bandwidth of the one of 100 us.
  for (const Kind kind : AllKinds) {
    CAPTURE(static_cast<int>(kind));
    const auto network = make_network(kind, {1_GBps});
    Ends ends(*network);
    network->transfer(over({0}), 100_MB, 2_us, 0);
    network->transfer(over({0}), 100_MB, 100_us, 1);
    network->run(ends);
    // Alone for 98 us, then half each: the first has 100 MB − 98 kB left at 500 MB/s.
    CHECK(ends.at[0] == doctest::Approx(100e-6 + (100e6 - 98e3) / 0.5e9).epsilon(1e-9));
    CHECK(ends.at[1] == doctest::Approx(0.2 + 2e-6).epsilon(1e-9));
  }
}

TEST_CASE("a transfer takes no more than it may, and others have the rest, on every network") {
  // 50 GB/s: 20 of them for the first, 30 for the second, which so has 1.5 GB in 50 ms; alone again the first has no more.
  for (const Kind kind : AllKinds) {
    CAPTURE(static_cast<int>(kind));
    const auto network = make_network(kind, {50_GBps});
    Ends ends(*network);
    network->transfer(over({0}), 2_GB, 10_us, 0, 20_GBps);
    network->transfer(over({0}), 1.5_GB, 10_us, 1);
    network->run(ends);
    CHECK(ends.at[0] == doctest::Approx(0.1 + 10e-6).epsilon(1e-9));
    CHECK(ends.at[1] == doctest::Approx(0.05 + 10e-6).epsilon(1e-9));
  }
}

// Random traffic over a topology: waves of flows between random pairs, sizes and starting times of all kinds; a third of them
// bounded below or about what links have.
std::map<Token, double> random_traffic(Kind kind, const Topology& topology, std::uint64_t seed,
                                       unsigned flows) {
  const auto network = make_network(kind, link_capacities(topology));
  struct Starter : Ends {
    Starter(Network& net, std::function<void(Token)> start) : Ends(net), start_(std::move(start)) {}
    void on_done(Token token) override {
      if (token % 2 == 0)
        start_(token);
      else
        Ends::on_done(token);
    }
    std::function<void(Token)> start_;
  };
  Random random(seed);
  struct Flow {
    std::vector<LinkUse> uses;
    Bytes bytes;
    Seconds latency;
    BytesPerSecond most = AnyRate;
  };
  std::vector<Flow> plan;
  const std::size_t n = topology.accelerators().size();
  for (unsigned i = 0; i < flows; ++i) {
    const std::size_t from = random.below(n), to = (from + 1 + random.below(n - 1)) % n;
    const std::vector<LinkId> route = topology.route(AcceleratorId(from), AcceleratorId(to));
    Flow& flow = plan.emplace_back();
    for (const LinkId link : route) flow.uses.push_back({link, 1.0});
    flow.bytes = Bytes(static_cast<double>(1 + random.below(100'000'000)));
    flow.latency = topology.latency(route);
    if (i % 3 == 0) flow.most = 1_GBps * static_cast<double>(1 + random.below(60));
    network->delay(1_ms * static_cast<double>(i % 16), 2 * i);
  }
  Starter ends(*network, [&](Token token) {
    const Flow& flow = plan[token / 2];
    network->transfer(flow.uses, flow.bytes, flow.latency, token + 1, flow.most);
  });
  network->run(ends);
  return ends.at;
}

TEST_CASE("random traffic: every flow ends at the same time on our model and on SimGrid's") {
  TopologySpec tree;
  tree.name = "fat tree 4:1";
  tree.accelerators = 64;
  tree.accelerators_per_node = 1;
  tree.nic = NicSpec{1, {100_GBps, 1.0, 200_ns}};
  tree.scale_out = FatTreeSpec{2, 20, {4}, false, {50_GBps, 1.0, 500_ns}};
  TopologySpec torus;
  torus.name = "torus";
  torus.accelerators = 64;
  torus.scale_out = TorusSpec{{4, 4, 4}, {}, 3, {50_GBps, 1.0, 500_ns}};
  TopologySpec star;
  star.name = "star";
  star.accelerators = 32;
  star.scale_out = AllToAllSpec{AllToAllSpec::Kind::IdealSwitch, {50_GBps, 1.0, 500_ns}};
  for (const TopologySpec& spec : {tree, torus, star}) {
    CAPTURE(spec.name);
    const Topology topology = build_topology(spec);
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      CAPTURE(seed);
      const auto plain = random_traffic(Kind::Plain, topology, seed, 512);
      const auto fluid = random_traffic(Kind::Fluid, topology, seed, 512);
      const auto native = random_traffic(Kind::Native, topology, seed, 512);
      REQUIRE(plain.size() == 512);
      REQUIRE(native.size() == 512);
      CHECK(plain == fluid);  // the engine adds nothing, to the last bit
      for (const auto& [token, end] : fluid) CHECK(native.at(token) == doctest::Approx(end).epsilon(1e-6));
    }
  }
}

TEST_CASE("the engine can be used again and again in one process with the same result") {
  const std::vector<BytesPerSecond> links(4, 1_GBps);
  std::map<Token, double> first;
  for (int round = 0; round < 5; ++round) {
    const auto network = make_network(Kind::Fluid, links);
    Ends ends(*network);
    for (unsigned i = 0; i < 40; ++i)
      network->transfer(over({i % 4, (i + 1) % 4}), Bytes(1e5 + 7 * i), 1_us, i);
    network->run(ends);
    CHECK(ends.at.size() == 40);
    if (round == 0)
      first = ends.at;
    else
      CHECK(ends.at == first);
  }
}

TEST_CASE("both networks say which link carried how much") {
  for (const Kind kind : AllKinds) {
    const auto network = make_network(kind, {1_GBps, 1_GBps});
    Ends ends(*network);
    network->transfer(over({0}), 1_MB, 1_us, 0);
    network->transfer(over({0, 1}), 2_MB, 1_us, 1);
    network->run(ends);
    CHECK(network->carried()[0].si() == doctest::Approx(3e6));
    CHECK(network->carried()[1].si() == doctest::Approx(2e6));
  }
}

}  // namespace
}  // namespace syncline
