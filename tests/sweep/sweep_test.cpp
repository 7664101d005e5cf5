#include "sim/sweep/sweep.hpp"

#include <doctest/doctest.h>

#include "tests/sweep/fixture.hpp"

using namespace syncline;
using namespace syncline::test;
using sweep::Sweep;

namespace {

using Labels = std::vector<std::vector<std::string>>;

Labels all_labels(const Sweep& sweep) {
  Labels labels;
  for (std::size_t point = 0; point < sweep.size(); ++point) labels.push_back(labels_of(sweep, point));
  return labels;
}

}  // namespace

TEST_SUITE("sweep: points") {
  TEST_CASE("points are the cross product, the first axis outermost, seeds innermost") {
    const SweepFolder folder;
    const Sweep sweep = folder.parse(
        "seeds: [0, 1]\n"
        "zip:\n  - batch.global: [32, 64]\n    batch.microbatch: [1, 2]\n"
        "cross: {topology.scale-out.oversubscription: [1, 2]}\n");
    CHECK(sweep.size() == 2 * 2 * 2);
    CHECK(all_labels(sweep) == Labels{{"1", "32", "1", "0"},
                                      {"1", "32", "1", "1"},
                                      {"1", "64", "2", "0"},
                                      {"1", "64", "2", "1"},
                                      {"2", "32", "1", "0"},
                                      {"2", "32", "1", "1"},
                                      {"2", "64", "2", "0"},
                                      {"2", "64", "2", "1"}});
    static_cast<void>(folder.check(sweep));
  }

  TEST_CASE("a value is a scalar, a list or a block, with a label or without; ~ leaves the scenario's own") {
    const SweepFolder folder;
    const Sweep sweep = folder.parse(
        "cross:\n"
        "  topology.scale-out:\n"
        "  - {label: one switch, value: {kind: all-to-all, link: {bandwidth: 50GBps, latency: 1us}}}\n"
        "  - ~\n"
        "  topology.scale-out.oversubscription: [[1, 2], 4]\n");
    CHECK(all_labels(sweep) ==
          Labels{{"one switch", "[1, 2]"}, {"one switch", "4"}, {"~", "[1, 2]"}, {"~", "4"}});
    CHECK(settings_of(sweep, 0).size() == 2);
    CHECK(settings_of(sweep, 2).size() == 1);
    CHECK(settings_of(sweep, 2).front().path == "topology.scale-out.oversubscription");
  }

  TEST_CASE("every point is the scenario with its values, as --set would make it") {
    const SweepFolder folder;
    const Sweep sweep = folder.parse(
        "set: {batch.sequence: 1024}\ncross: {batch.global: [32, 64], batch.microbatch: [1, 2]}\n");
    const ScenarioDocument document(read(folder / "s.yaml"), folder / "s.yaml");
    for (std::size_t point = 0; point < sweep.size(); ++point) {
      CAPTURE(point);
      const std::vector<std::string> labels = labels_of(sweep, point);
      const Scenario swept = document.scenario(settings_of(sweep, point));
      const Scenario set = load_scenario(
          folder / "s.yaml",
          {{"batch.sequence", "1024"}, {"batch.global", labels[0]}, {"batch.microbatch", labels[1]}});
      CHECK(show_scenario(swept) == show_scenario(set));
      CHECK(swept.hash == set.hash);
    }
  }

  TEST_CASE("--set comes after the file's own values") {
    const SweepFolder folder;
    const Sweep sweep = folder.parse("set: {batch.global: 32}\ncross: {batch.microbatch: [1, 2]}\n",
                                     {{"batch.global", "128"}});
    const ScenarioDocument document(read(folder / "s.yaml"), folder / "s.yaml");
    CHECK(document.scenario(settings_of(sweep, 0)).global_batch == 128);
    CHECK(sweep.flags == std::vector<std::string>{"batch.global=128"});
  }
}

