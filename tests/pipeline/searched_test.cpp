// The searched schedules: never longer than what the published heuristics and optima take, within the same
// memory.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/core/random.hpp"
#include "sim/pipeline/generator.hpp"
#include "tests/pipeline/published.hpp"

using namespace syncline;
using namespace syncline::pipeline;
using namespace syncline::pipeline::testing;

namespace {

/// The searched schedules of the data, by the name here. ZB-1p and ZB-2p are limits of p and 2p; zb-ilp is
/// the optimum of the span.
const std::map<std::string, std::string, std::less<>> Searched = {
    {"zb-1p", "zb-auto"},  {"zb-2p", "zb-auto"}, {"zb-auto", "zb-auto"},
    {"zb-ilp", "zb-auto"}, {"zb-v", "zb-v"},     {"v-search", "v-search"}};

const Generator& generator(std::string_view name) {
  const Generator* found = find_generator(name);
  REQUIRE(found != nullptr);
  return *found;
}

Request searched_request_of(const PublishedOrder& published) {
  Request request;
  request.ranks = published.p;
  request.microbatches = published.m;
  request.chunks = published.v;
  request.costs = published.costs.value();
  request.memory = published.memory.value();
  request.memory_limit = published.memory_limit;
  return request;
}

Request equal_times(int ranks, int microbatches, std::optional<double> limit) {
  Request request;
  request.ranks = ranks;
  request.microbatches = microbatches;
  request.memory_limit = limit;
  return request;
}

Replay times(const Generator& made_by, const Request& request) {
  return replay(make_order(made_by, request), completed(made_by, request).costs);
}

/// Most memory a rank holds, counted as the heuristics do: when a forward starts, when I and W end.
double most_held(const Order& order, const ActivationMemory& memory) {
  double most = 0;
  for (const RankOrder& rank : order.ranks) {
    double held = 0;
    for (const Block& block : rank) {
      switch (block.first.kind) {
        case ActionKind::Forward: held += memory.forward; break;
        case ActionKind::BackwardInput: held += memory.backward_input; break;
        case ActionKind::BackwardWeight: held += memory.backward_weight; break;
        case ActionKind::Backward: held += memory.backward_input + memory.backward_weight; break;
      }
      most = std::max(most, held);
    }
  }
  return most;
}

bool within_limit(const Order& order, const Request& request) {
  return !request.memory_limit ||
         most_held(order, request.memory) <= (*request.memory_limit + 1e-6) * request.memory.forward;
}

/// Times and sizes of all kinds, per stage or the same for all.
Request random_request(Random& random, const Generator& made_by) {
  const auto from = [&](int least, int most) {
    return least + static_cast<int>(random.below(static_cast<std::uint64_t>(most - least + 1)));
  };
  Request request;
  request.ranks = from(1, 7);
  request.microbatches = from(1, 3 * request.ranks);
  request.chunks = made_by.default_chunks;
  const bool per_stage = from(0, 1) == 1;
  StageTimes stage;
  for (int s = 0; s < stage_count(made_by, request.ranks, request.chunks); ++s) {
    if (s == 0 || per_stage) stage = {Seconds(from(1, 20)), Seconds(from(1, 20)), Seconds(from(1, 20))};
    request.costs.stages.push_back(stage);
  }
  request.costs.hop = Seconds(from(0, 1) * from(0, 10));
  if (from(0, 1) == 1) request.memory = {1, 0, -1};
  if (from(0, 3) > 0)
    request.memory_limit = from(request.chunks, 2 * request.ranks * request.chunks) + 0.5 * from(0, 1);
  return request;
}

}  // namespace

