// Exchanges and loads: what is refused, and who is alike.
#include "sim/schedule/exchange.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>

#include "sim/schedule/check.hpp"
#include "sim/schedule/fold.hpp"
#include "tests/schedule/sketch.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

/// Eight ranks of one role in two groups of four, which exchange, compute by load and exchange back.
Schedule experts() {
  Schedule s = sketch(8);
  s.roles.resize(1);
  s.role_of.assign(8, RoleId(0));
  s.families.push_back(GroupFamily::listed(
      "ep", 8, {{RankId(0), RankId(1), RankId(2), RankId(3)}, {RankId(4), RankId(5), RankId(6), RankId(7)}}));
  // Of each four by two nodes of two: member 0 has 2 for 1, and 3 for each of the other node, all of them the same.
  s.exchanges = {
      {"dispatch", 4, {0, 2, 3, 3, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0}, 2, {2, 3, 1, 2, 2, 1, 2, 1}}};
  s.loads = {{"experts", FamilyId(2), {2, 1, 1, 0.5}}};
  Collective body{CollectiveKind::AllToAll, FamilyId(2), Algorithm::Auto, Bytes(64)};
  body.exchange = ExchangeId(0);
  Op there = op(body, 1), layer = compute(0, {OpIndex(0)});
  layer.load = LoadId(0);
  layer.memory = {{MemoryCategory::Activations, Bytes(8), true}};
  body.back = true;
  s.roles[0].program = {there, layer, op(body, 1, {OpIndex(1)})};
  return s;
}

Collective& first(Schedule& s) {
  return std::get<Collective>(s.roles[0].program[0].body);
}

std::vector<std::size_t> players(const Schedule& schedule) {
  const Cast cast = one_a_role(schedule);
  std::vector<std::size_t> players;
  for (const std::uint32_t seat : cast.seat_of) players.push_back(cast.played[seat].value());
  return players;
}

/// Of `groups` groups of `n`: everybody has one item for everybody else.
Exchange even(std::size_t n, std::size_t groups = 1) {
  return {"even", static_cast<int>(n), std::vector<double>(groups * n * n, 1), 0, {}};
}

}  // namespace

