// An order lowered to a schedule and simulated on the engine comes to what the exact replay says.
#include "sim/pipeline/lower.hpp"

#include <doctest/doctest.h>

#include <tuple>

#include "backends/simgrid/simgrid_backend.hpp"
#include "sim/core/random.hpp"
#include "sim/pipeline/generator.hpp"
#include "sim/schedule/check.hpp"
#include "sim/topology/spec.hpp"
#include "tests/support/small_schedules.hpp"

using namespace syncline;
using namespace syncline::pipeline;

namespace {

/// Every two ranks have links of their own, one each way.
Cluster full_mesh(std::size_t ranks, BytesPerSecond bandwidth, Seconds latency) {
  TopologySpec spec;
  spec.name = "mesh";
  spec.accelerators = static_cast<int>(ranks);
  spec.scale_out = AllToAllSpec{AllToAllSpec::Kind::FullMesh, {bandwidth, 1.0, latency}};
  return {build_topology(spec), ideal_device(), placement_in_order(ranks)};
}

RunResult simulate(const Schedule& schedule, BytesPerSecond bandwidth, Seconds latency) {
  const std::vector<std::string> wrong = check_schedule(schedule);
  REQUIRE_MESSAGE(wrong.empty(), wrong.front());
  return make_simgrid_backend()->run(schedule, full_mesh(schedule.world_size(), bandwidth, latency), {});
}

struct Case {
  const char* schedule;
  int ranks, microbatches, chunks;
};
const std::vector<Case> Cases{
    {"gpipe", 4, 6, 1},          {"1f1b", 4, 8, 1},
    {"1f1b", 2, 5, 1},           {"interleaved-1f1b", 4, 8, 2},
    {"zb-h1", 4, 8, 1},          {"zb-v-handcrafted", 4, 8, 2},
    {"v-half", 3, 7, 2},         {"dualpipe", 4, 8, 2},
    {"dualpipe-v", 3, 8, 2},     {"looped-bfs", 3, 6, 2},
    {"interleaved-zb", 2, 4, 2},
};

Order make(const Case& one) {
  const Generator* generator = find_generator(one.schedule);
  REQUIRE(generator != nullptr);
  Request request;
  request.ranks = one.ranks;
  request.microbatches = one.microbatches;
  request.chunks = one.chunks;
  return make_order(*generator, request);
}

constexpr BytesPerSecond Endless{1e18};

/// Some order in which everything can be done: at each moment any rank does any action whose inputs are
/// there. Backwards are whole or split; microbatches overtake each other.
Order random_order(Random& random) {
  Order order;
  const int ranks = 2 + static_cast<int>(random.below(3)), chunks = 1 + static_cast<int>(random.below(2));
  order.stages = ranks * chunks;
  order.microbatches = 1 + static_cast<int>(random.below(5));
  order.ranks.resize(static_cast<std::size_t>(ranks));
  std::vector<Action> ready;
  for (int microbatch = 0; microbatch < order.microbatches; ++microbatch) ready.push_back(F(0, microbatch));
  while (!ready.empty()) {
    const auto chosen = static_cast<std::size_t>(random.below(ready.size()));
    Action action = ready[chosen];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(chosen));
    const auto [kind, stage, microbatch] = std::tuple(action.kind, action.stage, action.microbatch);
    const bool last = stage == order.stages - 1;
    if (kind == ActionKind::Forward) ready.push_back(last ? I(stage, microbatch) : F(stage + 1, microbatch));
    if (kind == ActionKind::BackwardInput) {
      if (stage > 0) ready.push_back(I(stage - 1, microbatch));
      if (random.below(2) == 0)
        action = B(stage, microbatch);
      else
        ready.push_back(W(stage, microbatch));
    }
    order.ranks[static_cast<std::size_t>(stage % ranks)].push_back(action);
  }
  return order;
}

}  // namespace

