// All-to-all-v and loads by member, played: bytes on the links, times by hand, folded and not.
#include "sim/schedule/exchange.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "backends/replay/replay.hpp"
#include "sim/core/random.hpp"
#include "sim/network/fluid.hpp"
#include "sim/schedule/check.hpp"
#include "sim/schedule/fold.hpp"
#include "tests/support/small_schedules.hpp"

namespace syncline {
namespace {

using namespace literals;
using testing::ScheduleBuilder;
using testing::star;
using enum Algorithm;

// --- clusters ---

Cluster fat_tree(int nodes, int per_node) {
  TopologySpec spec;
  spec.name = "tree";
  spec.accelerators = nodes * per_node;
  spec.accelerators_per_node = per_node;
  spec.scale_up = ScaleUpSpec{ScaleUpSpec::Kind::Switch, {400_GBps, 1.0, 500_ns}};
  spec.nic = NicSpec{per_node, {100_GBps, 1.0, 500_ns}};
  spec.scale_out = FatTreeSpec{2, 20, {2.0}, false, {50_GBps, 1.0, 1_us}};
  return {build_topology(spec), ideal_device(),
          placement_in_order(static_cast<std::size_t>(spec.accelerators))};
}
Cluster torus(std::vector<int> shape) {
  TopologySpec spec;
  spec.name = "torus";
  spec.accelerators = 1;
  for (const int extent : shape) spec.accelerators *= extent;
  spec.scale_out = TorusSpec{shape, {}, static_cast<int>(shape.size()), {50_GBps, 1.0, 1_us}};
  return {build_topology(spec), ideal_device(),
          placement_in_order(static_cast<std::size_t>(spec.accelerators))};
}
Cluster full_mesh(int n) {
  TopologySpec spec;
  spec.name = "mesh";
  spec.accelerators = n;
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::FullMesh, {50_GBps, 1.0, 1_us}};
  return {build_topology(spec), ideal_device(), placement_in_order(static_cast<std::size_t>(n))};
}

// --- exchanges ---

Exchange even(int n, double count = 1) {
  const auto size = static_cast<std::size_t>(n);
  return {"even", n, std::vector<double>(size * size, count), 0, {}};
}
/// Every member has `cold` for each, but `hot` for the first.
Exchange hot_receiver(int n, double hot, double cold) {
  Exchange exchange = even(n, cold);
  exchange.name = "hot";
  for (std::size_t i = 0; i < exchange.counts.size(); i += static_cast<std::size_t>(n))
    exchange.counts[i] = hot;
  return exchange;
}
/// Anything, for each of `groups`; `to_nodes` between its bounds where there are nodes.
Exchange random_exchange(int n, int groups, int node_members, std::uint64_t seed) {
  Random random(seed);
  Exchange exchange{"random", n, {}, node_members, {}};
  for (int row = 0; row < groups * n; ++row) {
    std::vector<double> counts;
    for (int to = 0; to < n; ++to)
      counts.push_back(random.uniform() < 0.2 ? 0 : std::floor(random.uniform() * 100));
    for (int first = 0; node_members > 0 && first < n; first += node_members) {
      double most = 0, sum = 0;
      for (int to = first; to < first + node_members; ++to) {
        sum += counts[static_cast<std::size_t>(to)];
        most = std::max(most, counts[static_cast<std::size_t>(to)]);
      }
      exchange.to_nodes.push_back((most + sum) / 2);
    }
    exchange.counts.insert(exchange.counts.end(), counts.begin(), counts.end());
  }
  return exchange;
}

/// Groups of `n` consecutive ranks of one role, which give each other what the exchange says, and maybe back.
ScheduleBuilder exchanging(int ranks, int n, const Exchange& exchange, Bytes bytes, Algorithm algorithm,
                           bool there, bool back) {
  ScheduleBuilder b(ranks);
  b.schedule.meshes = {Mesh("dense", {{"ep", n}, {"dp", ranks / n}})};
  b.schedule.families = {GroupFamily::along("ep", b.schedule.meshes.front(), {"ep"})};
  b.schedule.exchanges = {exchange};
  Collective body{CollectiveKind::AllToAll, FamilyId(0), algorithm, bytes};
  body.exchange = ExchangeId(0);
  if (there) b.op(0, body, "ep");
  body.back = true;
  if (back) b.op(0, body, "ep");
  return b;
}

RunResult run(const Schedule& schedule, const Cluster& cluster, Detail detail, bool fold = false) {
  REQUIRE(check_schedule(schedule, fold) == std::vector<std::string>{});
  PlainNetwork network(link_capacities(cluster.topology));
  return replay(schedule, cluster, fold ? one_a_role(schedule) : everybody(schedule), detail, network);
}
double time_of(const Schedule& schedule, const Cluster& cluster, Detail detail) {
  return run(schedule, cluster, detail).step_time.si();
}

std::map<std::uint32_t, double> by_link(const RunResult& result) {
  std::map<std::uint32_t, double> loads;
  for (const LinkLoad& load : result.links) loads[load.link.value()] = load.carried.si();
  return loads;
}
void check_same(const std::map<std::uint32_t, double>& a, const std::map<std::uint32_t, double>& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [link, bytes] : a) {
    CAPTURE(link);
    REQUIRE(b.contains(link));
    CHECK(b.at(link) == doctest::Approx(bytes).epsilon(1e-9));
  }
}

}  // namespace

