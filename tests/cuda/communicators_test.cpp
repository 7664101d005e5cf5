#include "backends/cuda/communicators.hpp"

#include <doctest/doctest.h>

#include "sim/core/error.hpp"

using namespace syncline;
using namespace syncline::cuda;
using namespace syncline::literals;

namespace {

std::vector<RankId> ranks(std::initializer_list<std::size_t> numbers) {
  std::vector<RankId> ids;
  for (const std::size_t number : numbers) ids.emplace_back(number);
  return ids;
}

Step transfer(bool sends, std::uint32_t wire, int message, std::uint32_t stream, bool eager = false) {
  return {TransferTask{sends, RankId(0), wire, 0, message, 1_kB, eager}, StreamId(stream), {}};
}

}  // namespace

TEST_CASE(
    "groups without a common rank are split in one round, channels before wires, in the order of their "
    "numbers") {
  // Ranks 0 to 3: pairs {0 1} and {2 3}, all four, and a wire from 1 to 2.
  const Channel low{0, ranks({0, 1}), "low"}, high{1, ranks({2, 3}), "high"},
      all{2, ranks({0, 1, 2, 3}), "all"};
  const Wire wire{0, RankId(1), RankId(2)};
  std::vector<RankProgram> programs(4);
  programs[0].channels = {all, low};
  programs[1].channels = {low, all};
  programs[2].channels = programs[3].channels = {high, all};
  programs[1].wires = programs[2].wires = {wire};
  using Of = CommunicatorGroup::Of;
  CHECK(split_rounds(programs) ==
        std::vector<SplitRound>{{{Of::Channel, 0, low.members}, {Of::Channel, 1, high.members}},
                                {{Of::Channel, 2, all.members}},
                                {{Of::Wire, 0, ranks({1, 2})}}});
}

TEST_CASE("a rank is in one group of a round at most") {
  std::vector<RankProgram> programs(6);
  std::uint32_t number = 0;
  for (std::size_t a = 0; a < 6; ++a)
    for (std::size_t b = 0; b < a; ++b) {
      const Channel channel{number++, ranks({a, b}), ""};
      programs[a].channels.push_back(channel);
      programs[b].channels.push_back(channel);
    }
  std::size_t groups = 0;
  for (const SplitRound& round : split_rounds(programs)) {
    std::vector<int> seen(6);
    for (const CommunicatorGroup& group : round)
      for (const RankId rank : group.members) CHECK(++seen[rank.value()] == 1);
    groups += round.size();
  }
  CHECK(groups == 15);  // 6 · 5 / 2
}

TEST_CASE("kernels that run at once are counted by stream, and each eager wire has a stream of its own") {
  RankProgram program;
  program.steps = {{CollectiveTask{}, StreamId(1), {}},
                   {CollectiveTask{}, StreamId(1), {}},
                   {CollectiveTask{}, StreamId(2), {}},
                   {ComputeTask{}, StreamId(0), {}},
                   transfer(true, 0, 0, 3),
                   transfer(false, 1, 0, 3),
                   transfer(true, 2, 0, 0, true),
                   transfer(true, 2, 0, 0, true)};
  CHECK(concurrent_kernels(program) == 4);  // streams 1, 2 and 3, and wire 2
  CHECK(blocks_each(132, 4) == 32);
  CHECK(blocks_each(132, 5) == 16);  // 26, which NCCL would make 32
  CHECK(blocks_each(132, 0) == 128);
  CHECK(blocks_each(4, 8) == 1);
}

TEST_CASE("the two ends of a wire must have their messages in one order") {
  std::vector<RankProgram> programs(2);
  programs[0].wires = programs[1].wires = {{5, RankId(0), RankId(1)}};
  programs[0].steps = {transfer(true, 0, 1, 0), transfer(true, 0, 2, 0)};
  programs[1].steps = {transfer(false, 0, 1, 0), transfer(false, 0, 2, 0)};
  CHECK_NOTHROW(require_same_order(programs));
  std::swap(programs[1].steps[0], programs[1].steps[1]);
  CHECK_THROWS_WITH_AS(
      require_same_order(programs),
      "--backend cuda: error: rank 0 sends rank 1 message 1 where message 2 is received first; NCCL matches "
      "messages by their order alone: have both ends in one order, or in different streams",
      InputError);
}
