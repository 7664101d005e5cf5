#include "sim/collective/exchange_rounds.hpp"

#include <doctest/doctest.h>

#include <map>
#include <utility>

namespace syncline {
namespace {

using enum Algorithm;

/// Members 0 1 on one node, 2 3 on the other. Member 0 has 6 for 2 and 4 of these for 3 too, and 1 for its neighbour; member
/// 3 has 2 for each. 17 items: each is 4/17 of S.
const std::vector<double> Counts{0, 1, 6, 4, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 0};
const std::vector<double> ToNodes{1, 6, 0, 0, 0, 0, 3, 2};
const ExchangeView Dropless{4, 2, Counts, ToNodes};
const ExchangeView Plain{4, 0, Counts, {}};
const Layout TwoNodes{4, {{0, 1}, {2, 3}}, {}};

using Items = std::map<std::pair<std::uint32_t, std::uint32_t>, double>;
Items items(const Round& round) {
  Items all;
  for (const Flow& flow : round.flows) all[{flow.from, flow.to}] += flow.share * 17 / 4;
  return all;
}
void check_items(const Round& round, const Items& expected) {
  const Items all = items(round);
  REQUIRE(all.size() == expected.size());
  for (const auto& [pair, count] : expected) {
    CAPTURE(pair.first);
    CAPTURE(pair.second);
    REQUIRE(all.contains(pair));
    CHECK(all.at(pair) == doctest::Approx(count));
  }
}

}  // namespace

TEST_SUITE("exchange rounds") {
  TEST_CASE("direct: all pairs that have something, at once") {
    const Track track = exchange_rounds(Direct, Plain, false, TwoNodes).front();
    REQUIRE(track.size() == 1);
    check_items(track[0], {{{0, 1}, 1}, {{0, 2}, 6}, {{0, 3}, 4}, {{3, 0}, 2}, {{3, 1}, 2}, {{3, 2}, 2}});
  }

  TEST_CASE("pairwise: the partner r places on in round r") {
    const Track track = exchange_rounds(Pairwise, Plain, false, TwoNodes).front();
    REQUIRE(track.size() == 3);
    check_items(track[0], {{{0, 1}, 1}, {{3, 0}, 2}});
    check_items(track[1], {{{0, 2}, 6}, {{3, 1}, 2}});
    check_items(track[2], {{{0, 3}, 4}, {{3, 2}, 2}});
  }

  TEST_CASE("two-hop: across to the peer, once for all of its node, then inside") {
    // 0 gives 2 its 6 items, which passes 4 on to 3; 3 gives its peer 1 three items of which it keeps its 2 and passes 2 on.
    const Track track = exchange_rounds(TwoHop, Dropless, false, TwoNodes).front();
    REQUIRE(track.size() == 2);
    check_items(track[0], {{{0, 2}, 6}, {{3, 1}, 3}});
    check_items(track[1], {{{0, 1}, 1}, {{2, 3}, 4}, {{1, 0}, 2}, {{3, 2}, 2}});
    // Without `to_nodes` every copy goes across; what happens inside is the same.
    const Track copies = exchange_rounds(Hierarchical, Plain, false, TwoNodes).front();
    check_items(copies[0], {{{0, 2}, 10}, {{3, 1}, 4}});
    CHECK(items(copies[1]) == items(track[1]));
  }

  TEST_CASE("back: every flow the other way, the last round first") {
    for (const Algorithm algorithm : {Direct, Pairwise, TwoHop}) {
      const Track there = exchange_rounds(algorithm, Dropless, false, TwoNodes).front();
      const Track back = exchange_rounds(algorithm, Dropless, true, TwoNodes).front();
      REQUIRE(there.size() == back.size());
      for (std::size_t r = 0; r < there.size(); ++r) {
        Items turned;
        for (const auto& [pair, count] : items(there[there.size() - 1 - r]))
          turned[{pair.second, pair.first}] = count;
        CHECK(items(back[r]) == turned);
      }
    }
  }

  TEST_CASE("nothing for others is no round") {
    const std::vector<double> own{3, 0, 0, 5};
    for (const Algorithm algorithm : exchange_algorithms())
      CHECK(exchange_rounds(algorithm, {2, 0, own, {}}, false, {2, {{0}, {1}}, {}}).front().empty());
  }

  TEST_CASE("without its own nodes two-hop needs equally many members on each of the cluster's") {
    const Layout lopsided{4, {{0}, {1, 2, 3}}, {}};
    CHECK(exchange_refusal_of(TwoHop, Plain, lopsided) ==
          "two-hop needs equally many ranks on every node; try direct");
    CHECK_FALSE(exchange_refusal_of(TwoHop, Dropless, lopsided));
    CHECK_FALSE(exchange_refusal_of(Direct, Plain, lopsided));
    CHECK(goes_by_layout(TwoHop, Plain));
    CHECK_FALSE(goes_by_layout(TwoHop, Dropless));
    CHECK_FALSE(goes_by_layout(Pairwise, Plain));
  }
}

}  // namespace syncline