TEST_SUITE("exchanges and loads") {
  TEST_CASE("sound ones have no findings, of one group for all or of each") {
    Schedule s = experts();
    CHECK(joined(check_schedule(s)) == "");
    for (std::vector<double>* numbers :
         {&s.exchanges[0].counts, &s.exchanges[0].to_nodes, &s.loads[0].factors}) {
      const std::vector<double> one = *numbers;
      numbers->insert(numbers->end(), one.begin(), one.end());
    }
    CHECK(joined(check_schedule(s)) == "");
    CHECK(joined(check_schedule(s, true)) == "");
  }

  TEST_CASE("each mistake is found") {
    const double Nan = std::numeric_limits<double>::quiet_NaN();
    struct Row {
      std::string name;
      void (*spoil)(Schedule&);
      std::string finding;
    };
    static const double NotANumber = Nan;
    const Row rows[] = {
        {"two exchanges of one name", [](Schedule& s) { s.exchanges.push_back(s.exchanges[0]); },
         "two exchanges are named \"dispatch\""},
        {"two loads of one name", [](Schedule& s) { s.loads.push_back(s.loads[0]); },
         "two loads are named \"experts\""},
        {"two libraries of one name",
         [](Schedule& s) {
           s.libraries = {"a", "a"};
         },
         "two libraries are named \"a\""},
        {"no members",
         [](Schedule& s) {
           s.exchanges.push_back({"x", 0, {}, 0, {}});
         },
         "exchange \"x\": 0 members; expected 1 or more"},
        {"no counts",
         [](Schedule& s) {
           s.exchanges.push_back({"x", 2, {}, 0, {}});
         },
         "exchange \"x\": 0 counts; expected 4 for each group"},
        {"too few counts",
         [](Schedule& s) {
           s.exchanges.push_back({"x", 2, {1, 1, 1}, 0, {}});
         },
         "exchange \"x\": 3 counts; expected 4 for each group"},
        {"nodes that do not divide",
         [](Schedule& s) {
           s.exchanges.push_back({"x", 2, {1, 1, 1, 1}, 3, {}});
         },
         "exchange \"x\": 3 members on a node do not divide 2 members"},
        {"counts to nodes without nodes",
         [](Schedule& s) {
           s.exchanges.push_back({"x", 2, {1, 1, 1, 1}, 0, {1}});
         },
         "exchange \"x\": 1 counts to nodes; expected 0"},
        {"too few counts to nodes",
         [](Schedule& s) {
           s.exchanges.push_back({"x", 2, {1, 1, 1, 1}, 1, {1, 1}});
         },
         "exchange \"x\": 2 counts to nodes; expected 4"},
        {"a negative count",
         [](Schedule& s) {
           s.exchanges.push_back({"x", 2, {0, 1, -1, 0}, 0, {}});
         },
         "exchange \"x\": count 2 is -1; expected 0 to 1e+15"},
        {"a count that is none",
         [](Schedule& s) {
           s.exchanges.push_back({"x", 2, {0, NotANumber, 1, 0}, 0, {}});
         },
         "exchange \"x\": count 1 is nan; expected 0 to 1e+15"},
        {"more for a node than its members want", [](Schedule& s) { s.exchanges[0].to_nodes[1] = 7; },
         "exchange \"dispatch\": member 0 has 7 items for node 1, whose members want 6 in all and 3 at most; "
         "expected 3 "
         "to 6"},
        {"less for a node than a member wants", [](Schedule& s) { s.exchanges[0].to_nodes[1] = 2; },
         "exchange \"dispatch\": member 0 has 2 items for node 1, whose members want 6 in all and 3 at most; "
         "expected 3 "
         "to 6"},
        {"a load of no family",
         [](Schedule& s) {
           s.loads.push_back({"x", FamilyId(9), {1}});
         },
         "load \"x\": there is no family 9; the schedule has 3"},
        {"too few factors", [](Schedule& s) { s.loads[0].factors.pop_back(); },
         "load \"experts\": 3 factors; group 0 of family \"ep\" has 4 members, all groups 8"},
        {"a negative factor", [](Schedule& s) { s.loads[0].factors[1] = -1; },
         "load \"experts\": factor 1 is -1; expected 0 to 1e+06"},
        {"an exchange that is not there", [](Schedule& s) { first(s).exchange = ExchangeId(4); },
         "op 0 (\"other\") of role \"r0\": there is no exchange 4; the schedule has 1"},
        {"a library that is not there", [](Schedule& s) { first(s).library = LibraryId(0); },
         "op 0 (\"other\") of role \"r0\": there is no library 0; the schedule has 0"},
        {"units below none", [](Schedule& s) { first(s).units = -1; },
         "op 0 (\"other\") of role \"r0\": -1 units; expected 0 or more"},
        {"an exchange of another kind", [](Schedule& s) { first(s).kind = CollectiveKind::AllGather; },
         "op 0 (\"other\") of role \"r0\": all-gather has no exchange; only all-to-all has"},
        {"back without an exchange",
         [](Schedule& s) {
           first(s).exchange.reset();
           first(s).back = true;
         },
         "op 0 (\"other\") of role \"r0\": `back` without an exchange, which alone has a way back"},
        {"groups of another size", [](Schedule& s) { first(s).family = Pairs; },
         "op 0 (\"other\") of role \"r0\": exchange \"dispatch\" is among 4 members, but group 0 of family "
         "\"pairs\" has 2"},
        {"counts of another number of groups",
         [](Schedule& s) {
           s.exchanges.push_back(even(4, 3));
           first(s).exchange = ExchangeId(1);
         },
         "op 0 (\"other\") of role \"r0\": exchange \"even\" has counts for 3 groups; family \"ep\" has 2"},
        {"a load that is not there", [](Schedule& s) { s.roles[0].program[1].load = LoadId(3); },
         "op 1 (\"F layer\") of role \"r0\": there is no load 3; the schedule has 1"},
        {"a load of what is no compute", [](Schedule& s) { s.roles[0].program[0].load = LoadId(0); },
         "op 0 (\"other\") of role \"r0\": only compute ops have a load"},
        {"memory by a load that the op has not", [](Schedule& s) { s.roles[0].program[1].load.reset(); },
         "op 1 (\"F layer\") of role \"r0\": memory effect on activations is by load, but the op has none"},
        {"resident memory by load",
         [](Schedule& s) {
           s.roles[0].resident = {{MemoryCategory::Parameters, Bytes(1), true}};
         },
         "role \"r0\": resident memory has no load; only that of compute ops has"},
        {"a rank without its part of a load",
         [](Schedule& s) {
           s.families.push_back(
               GroupFamily::listed("half", 8, {{RankId(0), RankId(1), RankId(2), RankId(3)}}));
           s.loads[0].family = FamilyId(3);
         },
         "rank 4 is in no group of family \"half\", but has load \"experts\" of it, op 1 (\"F layer\") of "
         "role \"r0\""},
    };
    for (const Row& row : rows) {
      CAPTURE(row.name);
      Schedule s = experts();
      row.spoil(s);
      CHECK(joined(check_schedule(s)) == row.finding);
    }
  }

  TEST_CASE("members of a group agree on exchange, way and library") {
    struct Row {
      std::string name;
      void (*change)(Collective&);
      std::string other;  // what rank 1 issues
    };
    const Row rows[] = {
        {"exchange", [](Collective& c) { c.exchange = ExchangeId(1); },
         "all-to-all of 64 B with exchange \"even\""},
        {"no exchange", [](Collective& c) { c.exchange.reset(); }, "all-to-all of 64 B"},
        {"back", [](Collective& c) { c.back = true; }, "all-to-all of 64 B back from exchange \"dispatch\""},
        {"library", [](Collective& c) { c.library = LibraryId(0); },
         "all-to-all of 64 B with exchange \"dispatch\" of library \"deepep\""},
    };
    for (const Row& row : rows) {
      CAPTURE(row.name);
      Schedule s = experts();
      s.libraries = {"deepep"};
      s.exchanges.push_back(even(4));
      s.roles.push_back(s.roles[0]);
      s.roles[1].name = "r1";
      s.role_of[1] = RoleId(1);
      row.change(std::get<Collective>(s.roles[1].program[0].body));
      CHECK(joined(check_schedule(s)) ==
            "family \"ep\" in stream \"s1\": as collective 0 rank 0 issues all-to-all of 64 B with exchange "
            "\"dispatch\", op 0 "
            "(\"other\") of role \"r0\", but rank 1 of its group issues " +
                row.other + ", op 0 (\"other\") of role \"r1\"");
    }
  }

  TEST_CASE("ranks are alike by place where members differ, and by what their group has") {
    using Players = std::vector<std::size_t>;
    Schedule s = experts();
    CHECK(players(s) == Players{0, 1, 2, 3, 0, 1, 2, 3});

    SUBCASE("where an exchange treats all members alike, and there is no load, one plays for all") {
      s.exchanges = {even(4)};
      for (std::size_t own = 0; own < 16; own += 5) s.exchanges[0].counts[own] = static_cast<double>(own);
      s.roles[0].program.erase(s.roles[0].program.begin() + 1, s.roles[0].program.end());
      CHECK(players(s) == Players(8, 0));
      s.exchanges[0].counts[1] = 2;
      CHECK(players(s) == Players{0, 1, 2, 3, 0, 1, 2, 3});
    }
    SUBCASE("what is for a node differs") {
      s.exchanges = {even(4)};
      s.roles[0].program.erase(s.roles[0].program.begin() + 1, s.roles[0].program.end());
      s.exchanges[0].node_members = 2;
      s.exchanges[0].to_nodes = {7, 1, 7, 1, 1, 0, 1, 0};  // of the own node nothing goes across
      CHECK(players(s) == Players(8, 0));
      s.exchanges[0].to_nodes[1] = 2;
      CHECK(players(s) == Players{0, 1, 2, 3, 0, 1, 2, 3});
    }
    SUBCASE("a load alone tells them apart, one that is the same for all does not") {
      s.exchanges = {even(4)};
      CHECK(players(s) == Players{0, 1, 2, 3, 0, 1, 2, 3});
      s.loads[0].factors.assign(4, 1.5);
      CHECK(players(s) == Players(8, 0));
    }
    SUBCASE("groups that have different counts do not stand for each other") {
      s.exchanges[0] = even(4, 2);
      s.loads[0].factors.assign(4, 1);
      CHECK(players(s) == Players(8, 0));
      s.exchanges[0].counts[17] = 3;  // of the second group
      CHECK(players(s) == Players{0, 0, 0, 0, 4, 5, 6, 7});
    }
    SUBCASE("groups that have different factors do not either") {
      s.loads[0].factors = {1, 1, 1, 1, 2, 2, 2, 2};
      s.exchanges = {even(4)};
      CHECK(players(s) == Players{0, 0, 0, 0, 4, 4, 4, 4});
    }
    SUBCASE("a load that only another role has does not tell apart") {
      s.roles.push_back(s.roles[0]);
      s.roles[1].name = "r1";
      s.roles[1].program.erase(s.roles[1].program.begin() + 1, s.roles[1].program.end());
      s.roles[0].program = s.roles[1].program;
      s.exchanges = {even(4)};
      CHECK(players(s) == Players(8, 0));
    }
    SUBCASE("an uneven exchange in groups that do not agree with other groups is refused") {
      // Pairs 0 4 | 1 5 | 2 6 | 3 7 are of one place each; 0 1 | 2 3 | ... are not, but hold their like in order: sound.
      s.roles[0].program.push_back(collective(CollectiveKind::AllReduce, Pairs, 8, 2));
      CHECK(players(s) == Players{0, 1, 2, 3, 0, 1, 2, 3});
      s.families.push_back(GroupFamily::listed(
          "crossed", 8,
          {{RankId(0), RankId(5)}, {RankId(1), RankId(4)}, {RankId(2), RankId(6)}, {RankId(3), RankId(7)}}));
      s.roles[0].program.push_back(collective(CollectiveKind::AllReduce, FamilyId(3), 8, 2));
      CHECK_THROWS_AS((void)one_a_role(s), std::invalid_argument);
      CHECK(joined(check_schedule(s, true)) == "");  // everybody is followed
    }
  }

  TEST_CASE("what a group has is its part, or that of all") {
    Exchange exchange{"x", 2, {1, 2, 3, 4, 5, 6, 7, 8}, 1, {1, 2, 3, 4, 5, 6, 7, 8}};
    CHECK(view_of(exchange, GroupId(1)).count(1, 0) == 7);
    CHECK(view_of(exchange, GroupId(1)).to_node(0, 1) == 6);
    CHECK(view_of(exchange, GroupId(0)).items() == 10);
    CHECK(view_of(exchange, GroupId(0)).most_received() == 3);
    CHECK(view_of(exchange, GroupId(0)).sent() == 5);
    exchange.counts.resize(4);
    exchange.to_nodes.resize(4);
    CHECK(view_of(exchange, GroupId(1)).count(1, 0) == 3);
    const Schedule s = experts();
    CHECK(factor_of(s, s.loads[0], RankId(7)) == 0.5);
    CHECK(members_of_all(s.families[2]) == 8);
  }
}
