// How fast collectives are simulated, and what our layers cost over the bare fluid core on the same flows.
// usage: bench-collectives [ranks]     (default 1024)
#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "backends/replay/replay.hpp"
#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/network/fluid.hpp"

namespace {

using namespace syncline;
using namespace syncline::literals;

constexpr Bytes Size = 256_MB;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Cluster make_cluster(int ranks) {
  TopologySpec spec;
  spec.name = "ideal switch";
  spec.accelerators = ranks;
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::IdealSwitch, {50_GBps, 1.0, 1_us}};
  return {build_topology(spec), ideal_device(), placement_in_order(static_cast<std::size_t>(ranks))};
}

Schedule one_collective(int ranks, CollectiveKind kind, Algorithm algorithm) {
  Schedule schedule;
  schedule.name = "one collective";
  schedule.meshes.emplace_back("dense", std::vector<MeshAxis>{{"dp", ranks}});
  schedule.families.push_back(GroupFamily::along("dp", schedule.meshes.front(), {"dp"}));
  schedule.streams = {"dp"};
  schedule.roles.push_back({"all", {}, {}});
  schedule.role_of.assign(static_cast<std::size_t>(ranks), RoleId(0));
  Op op;
  op.body = Collective{kind, FamilyId(0), algorithm, Size};
  schedule.roles.front().program.push_back(op);
  return schedule;
}

// The flows of a ring all-reduce straight on the fluid core.
class BareRing : public NetworkListener {
 public:
  BareRing(const Topology& topology, int ranks)
      : network_(link_capacities(topology)),
        ranks_(ranks),
        steps_(2 * (ranks - 1)),
        state_(static_cast<std::size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r) {
      State& state = state_[static_cast<std::size_t>(r)];
      const auto next = static_cast<std::size_t>((r + 1) % ranks);
      const std::vector<LinkId> route =
          topology.route(AcceleratorId(static_cast<std::size_t>(r)), AcceleratorId(next));
      for (const LinkId link : route) state.uses.push_back({link, 1.0});
      state.latency = topology.latency(route);
    }
  }
  double run() {
    for (int r = 0; r < ranks_; ++r) try_send(r);
    network_.run(*this);
    return network_.now().si();
  }
  void on_done(Token token) override {
    const int r = static_cast<int>(token), next = (r + 1) % ranks_;
    at(r).busy = false;
    ++at(r).sent;
    ++at(next).received;
    try_send(r);
    try_send(next);
  }

 private:
  struct State {
    int sent = 0, received = 0;
    bool busy = false;
    std::vector<LinkUse> uses;
    Seconds latency;
  };
  State& at(int r) { return state_[static_cast<std::size_t>(r)]; }
  void try_send(int r) {
    State& state = at(r);
    if (state.busy || state.sent == steps_ || state.received < state.sent) return;
    state.busy = true;
    network_.transfer(state.uses, Size / ranks_, state.latency, static_cast<Token>(r));
  }

  PlainNetwork network_;
  int ranks_, steps_;
  std::vector<State> state_;
};

// The flows of a direct all-to-all straight on the fluid core.
struct BareExchange : NetworkListener {
  void on_done(Token) override {}
  static double run(const Topology& topology, int ranks) {
    PlainNetwork network(link_capacities(topology));
    std::vector<LinkUse> uses;
    for (int shift = 1; shift < ranks; ++shift) {
      for (int r = 0; r < ranks; ++r) {
        const std::vector<LinkId> route =
            topology.route(AcceleratorId(static_cast<std::size_t>(r)),
                           AcceleratorId(static_cast<std::size_t>((r + shift) % ranks)));
        uses.clear();
        for (const LinkId link : route) uses.push_back({link, 1.0});
        network.transfer(uses, Size / ranks, topology.latency(route), static_cast<Token>(r));
      }
    }
    BareExchange listener;
    network.run(listener);
    return network.now().si();
  }
};

double report(const std::string& what, const std::function<double()>& simulate, double expected) {
  const double before = cpu_seconds();
  const double simulated = simulate();
  const double cost = cpu_seconds() - before;
  fmt::print("{:<44} {:>9.3f} CPU-s   {:>12.9f} s simulated, {:+.1e} off its closed form   peak {:.0f} MiB\n",
             what, cost, simulated, simulated / expected - 1, peak_mib());
  return cost;
}

}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1024;
  if (n < 2) {
    fmt::print(stderr, "usage: bench-collectives [ranks]   (at least 2)\n");
    return 2;
  }
  const Cluster cluster = make_cluster(n);
  const auto simulated = [&](CollectiveKind kind, Algorithm algorithm, Detail detail) {
    return make_simgrid_backend()
        ->run(one_collective(n, kind, algorithm), cluster, {detail, NetworkModel::Fluid})
        .step_time.si();
  };
  const double alpha = 2e-6, part = Size.si() / n / 50e9;
  const double ring = 2 * (n - 1) * (alpha + part), exchange = alpha + (n - 1) * part;
  using enum CollectiveKind;
  fmt::print("{} ranks on an ideal switch, 256 MB, links of 50 GB/s and 1 us\n", n);
  report(
      "ring all-reduce, aggregate", [&] { return simulated(AllReduce, Algorithm::Ring, Detail::Aggregate); },
      ring);
  const double bare_ring = report(
      "ring all-reduce, full, bare fluid core", [&] { return BareRing(cluster.topology, n).run(); }, ring);
  const double full_ring = report(
      "ring all-reduce, full", [&] { return simulated(AllReduce, Algorithm::Ring, Detail::Full); }, ring);
  report(
      "all-to-all, aggregate", [&] { return simulated(AllToAll, Algorithm::Direct, Detail::Aggregate); },
      exchange);
  const double bare_exchange = report(
      "all-to-all, full, bare fluid core", [&] { return BareExchange::run(cluster.topology, n); }, exchange);
  const double full_exchange = report(
      "all-to-all, full", [&] { return simulated(AllToAll, Algorithm::Direct, Detail::Full); }, exchange);
  fmt::print("our layers over the bare core: ring {:.2f} times, all-to-all {:.2f} times\n",
             full_ring / bare_ring, full_exchange / bare_exchange);
  return 0;
}
