// The rule-made schedules against the orders that the original projects generate.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <optional>

#include "sim/pipeline/generator.hpp"
#include "tests/pipeline/published.hpp"

using namespace syncline;
using namespace syncline::pipeline;
using namespace syncline::pipeline::testing;

namespace {

/// The schedules whose orders follow from counts alone, by the name in the data and here.
const std::map<std::string, std::string, std::less<>> RuleMade = {
    {"naive", "naive"},
    {"gpipe", "gpipe"},
    {"1f1b", "1f1b"},
    {"1f1b-v", "1f1b-v"},
    {"interleaved-1f1b", "interleaved-1f1b"},
    {"interleaved-zb", "interleaved-zb"},
    {"looped-bfs", "looped-bfs"},
    {"zb-h1", "zb-h1"},
    {"zb-h2", "zb-h2"},
    {"zb-v-handcrafted", "zb-v-handcrafted"},
    {"v-half", "v-half"},
    {"v-min", "v-min"},
    {"dualpipe", "dualpipe"},
    {"dualpipev", "dualpipe-v"},
};

Request request_of(const PublishedOrder& published) {
  Request request;
  request.ranks = published.p;
  request.microbatches = published.m;
  request.chunks = published.v;
  request.group_size = published.group_size.value_or(0);
  // The light implementation of ZB-H1 keeps its weight gradients on a stack, the quick start in a queue.
  if (published.source == "zero-bubble/zbpp_light") request.weight_order = WeightOrder::NewestFirst;
  return request;
}

/// Where two orders part, or nothing.
std::string difference(const Order& ours, const PublishedOrder& theirs) {
  if (ours.ranks.size() != theirs.text.size()) return "not as many ranks";
  for (std::size_t rank = 0; rank < theirs.text.size(); ++rank) {
    const std::string text = to_text(ours.ranks[rank]);
    if (text != theirs.text[rank])
      return fmt::format("rank {}:\n  here  {}\n  there {}", rank, text, theirs.text[rank]);
  }
  return "";
}

}  // namespace

TEST_CASE("a rule-made schedule has the order that its project generates") {
  struct Count {
    int cases = 0, equal = 0;
  };
  const std::vector<Published> sets = all_published();
  REQUIRE(!sets.empty());
  for (const Published& published : sets) {
    std::map<std::string, Count> counts;
    for (const PublishedOrder& theirs : published.orders) {
      const auto name = RuleMade.find(theirs.schedule);
      if (name == RuleMade.end()) continue;
      CAPTURE(theirs.id);
      const Generator* generator = find_generator(name->second);
      REQUIRE(generator != nullptr);
      const std::string apart = difference(make_order(*generator, request_of(theirs)), theirs);
      CHECK(apart == "");
      Count& count = counts[fmt::format("{:<18}{}", theirs.schedule, theirs.source)];
      ++count.cases;
      count.equal += apart.empty();
    }
    std::string table = "schedule          source: cases, equal orders\n";
    for (const auto& [name, count] : counts)
      table += fmt::format("{:<50}{:>4}{:>5}\n", name, count.cases, count.equal);
    MESSAGE(table);
    CHECK(counts.size() >= 13);  // else the data was not read
  }
  if (sets.size() < 2)
    MESSAGE("the whole set is not at ", whole_folder(), ": compared with the compact copy only");
}
