// Copies of a token by the way they travel, and the time of a call, by hand.
#include "sim/moe/dispatch_cost.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/core/random.hpp"

namespace syncline::moe {
namespace {

using namespace literals;

constexpr DispatchShape shape(int ranks, int nodes, int experts, int top_k, int top_nodes = 0) {
  return {.ranks = ranks, .nodes = nodes, .experts = experts, .top_k = top_k, .top_nodes = top_nodes};
}

TEST_CASE("expected copies are those of a choice without repetition") {
  DispatchShape in_turn = shape(16, 1, 256, 8);
  in_turn.round_robin = true;
  DispatchShape few = shape(4, 1, 256, 8);
  few.round_robin = true;
  struct Row {
    const char* name;
    Travel travel;
    DispatchShape shape;
    TokenCopies copies;  // ranks, nodes, inside, between
  };
  for (
      const Row& row : {
          // 2 of 4 experts, one a rank: 2 ranks. Of 6 pairs 1 misses a node: 2(1 − 1/6) = 5/3 nodes.
          Row{"two hops", Travel::TwoHop, shape(4, 2, 4, 2), {2, 5.0 / 3, 1, 5.0 / 6}},
          // the node of the best expert, then 2 of its 4 experts, one a rank: 2 ranks, 1 node
          Row{"on one node", Travel::TwoHop, shape(8, 2, 8, 2, 1), {2, 1, 1.5, 0.5}},
          // 3 of 9 experts, one a rank, on the two nodes of three that have the best of all: on one node only if the
          // three best are of one (3 of 84 times), else on two: 55/28 nodes. Others of the same two take the place of
          // experts on the third: always 3 ranks.
          {"the best two of three", Travel::TwoHop, shape(9, 3, 9, 3, 2), {3, 55.0 / 28, 2, 55.0 / 42}},
          // no limit: of 28 pairs of 8 experts 6 miss a node: 2(1 − 6/28) = 11/7 nodes
          Row{"on any node", Travel::TwoHop, shape(8, 2, 8, 2), {2, 11.0 / 7, 1.5, 11.0 / 14}},
          // 2 of 4 experts on 2 ranks: 2(1 − 1/6) = 5/3 ranks, half of them its own
          Row{"once a rank", Travel::PerRank, shape(2, 1, 4, 2), {5.0 / 3, 5.0 / 3, 5.0 / 6, 0}},
          Row{"8 neighbours of 16", Travel::PerRank, in_turn, {8, 8, 7.5, 0}},
          Row{"8 on 4 ranks", Travel::PerRank, few, {4, 4, 3, 0}},
          Row{"straight", Travel::Direct, shape(16, 2, 256, 8), {8, 8, 8 * 7.0 / 16, 4}},
          Row{"padded", Travel::Padded, shape(4, 2, 32, 2), {32, 32, 8, 16}},
      }) {
    CAPTURE(row.name);
    const TokenCopies copies = expected_copies(row.travel, row.shape);
    CHECK(copies.ranks == doctest::Approx(row.copies.ranks));
    CHECK(copies.nodes == doctest::Approx(row.copies.nodes));
    CHECK(copies.inside == doctest::Approx(row.copies.inside));
    CHECK(copies.between == doctest::Approx(row.copies.between));
  }
}

TEST_CASE("a second hop spares the network, and a limit to nodes spares more") {
  for (const int nodes : {2, 4, 8, 16}) {
    CAPTURE(nodes);
    const DispatchShape any = shape(8 * nodes, nodes, 256, 8), four = shape(8 * nodes, nodes, 256, 8, 4);
    const double straight = expected_copies(Travel::Direct, any).between;
    const double two_hops = expected_copies(Travel::TwoHop, any).between;
    const double limited = expected_copies(Travel::TwoHop, four).between;
    CHECK(two_hops < straight);
    if (nodes > 4)
      CHECK(limited < two_hops);
    else
      CHECK(limited == two_hops);
  }
}

/// As tests/test_internode.py of DeepEP chooses: the nodes with the best expert each, then the best experts there.
TokenCopies drawn_copies(const DispatchShape& group, int tokens) {
  Random random(7);
  const auto of_node = static_cast<std::size_t>(group.experts / group.nodes),
             of_rank = static_cast<std::size_t>(group.experts / group.ranks);
  std::size_t nodes = 0, ranks = 0;
  for (int token = 0; token < tokens; ++token) {
    std::vector<std::pair<double, std::size_t>> best, chosen;  // of nodes; of experts
    std::vector<double> scores;
    for (int e = 0; e < group.experts; ++e) scores.push_back(random.uniform());
    for (std::size_t n = 0; n < static_cast<std::size_t>(group.nodes); ++n)
      best.emplace_back(*std::max_element(scores.begin() + static_cast<std::ptrdiff_t>(n * of_node),
                                          scores.begin() + static_cast<std::ptrdiff_t>((n + 1) * of_node)),
                        n);
    std::ranges::sort(best, std::greater<>());
    best.resize(static_cast<std::size_t>(group.top_nodes));
    for (const auto& [score, n] : best)
      for (std::size_t e = n * of_node; e < (n + 1) * of_node; ++e) chosen.emplace_back(scores[e], e);
    std::ranges::sort(chosen, std::greater<>());
    std::set<std::size_t> on_nodes, on_ranks;
    for (int i = 0; i < group.top_k; ++i) {
      on_nodes.insert(chosen[static_cast<std::size_t>(i)].second / of_node);
      on_ranks.insert(chosen[static_cast<std::size_t>(i)].second / of_rank);
    }
    nodes += on_nodes.size();
    ranks += on_ranks.size();
  }
  return {static_cast<double>(ranks) / tokens, static_cast<double>(nodes) / tokens, 0, 0};
}

TEST_CASE("a limit to nodes goes by the best expert of a node, as in DeepEP's own test") {
  for (const int nodes : {8, 16}) {
    CAPTURE(nodes);
    const DispatchShape group = shape(8 * nodes, nodes, 256, 8, 4);
    const TokenCopies expected = expected_copies(Travel::TwoHop, group), drawn = drawn_copies(group, 20000);
    CHECK(expected.nodes == doctest::Approx(drawn.nodes).epsilon(0.002));
    CHECK(expected.ranks == doctest::Approx(drawn.ranks).epsilon(0.002));
  }
  CHECK(expected_copies(Travel::TwoHop, shape(64, 8, 256, 8, 4)).nodes ==
        doctest::Approx(3.983).epsilon(0.0005));
}

TEST_CASE("on one node a second hop changes nothing") {
  const TokenCopies two = expected_copies(Travel::TwoHop, shape(8, 1, 256, 8));
  const TokenCopies one = expected_copies(Travel::PerRank, shape(8, 1, 256, 8));
  CHECK(two.ranks == one.ranks);
  CHECK(two.inside == doctest::Approx(one.inside).epsilon(1e-12));
  CHECK(two.between == 0);
  CHECK(one.between == 0);
}

TEST_CASE("what cannot be is our mistake") {
  CHECK_THROWS_AS(static_cast<void>(expected_copies(Travel::TwoHop, shape(6, 4, 12, 2))), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(expected_copies(Travel::Direct, shape(8, 1, 12, 2))), std::logic_error);
  CHECK_THROWS_AS(static_cast<void>(expected_copies(Travel::TwoHop, shape(8, 4, 8, 3, 1))), std::logic_error);
}

TEST_CASE("the time of a call, by hand") {
  DispatchFigures figures;
  figures.call = 10_us;
  figures.far = 5_us;
  figures.rank = 1_us;
  figures.node = 2_us;
  figures.expert = 10_ns;
  figures.token = 1_ns;
  figures.copy = 100_ns;
  figures.lane = 20_GBps;
  figures.inside = 300_GBps;
  figures.between = {{2, 50_GBps}};

  DispatchLoad load;
  load.ranks = 16, load.nodes = 2, load.experts = 256;
  // 10 + 5 + 15·1 + 1·2 + 256·0.01 = 34.56 us, and nothing is sent
  CHECK(dispatch_time(figures, load).latency.si() == doctest::Approx(34.56e-6));
  CHECK(dispatch_time(figures, load).bytes == Seconds(0));

  load.tokens = 1000;   // 1 us to read
  load.between = 5_MB;  // 100 us
  CHECK(dispatch_time(figures, load).bytes.si() == doctest::Approx(101e-6));
  load.inside = 30_MB;  // 100 us as well: together ∛2 · 100 us
  CHECK(dispatch_time(figures, load).bytes.si() == doctest::Approx(1e-6 + 125.99210e-6));
  load.copies = 8000, load.moved = 32_MB, load.lanes = 24;  // (800 us + 1600 us) / 24 = 100 us
  CHECK(dispatch_time(figures, load).bytes.si() == doctest::Approx(1e-6 + 144.22496e-6));
  CHECK(dispatch_time(figures, load).total().si() == doctest::Approx(34.56e-6 + 145.22496e-6));

  load.nodes = 1, load.ranks = 8, load.between = Bytes(0);  // 10 + 7 + 2.56
  CHECK(dispatch_time(figures, load).latency.si() == doctest::Approx(19.56e-6));
}

TEST_CASE("a rate between nodes is interpolated over the logarithm of their number") {
  const std::vector<NodeRate> rates{{2, 40_GBps}, {8, 10_GBps}};
  CHECK(rate_between(rates, 2) == 40_GBps);
  CHECK(rate_between(rates, 4).si() == doctest::Approx(20e9));  // half-way: √(40·10)
  CHECK(rate_between(rates, 8) == 10_GBps);
  CHECK(rate_between(rates, 64) == 10_GBps);
  CHECK_THROWS_AS(static_cast<void>(rate_between({}, 2)), std::logic_error);
}

TEST_CASE("more tokens never take less, and more SMs never more") {
  DispatchFigures figures;
  figures.copy = 100_ns;
  figures.lane = 20_GBps;
  figures.inside = 300_GBps;
  figures.between = {{2, 45_GBps}};
  const DispatchShape group = shape(32, 4, 256, 8, 4);
  const TokenCopies copies = expected_copies(Travel::TwoHop, group);
  const auto time = [&](double tokens, double sms) {
    return dispatch_time(figures, load_of(copies, group, tokens, Bytes(7392), sms)).total();
  };
  for (double tokens = 16; tokens < 1e5; tokens *= 2) {
    CAPTURE(tokens);
    CHECK(time(2 * tokens, 24) > time(tokens, 24));
    CHECK(time(tokens, 24) < time(tokens, 8));
  }
}

}  // namespace
}  // namespace syncline::moe
