#include "sim/parallel/mesh.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace syncline;

namespace {

using Groups = std::vector<std::vector<std::uint32_t>>;

Groups groups_of(const GroupFamily& family) {
  Groups groups;
  for (std::size_t g = 0; g < family.group_count(); ++g) {
    groups.emplace_back();
    for (const RankId rank : family.members(GroupId(g))) groups.back().push_back(rank.value());
  }
  return groups;
}

std::vector<RankId> ranks(std::initializer_list<std::size_t> list) {
  return {list.begin(), list.end()};
}

const Mesh Dense("dense", {{"tp", 2}, {"dp", 4}, {"pp", 2}});

}  // namespace

TEST_SUITE("mesh") {
  TEST_CASE("the first axis runs fastest") {
    CHECK(Dense.world_size() == 16);
    CHECK(Dense.find_axis("dp") == 1);
    CHECK(Dense.find_axis("ep") == -1);
    CHECK(Dense.size(1) == 4);
    // Rank 13 = 1 x 1 + 2 x 2 + 8 x 1.
    CHECK(Dense.coordinate(RankId(13), 0) == 1);
    CHECK(Dense.coordinate(RankId(13), 1) == 2);
    CHECK(Dense.coordinate(RankId(13), 2) == 1);
    CHECK(Dense.with_coordinate(RankId(13), 2, 0) == RankId(5));
    CHECK(Dense.with_coordinate(RankId(13), 1, 3) == RankId(15));
    CHECK(Dense.with_coordinate(RankId(13), 0, 0) == RankId(12));
  }

  TEST_CASE("coordinates name every rank once") {
    for (const Mesh& mesh : {Dense, Mesh("line", {{"dp", 7}}),
                             Mesh("flat", {{"a", 1}, {"b", 3}, {"c", 1}, {"d", 5}}), Mesh("point", {})}) {
      CAPTURE(mesh.name());
      for (std::size_t r = 0; r < static_cast<std::size_t>(mesh.world_size()); ++r) {
        RankId rebuilt(0);
        int stride = 1, sum = 0;
        for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis) {
          const int coordinate = mesh.coordinate(RankId(r), axis);
          REQUIRE(coordinate >= 0);
          REQUIRE(coordinate < mesh.size(axis));
          rebuilt = mesh.with_coordinate(rebuilt, axis, coordinate);
          sum += coordinate * stride;
          stride *= mesh.size(axis);
          CHECK(mesh.with_coordinate(RankId(r), axis, coordinate) == RankId(r));
        }
        CHECK(rebuilt == RankId(r));
        CHECK(sum == static_cast<int>(r));
      }
    }
  }

  TEST_CASE("an axis without extent and a repeated axis are refused") {
    CHECK_THROWS_AS(Mesh("m", {{"dp", 0}}), std::logic_error);
    CHECK_THROWS_AS(Mesh("m", {{"dp", -2}}), std::logic_error);
    CHECK_THROWS_AS(Mesh("m", {{"dp", 2}, {"tp", 2}, {"dp", 2}}), std::logic_error);
  }
}

TEST_SUITE("group families") {
  TEST_CASE("groups along axes of (tp 2, dp 4, pp 2) are those written by hand") {
    struct Row {
      std::vector<std::string> axes;
      Groups groups;
    };
    const Row rows[] = {
        {{"tp"}, {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}},
        {{"dp"}, {{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}},
        {{"pp"}, {{0, 8}, {1, 9}, {2, 10}, {3, 11}, {4, 12}, {5, 13}, {6, 14}, {7, 15}}},
        {{"tp", "dp"}, {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}},
        {{"pp", "tp"}, {{0, 1, 8, 9}, {2, 3, 10, 11}, {4, 5, 12, 13}, {6, 7, 14, 15}}},
        {{"tp", "dp", "pp"}, {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}},
        {{}, {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}, {12}, {13}, {14}, {15}}},
    };
    for (const Row& row : rows) {
      const GroupFamily family = GroupFamily::along("f", Dense, row.axes);
      CHECK(groups_of(family) == row.groups);
      CHECK(family.name() == "f");
      CHECK(family.mesh() == "dense");
      CHECK(family.axes() == row.axes);
      CHECK(family.world_size() == 16);
      for (std::size_t g = 0; g < row.groups.size(); ++g)
        for (const std::uint32_t rank : row.groups[g]) {
          CHECK(family.contains(RankId(rank)));
          CHECK(family.group_of(RankId(rank)) == GroupId(g));
        }
    }
  }

  TEST_CASE("listed groups keep their order and need not cover all ranks") {
    const GroupFamily family = GroupFamily::listed("x", 6, {ranks({4, 0}), ranks({5})});
    CHECK(groups_of(family) == Groups{{4, 0}, {5}});
    CHECK(family.group_of(RankId(0)) == GroupId(0));
    CHECK(family.group_of(RankId(5)) == GroupId(1));
    for (const std::uint32_t outside : {1, 2, 3}) CHECK(!family.contains(RankId(outside)));
    CHECK(family.mesh() == "");
    CHECK(family.axes().empty());
    CHECK(GroupFamily::listed("none", 6, {}).group_count() == 0);
  }

  TEST_CASE("an unknown axis, a rank in two groups and a rank outside the world are refused") {
    CHECK_THROWS_AS(GroupFamily::along("f", Dense, {"ep"}), std::logic_error);
    CHECK_THROWS_AS(GroupFamily::listed("x", 4, {ranks({0, 1}), ranks({1})}), std::logic_error);
    CHECK_THROWS_AS(GroupFamily::listed("x", 4, {ranks({2, 2})}), std::logic_error);
    CHECK_THROWS_AS(GroupFamily::listed("x", 4, {ranks({4})}), std::logic_error);
  }

  TEST_CASE("families and meshes are equal when all their parts are") {
    const GroupFamily along = GroupFamily::along("f", Dense, {"tp", "dp", "pp"});
    CHECK(along == GroupFamily::along("f", Dense, {"tp", "dp", "pp"}));
    CHECK_FALSE(along == GroupFamily::along("g", Dense, {"tp", "dp", "pp"}));
    CHECK_FALSE(along == GroupFamily::along("f", Dense, {"tp", "dp"}));
    CHECK(Dense == Mesh("dense", {{"tp", 2}, {"dp", 4}, {"pp", 2}}));
    CHECK_FALSE(Dense == Mesh("dense", {{"tp", 4}, {"dp", 2}, {"pp", 2}}));
  }
}