TEST_SUITE("exchange") {
  TEST_CASE("bytes by link are what the counts say, in every detail, folded and not, there and back") {
    struct Row {
      std::string name;
      Cluster cluster;
    };
    const Row rows[] = {{"fat tree", fat_tree(4, 4)}, {"torus", torus({4, 4})}, {"full mesh", full_mesh(16)}};
    for (const Row& row : rows) {
      CAPTURE(row.name);
      const int n = 8;
      for (const bool for_all : {true, false}) {
        const Exchange exchange = random_exchange(n, for_all ? 1 : 2, 0, for_all ? 7 : 8);
        const ScheduleBuilder there = exchanging(16, n, exchange, 10_MB, Direct, true, false);
        std::map<std::uint32_t, double> expected;
        double sent = 0;
        std::vector<LinkUse> way;
        for (std::size_t group = 0; group < 2; ++group) {
          const ExchangeView view = view_of(exchange, GroupId(group));
          const double item = 10e6 * n / view.items();
          for (std::size_t from = 0; from < 8; ++from)
            for (std::size_t to = 0; to < 8; ++to) {
              if (from == to || view.count(from, to) == 0) continue;
              way.clear();
              row.cluster.topology.router().load(AcceleratorId(group * 8 + from),
                                                 AcceleratorId(group * 8 + to), way);
              for (const LinkUse& use : way)
                expected[use.link.value()] += use.coefficient * view.count(from, to) * item;
              sent += view.count(from, to) * item;
            }
        }
        for (const Detail detail : {Detail::Full, Detail::Aggregate}) {
          const RunResult result = run(there.schedule, row.cluster, detail);
          check_same(by_link(result), expected);
          CHECK(result.bytes_sent.si() == doctest::Approx(sent).epsilon(1e-9));
        }
        const RunResult folded = run(there.schedule, row.cluster, Detail::Aggregate, true);
        CHECK(folded.player_of.empty() == !for_all);  // groups of unlike counts do not stand for each other
        check_same(by_link(folded), expected);
        // Back over the same pairs: on these fabrics the way back is the way there, turned round.
        const ScheduleBuilder back = exchanging(16, n, exchange, 10_MB, Direct, false, true);
        const RunResult returned = run(back.schedule, row.cluster, Detail::Aggregate);
        CHECK(returned.bytes_sent.si() == doctest::Approx(sent).epsilon(1e-9));
      }
    }
  }

  TEST_CASE("what is dispatched is combined: both ways move as much between all nodes") {
    const Cluster cluster = fat_tree(4, 4);
    for (const Algorithm algorithm : {Direct, Pairwise, TwoHop, Hierarchical}) {
      CAPTURE(std::string(name_of(algorithm)));
      for (const int node_members : {0, 4}) {
        const Exchange exchange = random_exchange(16, 1, node_members, 3);
        Bytes sent, between;
        for (const bool back : {false, true}) {
          const ScheduleBuilder b = exchanging(16, 16, exchange, 10_MB, algorithm, !back, back);
          for (const Detail detail : {Detail::Full, Detail::Aggregate}) {
            const RunResult result = run(b.schedule, cluster, detail);
            REQUIRE(result.collectives.size() == 1);
            if (sent == Bytes(0)) sent = result.bytes_sent;
            if (between == Bytes(0)) between = result.collectives[0].total_bytes_between_nodes;
            CHECK(result.bytes_sent.si() == doctest::Approx(sent.si()).epsilon(1e-9));
            CHECK(result.collectives[0].total_bytes_between_nodes.si() ==
                  doctest::Approx(between.si()).epsilon(1e-9));
          }
        }
      }
    }
  }

  TEST_CASE("equal counts are the plain all-to-all of the same S") {
    struct Row {
      std::string name;
      Cluster cluster;
    };
    const Row rows[] = {
        {"star", star(16, 50_GBps, 1_us)}, {"fat tree", fat_tree(4, 4)}, {"torus", torus({4, 4})}};
    for (const Row& row : rows) {
      CAPTURE(row.name);
      for (const Algorithm algorithm : {Direct, Pairwise, TwoHop}) {
        CAPTURE(std::string(name_of(algorithm)));
        for (const Bytes bytes : {1_KiB, 10_MB}) {
          CAPTURE(bytes.si());
          ScheduleBuilder plain = exchanging(16, 16, even(16, 3), bytes, algorithm, true, false);
          const double by_counts = time_of(plain.schedule, row.cluster, Detail::Full);
          auto& body = std::get<Collective>(plain.schedule.roles[0].program[0].body);
          body.exchange.reset();
          CHECK(by_counts ==
                doctest::Approx(time_of(plain.schedule, row.cluster, Detail::Full)).epsilon(1e-9));
        }
      }
    }
  }

  TEST_CASE("a hot receiver takes as long as its bytes take into it, at equal bytes in all") {
    // 8 members, S = 8 MB, 80 items each of 0.1 MB. Even: 10 for each, 7 · 1 MB out and in at 10 GB/s: 0.7 ms.
    // Hot: 45 for the first, 5 for the others: it gets 7 · 4.5 MB: 3.15 ms. Its senders are not held up by their own link.
    const Cluster cluster = star(8, 10_GBps, 0_s);
    for (const Detail detail : {Detail::Full, Detail::Aggregate}) {
      const auto time = [&](const Exchange& exchange) {
        return time_of(exchanging(8, 8, exchange, 8_MB, Direct, true, false).schedule, cluster, detail);
      };
      CHECK(time(even(8, 10)) == doctest::Approx(0.7e-3));
      CHECK(time(hot_receiver(8, 45, 5)) == doctest::Approx(3.15e-3));
    }
    // Back it is the first that sends most: the same.
    CHECK(time_of(exchanging(8, 8, hot_receiver(8, 45, 5), 8_MB, Direct, false, true).schedule, cluster,
                  Detail::Full) == doctest::Approx(3.15e-3));
    // Pairwise: seven rounds, one of them without the first as target for nobody; in each somebody sends it 4.5 MB.
    CHECK(time_of(exchanging(8, 8, hot_receiver(8, 45, 5), 8_MB, Pairwise, true, false).schedule, cluster,
                  Detail::Full) == doctest::Approx(3.15e-3));
  }

  TEST_CASE("two-hop sends an item that several members of a node want across once") {
    // Two nodes of two, ranks 0 1 | 2 3. Member 0 has 6 items for the other node: all 6 for member 2, and 4 of them for 3
    // too. Member 1 has 2 for 2, nothing else. S = 12 MB, the mean of (10 + 2) / 4 = 3 items: 4 MB each.
    const Cluster cluster = fat_tree(2, 2);
    Exchange exchange{
        "dup", 4, {0, 0, 6, 4, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 2, {0, 6, 0, 2, 0, 0, 0, 0}};
    const auto run_by = [&](Algorithm algorithm, Detail detail) {
      return run(exchanging(4, 4, exchange, 12_MB, algorithm, true, false).schedule, cluster, detail);
    };
    for (const Detail detail : {Detail::Full, Detail::Aggregate}) {
      // Direct: 12 copies cross. Two-hop: 6 + 2 do; then 2 passes 4 on to 3, and 3 (the peer of 1) passes 2 on to 2.
      const RunResult direct = run_by(Direct, detail), two_hop = run_by(TwoHop, detail);
      CHECK(direct.collectives[0].bytes_between_nodes.si() == doctest::Approx(12 * 4e6));
      CHECK(direct.bytes_sent.si() == doctest::Approx(12 * 4e6));
      CHECK(two_hop.collectives[0].bytes_between_nodes.si() == doctest::Approx(8 * 4e6));
      CHECK(two_hop.bytes_sent.si() == doctest::Approx((8 + 4 + 2) * 4e6));
    }
    // Without `to_nodes` every copy is relayed.
    exchange.node_members = 0;
    exchange.to_nodes.clear();
    CHECK(run_by(TwoHop, Detail::Full).collectives[0].bytes_between_nodes.si() == doctest::Approx(12 * 4e6));
  }

  TEST_CASE("auto takes what is predicted to end first: two-hop where copies are saved on slow links") {
    const Cluster cluster = fat_tree(2, 4);
    const std::size_t n = 8;
    Exchange exchange{"all for one", 8, std::vector<double>(n * n, 4), 4, std::vector<double>(n * 2, 4)};
    const auto chosen = [&](const Exchange& of) {
      const RunResult result =
          run(exchanging(8, 8, of, 100_MB, Auto, true, false).schedule, cluster, Detail::Aggregate);
      REQUIRE(result.collectives.size() == 1);
      return result.collectives[0].algorithm;
    };
    CHECK(chosen(exchange) == TwoHop);    // a quarter of the bytes between nodes
    exchange.to_nodes.assign(n * 2, 16);  // nothing is saved
    CHECK(chosen(exchange) == Direct);
    CHECK(chosen(even(8)) == Direct);
  }

  TEST_CASE("groups that have the same counts stand for each other, by place") {
    const Cluster cluster = fat_tree(4, 4);
    for (const Algorithm algorithm : {Direct, Pairwise, TwoHop}) {
      CAPTURE(std::string(name_of(algorithm)));
      ScheduleBuilder b = exchanging(16, 4, random_exchange(4, 1, 0, 5), 10_MB, algorithm, true, true);
      b.schedule.loads = {{"experts", FamilyId(0), {1, 2, 0.5, 0}}};
      const OpIndex expert =
          b.compute(0, "compute", {1_ms, 10_us}, {OpIndex(0)}, {{MemoryCategory::Activations, 1_GB, true}});
      b.schedule.roles[0].program[expert.value()].load = LoadId(0);
      const RunResult all = run(b.schedule, cluster, Detail::Aggregate);
      const RunResult folded = run(b.schedule, cluster, Detail::Aggregate, true);
      REQUIRE(folded.player_of.size() == 16);
      for (std::size_t rank = 0; rank < 16; ++rank) CHECK(folded.player_of[rank] == RankId(rank % 4));
      CHECK(folded.step_time.si() == doctest::Approx(all.step_time.si()).epsilon(1e-9));
      CHECK(folded.bytes_sent.si() == doctest::Approx(all.bytes_sent.si()).epsilon(1e-9));
      check_same(by_link(folded), by_link(all));
      for (std::size_t rank = 0; rank < 16; ++rank) CHECK(folded.memory[rank].peak == all.memory[rank].peak);
      CHECK(all.memory[1].peak == 2_GB);
      CHECK(all.memory[3].peak == 0_B);
    }
  }

  TEST_CASE("an exchange in which nobody has anything for another takes no time") {
    const Cluster cluster = star(4, 10_GBps, 1_us);
    Exchange own = even(4, 0);
    for (std::size_t i = 0; i < 16; i += 5) own.counts[i] = 7;
    for (const Exchange& exchange : {own, even(4, 0)})
      for (const Algorithm algorithm : {Direct, Pairwise, TwoHop, Auto})
        for (const bool fold : {false, true})
          CHECK(run(exchanging(4, 4, exchange, 8_MB, algorithm, true, true).schedule, cluster,
                    Detail::Aggregate, fold)
                    .step_time == 0_s);
  }

  TEST_CASE("a ring cannot carry out an exchange") {
    const ScheduleBuilder b = exchanging(4, 4, even(4), 8_MB, Ring, true, false);
    CHECK_THROWS_WITH_AS(
        (void)run(b.schedule, star(4, 10_GBps, 1_us), Detail::Full),
        "all-to-all with an exchange cannot go by ring; it goes by direct, pairwise, two-hop, hierarchical",
        std::invalid_argument);
  }

  TEST_CASE(
      "with figures of the topology, direct takes their latency and its own bytes on the fullest link") {
    // Each of four has 5, 1, 1, 1 items of 1 MB: 15 MB into the first at half of 10 GB/s, after a call and three hops.
    TopologySpec spec;
    spec.name = "star";
    spec.accelerators = 4;
    spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::IdealSwitch, {10_GBps, 1.0, 1_us}};
    spec.collectives.emplace().direct = {{"Simple", 20_us, 1_us, 2_us, 1.0, 0.5}};
    const Cluster cluster{build_topology(spec), ideal_device(), placement_in_order(4)};
    for (const bool back : {false, true}) {
      for (const Algorithm algorithm : {Auto, Direct}) {
        for (const Detail detail : {Detail::Full, Detail::Aggregate}) {
          const RunResult result =
              run(exchanging(4, 4, hot_receiver(4, 5, 1), 8_MB, algorithm, !back, back).schedule, cluster,
                  detail);
          CHECK(result.step_time.si() == doctest::Approx(20e-6 + 3 * 2e-6 + 15e6 / 5e9));
          CHECK(result.collectives[0].protocol == "Simple");
        }
      }
    }
    // Pairwise has none: by the links.
    CHECK(run(exchanging(4, 4, hot_receiver(4, 5, 1), 8_MB, Pairwise, true, false).schedule, cluster,
              Detail::Full)
              .collectives[0]
              .protocol.empty());
  }

  TEST_CASE("in aggregate detail exchanges take about as long as in full, beside others too") {
    // The exchange of two groups, and an all-gather among all ranks over the same links: when all is over, and when the
    // exchange is. In full each flow has its own share of a link; as one action a round goes at the pace of its slowest.
    const bool print = std::getenv("SYNCLINE_PRINT_GRID") != nullptr;
    struct Row {
      std::string name;
      Cluster cluster;
    };
    const Row rows[] = {{"fat tree", fat_tree(4, 4)}, {"torus", torus({4, 4})}, {"full mesh", full_mesh(16)}};
    const std::pair<std::string, Exchange> exchanges[] = {
        {"even", even(8)}, {"random", random_exchange(8, 2, 4, 11)}, {"hot", hot_receiver(8, 45, 5)}};
    for (const bool others : {false, true}) {
      for (const Row& row : rows) {
        for (const auto& [name, exchange] : exchanges) {
          for (const Algorithm algorithm : {Direct, Pairwise, TwoHop}) {
            if (algorithm == TwoHop && row.name != "fat tree" && exchange.node_members == 0) continue;
            for (const Bytes bytes : {1_MB, 64_MB}) {
              ScheduleBuilder b = exchanging(16, 8, exchange, bytes, algorithm, true, false);
              b.schedule.families.push_back(
                  GroupFamily::along("all", b.schedule.meshes.front(), {"ep", "dp"}));
              if (others) b.op(0, Collective{CollectiveKind::AllGather, FamilyId(1), Ring, bytes}, "dp");
              const RunResult full = run(b.schedule, row.cluster, Detail::Full);
              const RunResult one = run(b.schedule, row.cluster, Detail::Aggregate);
              const auto end = [&](const RunResult& result) {
                double last = 0;
                for (const Span& span : result.timeline.spans)
                  if (span.op == 0) last = std::max(last, span.end.si());
                return last;
              };
              const double step = one.step_time / full.step_time - 1, its = end(one) / end(full) - 1;
              if (print)
                fmt::print("{} {} {} {} {}: step {:+.2f} %, exchange {:+.2f} %\n", others, row.name, name,
                           name_of(algorithm), bytes.si(), 100 * step, 100 * its);
              CAPTURE(others);
              CAPTURE(row.name);
              CAPTURE(name);
              CAPTURE(std::string(name_of(algorithm)));
              const bool unlike_ways = row.name == "torus";  // long ones and short ones in a round
              const double bound = others        ? (bytes > 1_MB ? 0.05 : 0.12)
                                   : unlike_ways ? (bytes > 1_MB ? 0.005 : 0.1)
                                                 : 1e-6;
              CHECK(std::abs(step) <= bound);
              CHECK(std::abs(its) <= bound);
            }
          }
        }
      }
    }
  }

  TEST_CASE("a rank with twice the load takes twice as long, and all wait for it at the next collective") {
    ScheduleBuilder b(4);
    b.schedule.loads = {{"experts", FamilyId(0), {2, 1, 0.5, 0}}};
    const OpIndex work = b.compute(0, "compute", {1_ms});
    b.schedule.roles[0].program[0].load = LoadId(0);
    b.collective(0, "dp", CollectiveKind::AllGather, 4_MB, {work});
    const Cluster cluster = star(4, 10_GBps, 0_s);
    RunResult result = run(b.schedule, cluster, Detail::Aggregate);
    const double factors[] = {2, 1, 0.5, 0};
    for (std::size_t rank = 0; rank < 4; ++rank) {
      CHECK(result.timeline.spans[2 * rank].end.si() == doctest::Approx(1e-3 * factors[rank]));
      CHECK(result.timeline.spans[2 * rank + 1].transfer.si() == doctest::Approx(2e-3));
    }
    CHECK(result.step_time.si() == doctest::Approx(2e-3 + 3e6 / 10e9));  // 3 MB come in at 10 GB/s
    CHECK(run(b.schedule, cluster, Detail::Aggregate, true).step_time == result.step_time);

    SUBCASE("on top of a speed of its own") {
      b.schedule.speeds = {{RankId(2), 6}};
      result = run(b.schedule, cluster, Detail::Aggregate);
      CHECK(result.timeline.spans[4].end.si() == doctest::Approx(3e-3));
      CHECK(result.step_time.si() == doctest::Approx(3e-3 + 3e6 / 10e9));
    }
    SUBCASE("kernels without work are launched all the same") {
      Device device = ideal_device();
      device.launch = 1_ms;
      b.schedule.works[0].kernels.push_back(b.schedule.works[0].kernels.front());
      result = run(b.schedule, star(4, 10_GBps, 0_s, device), Detail::Aggregate);
      CHECK(result.timeline.spans[6].end.si() == doctest::Approx(2e-3));  // two launches
      CHECK(result.timeline.spans[0].end.si() == doctest::Approx(5e-3));  // one, and two kernels of 2 ms
    }
  }

  TEST_CASE("while a collective takes units of the device, compute runs on what is left") {
    // 10 MB each way at 10 GB/s: 1 ms, beside 1 ms of compute. Of 100 units the collective takes 20: 0.8 ms are done by
    // then, the rest takes 0.2 ms more. By the device's own figure, 0.5, it is 1.5 ms.
    struct Row {
      std::string name;
      int device_units;
      std::vector<int> units;  // of collectives at once
      double end;              // ms
    };
    const Row rows[] = {{"20 of 100", 100, {20}, 1.2},
                        {"as the device says", 100, {0}, 1.5},
                        {"a device without units", 1, {20}, 1.5},
                        // Two share the links for 2 ms, and the one that takes most counts.
                        {"20 and 60 of 100", 100, {20, 60}, 2.2},
                        {"20 and as the device says", 100, {20, 0}, 2.0}};
    for (const Row& row : rows) {
      CAPTURE(row.name);
      Device device = ideal_device();
      device.compute_rate_while_communicating = 0.5;
      device.gemm.units = row.device_units;
      ScheduleBuilder b(2);
      b.compute(0, "compute", {1_ms});
      for (std::size_t i = 0; i < row.units.size(); ++i) {
        Collective body{CollectiveKind::AllGather, FamilyId(0), Direct, 20_MB};
        body.units = row.units[i];
        b.op(0, body, "dp" + std::to_string(i));
      }
      const RunResult result = run(b.schedule, star(2, 10_GBps, 0_s, device), Detail::Aggregate);
      CHECK(result.timeline.spans[0].end.si() == doctest::Approx(row.end * 1e-3));
    }
    Device device = ideal_device();
    device.gemm.units = 100;
    ScheduleBuilder b(2);
    Collective body{CollectiveKind::AllGather, FamilyId(0), Direct, 20_MB};
    body.units = 100;
    b.op(0, body, "dp");
    CHECK_THROWS_WITH_AS(
        (void)run(b.schedule, star(2, 10_GBps, 0_s, device), Detail::Aggregate),
        "all-gather takes 100 units of the device, which has 100; some must be left for compute",
        std::invalid_argument);
  }

  TEST_CASE("a timeline names the exchange and its way") {
    const ScheduleBuilder b = exchanging(4, 4, hot_receiver(4, 2, 1), 8_MB, Direct, true, true);
    const RunResult result = run(b.schedule, star(4, 10_GBps, 1_us), Detail::Aggregate);
    REQUIRE(result.timeline.ops.size() == 2);
    CHECK(result.timeline.ops[0].exchange == "hot");
    CHECK(result.timeline.ops[1].exchange == "hot back");
    // The first gets 3 · 2 items from others, these get 3 each: 15 in all, 3.75 in the mean.
    REQUIRE(result.collectives.size() == 1);
    CHECK(result.collectives[0].by_counts);
    CHECK(result.collectives[0].imbalance == doctest::Approx(6 / 3.75));
  }
}

}  // namespace syncline
