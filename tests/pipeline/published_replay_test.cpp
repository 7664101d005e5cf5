// The replay against what was computed elsewhere for the orders of the original projects.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/pipeline/published.hpp"

using namespace syncline;
using namespace syncline::pipeline;
using namespace syncline::pipeline::testing;

namespace {

constexpr double Exact = 1e-9;  // relative; the replay adds up the same figures in another order
constexpr double BubbleDigits = 0.5000001e-9;  // printed with 9 digits

bool same(double actual, double expected) {
  return std::abs(actual - expected) <= Exact * std::max(1.0, std::abs(expected));
}

/// What of a row comes out differently; empty when nothing does.
std::string differences(const Replay& actual, const PublishedReplay& expected) {
  std::string text;
  const auto compare = [&text](const std::string& what, double found, double wanted, bool equal) {
    if (!equal) text += fmt::format("{} {} instead of {}; ", what, found, wanted);
  };
  const auto number = [&](const std::string& what, double found, double wanted) {
    compare(what, found, wanted, same(found, wanted));
  };
  number("makespan", actual.makespan.si(), expected.makespan);
  number("span", actual.max_rank_span.si(), expected.max_rank_span);
  compare("bubble fraction", actual.bubble_fraction, expected.bubble_fraction,
          std::abs(actual.bubble_fraction - expected.bubble_fraction) <= BubbleDigits);
  number("ranks", static_cast<double>(actual.ranks.size()), static_cast<double>(expected.busy.size()));
  for (std::size_t r = 0; r < std::min(actual.ranks.size(), expected.busy.size()); ++r) {
    const RankReplay& rank = actual.ranks[r];
    number(fmt::format("busy of rank {}", r), rank.busy.si(), expected.busy.at(r));
    number(fmt::format("idle of rank {}", r), rank.internal_idle.si(), expected.internal_idle.at(r));
    number(fmt::format("peak of rank {}", r), rank.peak_activations, expected.peak_activations.at(r));
    number(fmt::format("peak of rank {}, freed at I", r), rank.peak_activations_free_at_input,
           expected.peak_activations_free_at_input.at(r));
  }
  return text;
}

struct Count {
  int orders = 0, rows = 0, equal = 0;
};

/// Replays every row; rows that differ are failures.
std::map<std::string, Count> replay_all(const Published& data) {
  std::map<std::string, Count> counts;
  for (const PublishedOrder& order : data.orders) {
    CAPTURE(order.id);
    const std::vector<std::string> wrong = check_order(order.order);
    CHECK_MESSAGE(wrong.empty(), wrong.size(), " faults, the first: ", wrong.empty() ? "" : wrong.front());
    CHECK(order.order.microbatches == order.m);
    CHECK(order.order.ranks.size() == static_cast<std::size_t>(order.p));
    ++counts[order.schedule].orders;
  }
  for (const PublishedReplay& row : data.replays) {
    const PublishedOrder& order = data.orders[row.order];
    CAPTURE(row.id);
    CAPTURE(row.makespan);
    const std::string wrong = differences(replay(order.order, row.costs), row);
    CHECK(wrong == "");
    Count& count = counts[order.schedule];
    ++count.rows;
    if (wrong.empty()) ++count.equal;
  }
  return counts;
}

}  // namespace

TEST_SUITE("published pipelines") {
  TEST_CASE("the compact copy holds every schedule of every project") {
    const std::optional<Published> data = load_published(compact_folder());
    REQUIRE(data);
    CHECK(data->orders.size() == 67);
    CHECK(data->replays.size() == 182);
    CHECK(data->torch_csvs.size() == 7);
    std::set<std::pair<std::string, std::string>> kinds;
    for (const PublishedOrder& order : data->orders) kinds.insert({order.schedule, order.source});
    CHECK(kinds.size() == 20);
    if (const std::optional<Published> whole = load_published(whole_folder()))
      for (const PublishedOrder& order : whole->orders) {
        CAPTURE(order.id);
        CHECK(kinds.count({order.schedule, order.source}) == 1);
      }
  }

  TEST_CASE("what a generator was given is read with its order") {
    const std::optional<Published> data = load_published(compact_folder());
    REQUIRE(data);
    int limited = 0, grouped = 0, with_costs = 0, with_optimum = 0;
    for (const PublishedOrder& order : data->orders) {
      CAPTURE(order.id);
      CHECK(order.text.size() == order.order.ranks.size());
      for (std::size_t r = 0; r < order.text.size(); ++r)
        CHECK(to_text(order.order.ranks[r]) == order.text[r]);
      limited += order.memory_limit.has_value();
      grouped += order.group_size.has_value();
      with_optimum += order.best_span.has_value();
      if (!order.costs) continue;
      ++with_costs;
      CHECK(order.costs->stages.size() == static_cast<std::size_t>(order.order.stages));
      CHECK(order.memory.has_value());
    }
    CHECK(limited > 10);
    CHECK(grouped == 4);
    CHECK(with_optimum == 3);
    CHECK(with_costs == 19);  // zb-auto, zb-1p, zb-2p, zb-v: four each, zb-ilp: three
  }

  TEST_CASE("every published order takes the published times") {
    const std::string names[] = {"compact", "whole"};
    std::size_t set = 0;
    for (const Published& data : all_published()) {
      const std::map<std::string, Count> counts = replay_all(data);
      fmt::print("replay of published orders, {} set\n{:20} {:>7} {:>6} {:>6}\n", names[set++], "schedule",
                 "orders", "rows", "equal");
      Count sum;
      for (const auto& [schedule, count] : counts) {
        fmt::print("{:20} {:>7} {:>6} {:>6}\n", schedule, count.orders, count.rows, count.equal);
        sum = {sum.orders + count.orders, sum.rows + count.rows, sum.equal + count.equal};
      }
      fmt::print("{:20} {:>7} {:>6} {:>6}\n\n", "all", sum.orders, sum.rows, sum.equal);
      CHECK(sum.equal == static_cast<int>(data.replays.size()));
    }
  }
}