TEST_CASE("a searched schedule takes no longer than the published one in the same memory") {
  struct Count {
    int cases = 0, equal = 0, same = 0, smaller = 0, larger = 0, over = 0, longer_span = 0;
  };
  const std::vector<Published> sets = all_published();
  REQUIRE(!sets.empty());
  if (sets.size() < 2) MESSAGE("skipped: the whole set, there is no folder " << whole_folder());
  for (const Published& published : sets) {
    std::map<std::string, Count> counts;
    for (const PublishedOrder& theirs : published.orders) {
      const auto name = Searched.find(theirs.schedule);
      if (name == Searched.end()) continue;
      CAPTURE(theirs.id);
      const Request request = searched_request_of(theirs);
      const Order order = make_order(generator(name->second), request);
      const Replay ours = replay(order, request.costs), reference = replay(theirs.order, request.costs);
      const double gain = reference.makespan / ours.makespan - 1;
      const double span_gain = reference.max_rank_span / ours.max_rank_span - 1;
      const bool fits = within_limit(order, request);
      CHECK(gain >= -1e-9);
      CHECK(span_gain >= -1e-9);
      CHECK(fits);
      Count& count = counts[theirs.schedule];
      ++count.cases;
      count.equal += order == theirs.order;
      count.smaller += gain > 1e-9;
      count.larger += gain < -1e-9;
      count.same += std::abs(gain) <= 1e-9;
      count.over += !fits;
      count.longer_span += span_gain < -1e-9;
    }
    std::string table =
        "schedule: cases, equal orders; makespan equal, smaller, larger; span longer; over the limit\n";
    for (const auto& [name, n] : counts)
      table += fmt::format("{:<9} {:4}, {:4}; {:4}, {:4}, {:4}; {:4}; {:4}\n", name, n.cases, n.equal, n.same,
                           n.smaller, n.larger, n.longer_span, n.over);
    MESSAGE(table);
  }
}

TEST_CASE("ZB-1p at equal times has the bubble of ZB-H1, p - 1, in the memory of 1F1B") {
  for (int p = 1; p <= 8; ++p) {
    CAPTURE(p);
    Request request = equal_times(p, 3 * p, p);
    request.memory = {1, 0, -1};  // held until W
    // 3 (F + B + W = 3 a microbatch) · 3p + (p − 1)(F + B − W)
    CHECK(times(generator("zb-auto"), request).makespan.si() == doctest::Approx(9 * p + p - 1));
  }
}

