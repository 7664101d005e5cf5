// `faults:` and `noise:` of a scenario.
#include <doctest/doctest.h>

#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

namespace {

const std::string Good = R"(version: 1
question: what breaks?
schedule: two.schedule
topology: small-tree
faults:
  - {switch: spine0, down: true, at: 10ms, reroute: 5ms}
  - {nic: node3.nic2, bandwidth: 0.25}
  - {link: "leaf0 - spine1 #0", down: true}
  - {accelerator: node1.gpu3, slowdown: 1.5, at: 1ms}
noise: {compute: 0.02, latency: 0.05}
run: {seed: 7}
)";

Scenario load(const std::string& text, const std::vector<Override>& overrides = {}) {
  return load_beside(TwoRanks, text, overrides);
}

std::string refusal(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  const Folder folder;
  folder.write("two.schedule", TwoRanks);
  use_test_data();
  return message_of([&] { static_cast<void>(load_scenario(folder.write("s.yaml", text))); }, folder / "");
}

}  // namespace

TEST_SUITE("scenario: faults and noise") {
  TEST_CASE("every key is read, and shown so that it reads the same again") {
    const Scenario scenario = load(Good);
    REQUIRE(scenario.faults.size() == 4);
    CHECK(scenario.faults[0].part == Fault::Part::Switch);
    CHECK(scenario.faults[0].down);
    CHECK(scenario.faults[0].at == Seconds(10e-3));
    CHECK(scenario.faults[0].reroute == Seconds(5e-3));
    CHECK(scenario.faults[1].part == Fault::Part::Nic);
    CHECK(scenario.faults[1].bandwidth == 0.25);
    CHECK_FALSE(scenario.faults[1].at);
    CHECK(scenario.faults[2].name == "leaf0 - spine1 #0");
    CHECK(scenario.faults[3].slowdown == 1.5);
    CHECK(scenario.noise.compute == 0.02);
    CHECK(scenario.noise.latency == 0.05);
    CHECK(scenario.seed == 7);
    const std::string shown = show_scenario(scenario);
    CHECK(shown.find("spine0") != std::string::npos);
    CHECK(scenario.hash != load(Good, {{"faults", "[]"}}).hash);
    CHECK(scenario.hash != load(Good, {{"noise.latency", "0.06"}}).hash);
  }

  TEST_CASE("faults are set on the command line, one or several") {
    CHECK(load(Good, {{"faults", "[]"}}).faults.empty());
    const Scenario one = load(Good, {{"faults", "{switch: spine1, bandwidth: 0.5}"}});
    REQUIRE(one.faults.size() == 1);
    CHECK(one.faults[0].bandwidth == 0.5);
    CHECK(load(Good, {{"noise.compute", "0.5"}}).noise.compute == 0.5);
  }

  TEST_CASE("what is wrong is said where it stands") {
    struct Row {
      const char* name;
      std::string from, to;
      const char* place;    // "s.yaml:6:14", or how the message begins
      const char* message;  // part of it
    };
    const Row rows[] = {
        {"no such switch", "spine0,", "spin0,",
         "s.yaml:6:14: ", "there is no switch \"spin0\" in this topology; the nearest is \"spine0\""},
        {"no such nic", "node3.nic2", "node9.nic2", "s.yaml:7:11: ", "the nearest is \"node0.nic2\""},
        {"no such link", "\"leaf0 - spine1 #0\"", "leaf0",
         "s.yaml:8:12: ", "names no link; write its two ends"},
        {"no such accelerator", "node1.gpu3", "node1.gpu7",
         "s.yaml:9:19: ", "there is no accelerator \"node1.gpu7\""},
        {"no part", "{switch: spine0, down", "{down",
         "s.yaml:6:5: ", "names no part; give link, nic, switch or accelerator"},
        {"a switch of a far-off name", "spine0,", "Ethernet7,",
         "s.yaml:6:14: ", "there is no switch \"Ethernet7\" in this topology; it has "},
        {"a nic of a far-off name", "node3.nic2", "mlx5_0", "s.yaml:7:11: ",
         "there is no NIC \"mlx5_0\" in this topology; it has 16, \"node0.nic0\" to \"node3.nic3\""},
        {"a link of a far-off name", "leaf0 - spine1 #0", "a - b",
         "s.yaml:8:12: ", "there is no link \"a - b\" in this topology; it has "},
        {"two parts", "{nic: node3.nic2,", "{nic: node3.nic2, switch: spine1,",
         "s.yaml:7:5: ", "names 2 parts, a nic and a switch; make each a fault of its own"},
        {"no state", ", bandwidth: 0.25", "", "s.yaml:7:5: ", "says nothing of its state"},
        {"slow link", "bandwidth: 0.25", "slowdown: 2", "s.yaml:7:5: ", "slowdown is of accelerators"},
        {"thin accelerator", "slowdown: 1.5", "bandwidth: 0.5",
         "s.yaml:9:5: ", "an accelerator has a slowdown"},
        {"down and thin", "bandwidth: 0.25", "bandwidth: 0.25, down: true",
         "s.yaml:7:5: ", "what is down has nothing left"},
        {"accelerator lost on the way", "slowdown: 1.5", "down: true",
         "s.yaml:9:5: ", "stops a synchronous job there"},
        {"rerouted from the start", "at: 10ms, ", "", "s.yaml:6:5: ", "give down: true and at"},
        {"faster", "slowdown: 1.5", "slowdown: 0.5", "s.yaml:9:41: ", "slowdown"},
        {"more than all", "bandwidth: 0.25", "bandwidth: 2", "s.yaml:7:34: ", "bandwidth"},
        {"unknown key", "reroute", "rerout", "s.yaml:6:44: ", "did you mean \"reroute\""},
        {"cut in two", "bandwidth: 0.25}",
         "down: true}\n  - {nic: node3.nic3, down: true}\n"
         "  - {nic: node3.nic0, down: true}\n  - {nic: node3.nic1, down: true, at: 1s}",
         "s.yaml:5:1: ", "with these faults node3.gpu0 cannot reach node0.gpu0"},
        {"noise", "compute: 0.02", "compute: -1", "s.yaml:10:18: ", "noise.compute"},
    };
    for (const Row& row : rows) {
      const std::string name = row.name;
      CAPTURE(name);
      const std::string message = refusal(Good, row.from, row.to);
      CAPTURE(message);
      CHECK(message.starts_with(row.place));
      CHECK(message.find(row.message) != std::string::npos);
    }
  }

  TEST_CASE("without a topology there is nothing to fail") {
    const std::string textbook =
        "version: 1\npipeline: {schedule: 1f1b, stages: 4, microbatches: 8, forward: 10ms, backward-input: "
        "12ms, "
        "backward-weight: 7ms}\n";
    CHECK(load(textbook + "noise: {compute: 0.1}\n").noise.compute == 0.1);
    CHECK(refusal(textbook + "faults: []\n", "faults: []", "faults: [{switch: spine0, down: true}]")
              .find("\"faults\" are of a topology's parts, and there is none") != std::string::npos);
  }
}
