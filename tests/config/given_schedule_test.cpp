// Scenarios whose schedule stands in a file of its own.
#include <doctest/doctest.h>

#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

const std::string Good = R"(version: 1
question: how long does one gather take?
schedule: two.schedule
topology: small-tree
)";

Scenario load(const std::string& scenario, const std::string& schedule = TwoRanks) {
  return load_beside(schedule, scenario);
}

std::string refusal(const std::string& scenario, const std::string& schedule = TwoRanks) {
  return message_of([&] { static_cast<void>(load(scenario, schedule)); });
}

}  // namespace

TEST_SUITE("scenario: given schedule") {
  TEST_CASE("the file beside the scenario is read; without a device everything but the network is ideal") {
    const Scenario scenario = load(Good);
    REQUIRE(scenario.given);
    CHECK(scenario.given->schedule.world_size() == 2);
    CHECK_FALSE(scenario.is_training());
    CHECK(scenario.device.name == ideal_device().name);
    CHECK(load(Good + "device: toy\n").device.name == "toy");
  }

  TEST_CASE("the hash follows the schedule's text, not only the scenario's") {
    std::string longer = TwoRanks;
    longer.replace(longer.find("1000"), 4, "2000");
    CHECK(load(Good).hash == load(Good).hash);
    CHECK(load(Good).hash != load(Good, longer).hash);
  }

  TEST_CASE("keys that a schedule is made from are refused beside one") {
    for (const std::string key :
         {"model: toy", "parallel: {dp: 2}", "batch: {global: 2}", "pipeline: {stages: 2}"}) {
      CAPTURE(key);
      const std::string message = refusal(Good + key + "\n");
      CHECK(message.find("s.yaml:5:1: error: \"" + key.substr(0, key.find(':')) +
                         "\" is what a schedule is made from") != std::string::npos);
    }
  }

  TEST_CASE("more ranks than accelerators, a broken schedule and a missing file are told with their place") {
    const std::string many =
        refusal("version: 1\nschedule: two.schedule\ntopology: {base: small-tree, accelerators: 16}\n",
                "syncline-schedule 1\nname \"n\"\nmesh dense axes=dp:32\nrole 0 \"all\" ranks=0-31\nend\n");
    CHECK(many.find("s.yaml:2:11: error: \"schedule\" is of 32 ranks, more than the 16 accelerators") !=
          std::string::npos);
    CHECK(refusal(Good, "syncline-schedule 1\nnonsense\n").find("two.schedule:2:") != std::string::npos);
    CHECK(refusal("version: 1\nschedule: absent.schedule\ntopology: small-tree\n").find("absent.schedule") !=
          std::string::npos);
  }
}