TEST_SUITE("sweep: bad input") {
  TEST_CASE("what is wrong with a sweep is said before anything runs, at its place") {
    struct Row {
      const char* name;
      std::string rest;
      std::string message;  // begins so
    };
    for (const Row& row : {
             Row{"nothing swept", "",
                 "w.yaml:1:1: error: nothing is swept; add \"cross\", \"zip\" or \"seeds\""},
             Row{"unknown key", "crss: {batch.global: [1]}\n",
                 "w.yaml:3:1: error: unknown key \"crss\"; did you mean \"cross\"?"},
             Row{"uneven zip", "zip:\n- batch.global: [32, 64]\n  batch.microbatch: [1]\n",
                 "w.yaml:5:3: error: \"batch.microbatch\" has 1 values, \"batch.global\" in the same zip has "
                 "2"},
             Row{"empty axis", "cross: {batch.global: []}\n",
                 "w.yaml:3:9: error: \"batch.global\": is an empty list"},
             Row{"value twice", "cross: {batch.global: [32, 64, 32]}\n",
                 "w.yaml:3:32: error: \"batch.global\": the value 32 stands here twice"},
             Row{"repeated key", "cross: {batch.global: [32], batch.global: [64]}\n",
                 "w.yaml:3:29: error: repeated key \"batch.global\"; it stands on line 3 already"},
             Row{"swept twice", "cross: {batch.global: [32]}\nzip: [{batch.global: [64]}]\n",
                 "w.yaml:4:8: error: \"batch.global\" has values already, at w.yaml:3; keep one of them"},
             Row{"set and swept", "set: {batch.global: 32}\ncross: {batch.global: [64]}\n",
                 "w.yaml:3:7: error: \"batch.global\" is swept in line 4 of the sweep; it cannot be set as "
                 "well"},
             Row{"unknown metric", "cross: {batch.global: [64]}\nmetrics: [step-tim]\n",
                 "w.yaml:4:11: error: \"metrics[0]\": unknown metric \"step-tim\"; did you mean "
                 "\"step-time\"?"},
             Row{"seed no number", "seeds: [x]\n", "w.yaml:3:9: error: \"seeds[0]\""},
             Row{"too many points",
                 "cross: {" +
                     [] {
                       std::string axes;
                       for (int axis = 0; axis < 21; ++axis)
                         axes += "a" + std::to_string(axis) + ": [1, 2], ";
                       return axes;
                     }() +
                     "}\n",
                 "w.yaml:3:"},
             Row{"list of nothing", "cross: 7\n", "w.yaml:3:8: error: \"cross\": expected paths with values"},
         }) {
      SUBCASE(row.name) {
        const SweepFolder folder;
        const std::string message =
            message_of([&] { static_cast<void>(folder.parse(row.rest)); }, folder / "");
        CHECK_MESSAGE(message.starts_with(row.message), message);
      }
    }
  }

  TEST_CASE("a scenario that is not there is named with the place of its key") {
    const SweepFolder folder;
    const std::string message = message_of(
        [&] {
          static_cast<void>(
              sweep::parse_sweep("version: 1\nscenario: t.yaml\nseeds: [1]\n", folder / "w.yaml"));
        },
        folder / "");
    CHECK_MESSAGE(message.starts_with("w.yaml:2:11: error: \"scenario\": no such file \"t.yaml\""), message);
  }

  TEST_CASE("a path that no point knows is refused with the nearest key") {
    struct Row {
      const char* name;
      std::string rest;
      std::string message;
    };
    for (const Row& row : {
             Row{"last key", "cross: {batch.globl: [32, 64]}\n",
                 "w.yaml:3:9: error: unknown key \"globl\"; did you mean \"global\"?"},
             Row{"first key", "cross: {batsh.global: [32, 64]}\n",
                 "w.yaml:3:9: error: unknown key \"batsh\"; did you mean \"batch\"?"},
             Row{"below a value", "cross: {batch.global.size: [32, 64]}\n",
                 "w.yaml:3:9: error: \"global\" is a single value; nothing lies below it"},
             Row{"fixed", "set: {batch.globl: 32}\ncross: {batch.microbatch: [1, 2]}\n",
                 "w.yaml:3:7: error: unknown key \"globl\""},
             Row{"empty part", "cross: {batch..global: [32]}\n",
                 "w.yaml:3:9: error: the path has an empty part"},
         }) {
      SUBCASE(row.name) {
        const SweepFolder folder;
        const Sweep sweep = folder.parse(row.rest);
        const std::string message = message_of([&] { static_cast<void>(folder.check(sweep)); }, folder / "");
        CHECK_MESSAGE(message.starts_with(row.message), message);
      }
    }
  }

  TEST_CASE("a wrong value is left to its row as long as another is right") {
    const SweepFolder folder;
    CHECK(folder.check(folder.parse("cross: {batch.global: [7, 64]}\n")) != 0);
    const Sweep none = folder.parse("cross: {batch.global: [7, 9]}\n");
    const std::string message = message_of([&] { static_cast<void>(folder.check(none)); }, folder / "");
    CHECK_MESSAGE(message.starts_with("w.yaml:3:24: error: \"batch.global\" is 7, which"), message);
  }

  TEST_CASE("a path that only some points know is none to refuse") {
    const SweepFolder folder;
    const std::string torus = "{kind: torus, dimensions: [4], link: {bandwidth: 50GBps, latency: 1us}}";
    // A torus has no radix: its points have an error in their rows.
    const std::string cross =
        "cross:\n  topology.scale-out: [" + torus + ", ~]\n  topology.scale-out.radix: [64, 32]\n";
    CHECK(folder.check(folder.parse(cross)) != 0);
  }
}