TEST_CASE("ZB-2p at equal times has no bubble within a rank, from 2p - 1 microbatches on") {
  for (int p = 1; p <= 8; ++p)
    for (const int m : {2 * p - 1, 2 * p, 4 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      Request request = equal_times(p, m, 2 * p);
      request.memory = {1, 0, -1};
      const Replay found = times(generator("zb-auto"), request);
      CHECK(found.max_rank_span.si() == doctest::Approx(3 * m));
      CHECK(found.makespan.si() ==
            doctest::Approx(3 * m + p - 1));  // the last rank starts after p − 1 forwards
    }
}

TEST_CASE("ZB-V at equal times has no bubble within a rank, in the memory of 1F1B") {
  for (int p = 2; p <= 8; ++p) {
    CAPTURE(p);
    Request request = equal_times(p, 2 * p, std::nullopt);
    request.memory = {1, 0, -1};
    const Order order = make_order(generator("zb-v"), request);
    const Replay found = times(generator("zb-v"), request);
    CHECK(found.max_rank_span.si() == doctest::Approx(2 * 3 * 2 * p));  // two chunks of 3, 2p microbatches
    CHECK(found.makespan.si() == doctest::Approx(2 * 3 * 2 * p + p - 1));
    CHECK(most_held(order, request.memory) <= 2 * p);
  }
}

TEST_CASE("slow hops ask for more microbatches in flight than the published heuristic takes") {
  // p = 2, F = B = W = 1, a hop of 4: a gradient is back F + 4 + F + B + 4 = 11 after its forward began. The
  // first rank fills the 10 from its first forward to that gradient with forwards, and needs no idle time
  // from m = 10 on.
  Request request = equal_times(2, 12, std::nullopt);
  request.costs = uniform_costs(2, {}, Seconds(4));
  CHECK(times(generator("zb-auto"), request).makespan.si() == doctest::Approx(1 + 4 + 3 * 12));
}

TEST_CASE("a searched schedule keeps its limit, whatever the times, and is the same each time") {
  constexpr std::uint64_t Seed = 20240527;
  CAPTURE(Seed);
  for (const std::string_view name : {"zb-auto", "zb-v", "v-search"}) {
    const Generator& made_by = generator(name);
    Random random(Seed);
    for (int i = 0; i < (name == "v-search" ? 15 : 60); ++i) {
      const Request request = random_request(random, made_by);
      CAPTURE(i);
      CAPTURE(name);
      const Order order = make_order(made_by, request);
      CHECK(within_limit(order, request));
      CHECK(order == make_order(made_by, request));
      // No rank is busy for longer than the whole, and no microbatch passes sooner than the path is long.
      const Replay found = replay(order, request.costs);
      for (const RankReplay& rank : found.ranks) CHECK(rank.busy.si() <= found.makespan.si() * (1 + 1e-9));
      const double path = std::accumulate(
          request.costs.stages.begin(), request.costs.stages.end(), 0.0,
          [](double sum, const StageTimes& s) { return sum + s.forward.si() + s.backward_input.si(); });
      CHECK(found.makespan.si() >= path * (1 - 1e-9));
    }
  }
}

TEST_CASE("the least memory, one microbatch at a time, is enough for every schedule") {
  for (const std::string_view name : {"zb-auto", "zb-v", "v-search"})
    for (const ActivationMemory memory : {ActivationMemory{1, 0, -1}, ActivationMemory{2, -1, -1}}) {
      const Generator& made_by = generator(name);
      CAPTURE(name);
      Request request = equal_times(6, 9, made_by.default_chunks);
      request.memory = memory;
      CHECK(within_limit(make_order(made_by, request), request));
    }
}

TEST_CASE("v-search takes no longer than V-Min, V-Half and ZB-V where their memory is allowed") {
  for (const StageTimes& stage : {StageTimes{}, StageTimes{Seconds(10), Seconds(12), Seconds(7)}})
    for (const int p : {3, 4, 6}) {
      for (const std::string_view other : {"v-min", "v-half", "zb-v"}) {
        CAPTURE(p);
        CAPTURE(other);
        Request request = equal_times(p, 2 * p + 1, std::nullopt);
        request.chunks = 2;
        request.costs = uniform_costs(2 * p, stage);
        request.memory = {1, 0, -1};
        const Order known = make_order(generator(other), request);
        request.memory_limit = most_held(known, request.memory);
        const Order found = make_order(generator("v-search"), request);
        CHECK(within_limit(found, request));
        CHECK(replay(found, request.costs).makespan.si() <=
              replay(known, request.costs).makespan.si() + 1e-9);
      }
    }
}

TEST_CASE("a limit below what one microbatch holds is refused, with the least that works") {
  struct Row {
    const char* name;
    double limit;
    ActivationMemory memory;
    const char* message;
  };
  const std::vector<Row> rows = {
      {"zb-auto",
       0.5,
       {},
       "zb-auto needs a memory limit of at least 1, what one microbatch holds on a rank, not 0.5; "
       "try --memory-limit 1"},
      {"zb-auto",
       1,
       {2, 1, -3},
       "zb-auto needs a memory limit of at least 1.5, what one microbatch holds on a rank, not "
       "1; try --memory-limit 1.5"},
      {"zb-v",
       1,
       {},
       "zb-v needs a memory limit of at least 2, what one microbatch holds on a rank, not 1; try "
       "--memory-limit 2"},
      {"v-search",
       1.5,
       {},
       "v-search needs a memory limit of at least 2, what one microbatch holds on a rank, not 1.5; "
       "try --memory-limit 2"},
      {"zb-auto",
       1,
       {0, 0, 0},
       "zb-auto needs memory that a forward takes and a weight gradient does not, not 0 and 0"},
  };
  for (const Row& row : rows) {
    Request request = equal_times(4, 8, row.limit);
    request.memory = row.memory;
    CHECK_THROWS_WITH(static_cast<void>(make_order(generator(row.name), request)), row.message);
    request.memory_limit = 2.5;
    if (row.memory.forward > 0) CHECK_NOTHROW(static_cast<void>(make_order(generator(row.name), request)));
  }
}
