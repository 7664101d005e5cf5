// v-search against the search of the paper on controllable memory, and the building blocks of both.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "sim/pipeline/generator.hpp"
#include "sim/pipeline/search/building_blocks.hpp"

using namespace syncline;
using namespace syncline::pipeline;

namespace {

/// Times of a stage and a hop in seconds; the limit counts activations, from the start of F to the end of W.
struct Row {
  int p, m;
  double forward, backward, weight, hop;
  int limit;
  double makespan;  // of what the authors' search finds
};

// Found by megatron/core/pipeline_parallel/zerobubble/scheduler/v_auto_schedule.py of
// sail-sg/zero-bubble-pipeline-parallelism at commit 39f2c186a27580b7051eb51e0f651e1efd0a8170, its orders
// replayed.
constexpr std::array Found{
    // What search among list schedules alone does not reach.
    Row{4, 16, 6, 9, 11, 1, 6, 882},
    Row{5, 6, 1, 1, 1, 0, 7, 44},
    Row{5, 10, 1, 1, 1, 0, 7, 68},
    Row{5, 10, 10, 12, 7, 0, 7, 705},
    Row{5, 13, 1, 1, 1, 0, 7, 86},
    Row{5, 13, 1, 1, 1, 0, 9, 83},
    Row{5, 13, 10, 12, 7, 0, 7, 879},
    Row{5, 13, 10, 12, 7, 0, 9, 825},
    Row{5, 15, 1, 1, 1, 0, 7, 98},
    Row{5, 15, 1, 1, 1, 0, 9, 95},
    Row{5, 15, 10, 12, 7, 0, 7, 995},
    Row{5, 15, 10, 12, 7, 0, 8, 963},
    Row{5, 15, 10, 12, 7, 0, 9, 941},
    Row{5, 15, 10, 12, 7, 3, 7, 1100},
    Row{7, 17, 14, 13, 3, 1, 11, 1278},
    Row{7, 12, 8, 7, 10, 0, 9, 706},
    Row{6, 14, 12, 12, 3, 1, 10, 935},
    Row{6, 19, 17, 19, 7, 0, 9, 1878},
    Row{8, 8, 1, 1, 1, 0, 13, 58},
    Row{4, 8, 17, 17, 18, 1, 5, 992},
    Row{8, 18, 19, 16, 7, 2, 10, 2014},
    Row{8, 20, 7, 13, 19, 0, 8, 1805},
    Row{4, 13, 13, 12, 11, 1, 5, 1126},
    Row{8, 21, 9, 8, 6, 2, 15, 1110},
    // Fewer microbatches than ranks.
    Row{8, 3, 1, 1, 1, 0, 9, 37},
    Row{5, 1, 1, 7, 7, 0, 8, 87},
    Row{6, 5, 4, 2, 17, 1, 8, 280},
    Row{5, 4, 2, 7, 6, 2, 7, 206},
    Row{8, 6, 15, 8, 17, 2, 9, 787},
    Row{6, 3, 19, 10, 18, 5, 10, 557},
    Row{4, 2, 1, 1, 1, 0, 4, 19},
};

Request request_of(const Row& row) {
  Request request;
  request.ranks = row.p;
  request.microbatches = row.m;
  request.chunks = 2;
  request.costs = uniform_costs(2 * row.p, {Seconds(row.forward), Seconds(row.backward), Seconds(row.weight)},
                                Seconds(row.hop));
  request.memory = {1, 0, -1};
  request.memory_limit = row.limit;
  return request;
}

}  // namespace

TEST_CASE("v-search takes no longer than the authors of the building blocks within the same memory") {
  const Generator& v_search = *find_generator("v-search");
  for (const Row& row : Found) {
    CAPTURE(row.p);
    CAPTURE(row.m);
    CAPTURE(row.limit);
    const Request request = request_of(row);
    const Replay found = replay(make_order(v_search, request), request.costs);
    CHECK(found.makespan.si() <= row.makespan * (1 + 1e-9));
    for (const RankReplay& rank : found.ranks) CHECK(rank.peak_activations <= row.limit);
  }
}

TEST_CASE("no building block needs less memory than V-Min, which holds a third of 1F1B's and a constant") {
  for (int p = 2; p <= 12; ++p) {
    CAPTURE(p);
    const int v_min = 2 * ((p + 4) / 3);  // two chunks a rank; 1F1B holds 2p
    CHECK(search::building_blocks(p, v_min - 1).empty());
    CHECK(!search::building_blocks(p, v_min).empty());
  }
}

TEST_CASE("no two passes of a building block meet on a rank, and each comes after the one before") {
  for (const BuildingBlock& block : search::building_blocks(4, 8)) {
    for (std::size_t rank = 0; rank < block.size(); ++rank) {
      const auto& [f0, f1, b1, b0] = block[rank];
      std::array places{f0 % BlockPeriod, f1 % BlockPeriod, b1 % BlockPeriod, b0 % BlockPeriod};
      std::ranges::sort(places);
      CHECK(std::ranges::adjacent_find(places) == places.end());
      CHECK((f0 < f1 && f1 < b1 && b1 < b0));
      if (rank == 0) continue;
      const auto& before = block[rank - 1];
      CHECK((before[0] < f0 && f1 < before[1] && before[2] < b1 && b0 < before[3]));
    }
  }
}