TEST_SUITE("pipeline lowering") {
  TEST_CASE("eager transfers without bytes take exactly the time of the replay") {
    for (const Case& one : Cases)
      for (const double hop : {0.0, 3.0}) {
        CAPTURE(one.schedule);
        CAPTURE(hop);
        const Order order = make(one);
        Costs costs = uniform_costs(order.stages, {Seconds(10), Seconds(12), Seconds(7)}, Seconds(hop));
        costs.stages[0].forward = Seconds(13);
        const Replay exact = replay(order, costs);
        const Lowered lowered = lower_textbook(order, costs, TransferMode::Eager, Bytes(0), Bytes(1));
        const RunResult run = simulate(lowered.schedule, Endless, costs.hop);
        CHECK(run.step_time.si() == doctest::Approx(exact.makespan.si()).epsilon(1e-12));
        std::size_t span = 0;
        for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
          CHECK(run.memory[rank].peak.si() == exact.ranks[rank].peak_activations);
          for (std::size_t i = 0; i < order.ranks[rank].size(); ++i) {
            const Span& at = run.timeline.spans[span + lowered.first_op[rank][i].value()];
            CHECK(at.start.si() == doctest::Approx(exact.blocks[rank][i].start.si()).epsilon(1e-12));
            CHECK(at.end.si() == doctest::Approx(exact.blocks[rank][i].end.si()).epsilon(1e-12));
          }
          span += lowered.schedule.roles[rank].program.size();
        }
      }
  }

  TEST_CASE("free transfers make the three modes alike") {
    // Overlapped and eager differ from blocking only by who waits for a busy neighbour.
    for (const Case& one : Cases) {
      CAPTURE(one.schedule);
      const Order order = make(one);
      const Costs costs = uniform_costs(order.stages, {Seconds(10), Seconds(12), Seconds(7)});
      const double exact = replay(order, costs).makespan.si();
      const auto step = [&](TransferMode mode) {
        return simulate(lower_textbook(order, costs, mode, Bytes(0)).schedule, Endless, Seconds(0))
            .step_time.si();
      };
      CHECK(step(TransferMode::Overlapped) == doctest::Approx(exact).epsilon(1e-12));
      CHECK(step(TransferMode::Blocking) >= exact * (1 - 1e-12));
    }
  }

  TEST_CASE("no mode deadlocks, and blocking is never faster than overlapped") {
    for (const Case& one : Cases) {
      CAPTURE(one.schedule);
      const Order order = make(one);
      const Costs costs = uniform_costs(order.stages, {Seconds(1), Seconds(1), Seconds(1)});
      const auto step = [&](TransferMode mode) {
        // 0.25 s a transfer
        return simulate(lower_textbook(order, costs, mode, Bytes(1)).schedule, BytesPerSecond(4), Seconds(0))
            .step_time.si();
      };
      const double overlapped = step(TransferMode::Overlapped), blocking = step(TransferMode::Blocking);
      CHECK(overlapped > replay(order, costs).makespan.si());
      CHECK(blocking >= overlapped * (1 - 1e-12));
    }
  }

  TEST_CASE("any sound order of any times runs to its end in every mode") {
    Random random(20261130);
    for (int round = 0; round < 150; ++round) {
      CAPTURE(round);
      const Order order = random_order(random);
      REQUIRE(check_order(order).empty());
      Costs costs = uniform_costs(order.stages, {});
      for (StageTimes& stage : costs.stages)
        for (Seconds* time : {&stage.forward, &stage.backward_input, &stage.backward_weight})
          *time = Seconds(static_cast<double>(random.below(6)) * 10);  // often 0
      costs.stages.front().forward = Seconds(1);
      const double exact = replay(order, costs).makespan.si();
      const auto step = [&](TransferMode mode, Bytes bytes) {
        return simulate(lower_textbook(order, costs, mode, bytes).schedule, BytesPerSecond(4), Seconds(0))
            .step_time.si();
      };
      CHECK(step(TransferMode::Eager, Bytes(0)) == doctest::Approx(exact).epsilon(1e-9));
      CHECK(step(TransferMode::Overlapped, Bytes(0)) == doctest::Approx(exact).epsilon(1e-9));
      CHECK(step(TransferMode::Blocking, Bytes(0)) >= exact * (1 - 1e-9));
      CHECK(step(TransferMode::Blocking, Bytes(1)) >= exact * (1 - 1e-9));
    }
  }

  TEST_CASE("where stages are alike, blocking ranks lose little by waiting for each other") {
    struct Row {
      const char* schedule;
      int chunks;
      double most;  // of the replay's makespan
    };
    for (const Row& row : {Row{"1f1b", 1, 1.0},
                           {"gpipe", 1, 1.0},
                           {"zb-h1", 1, 1.0},
                           {"interleaved-1f1b", 2, 1.03},
                           {"dualpipe", 2, 1.01}}) {
      CAPTURE(row.schedule);
      const Order order = make({row.schedule, 8, 32, row.chunks});
      const Costs costs = uniform_costs(order.stages, {Seconds(10), Seconds(12), Seconds(7)});
      const double blocking =
          simulate(lower_textbook(order, costs, TransferMode::Blocking, Bytes(0)).schedule, Endless,
                   Seconds(0))
              .step_time.si();
      CHECK(blocking <= replay(order, costs).makespan.si() * row.most * (1 + 1e-9));
    }
  }

  TEST_CASE("as many bytes are sent as boundaries are crossed") {
    // p − 1 boundaries, m microbatches, forward and backward.
    const Order order = make({"1f1b", 4, 8, 1});
    const Costs costs = uniform_costs(4, {});
    for (const TransferMode mode : {TransferMode::Eager, TransferMode::Overlapped, TransferMode::Blocking})
      CHECK(
          simulate(lower_textbook(order, costs, mode, Bytes(100)).schedule, Endless, Seconds(0)).bytes_sent ==
          Bytes(2 * 3 * 8 * 100));
  }
}
