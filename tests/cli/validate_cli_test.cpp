// `syncline validate`: what was measured is held against simulations of today.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace syncline;
using namespace syncline::test;
using nlohmann::json;

namespace {

/// A claim of one message, simulated to take 1 ms and 2 us, and measured by its own simulation.
struct ClaimFolder : Folder {
  ClaimFolder() {
    write("node.yaml",
          "version: 1\naccelerators: 2\naccelerators-per-node: 2\n"
          "scale-up: {kind: switch, link: {bandwidth: 1GBps, latency: 1us}}\n");
    write("slow.yaml",
          "version: 1\naccelerators: 2\naccelerators-per-node: 2\n"
          "scale-up: {kind: switch, link: {bandwidth: 0.8GBps, latency: 1us}}\n");
    write("pass.schedule",
          "syncline-schedule 1\nname \"pass\"\nmesh dense axes=pp:2\nstream s\n"
          "role 0 \"a\" ranks=0\n  op 0 send to=1 bytes=1000000 stream=s\n"
          "role 1 \"b\" ranks=1\n  op 0 receive from=0 bytes=1000000 stream=s\nend\n");
    REQUIRE(run(*this, "run pass.schedule --topology node.yaml --trace measured.json").code == 0);
  }
  void claim(const std::string& tolerance, const std::string& more = "") const {
    write("claim.yaml",
          "version: 1\nclaim: a message takes its time\nsource: made up\nenvironment: {machine: none}\n"
          "tolerance: " + tolerance +
          "\ncases:\n  - {name: pass, scenario: pass.schedule, topology: slow.yaml, measured: measured.json" + more + "}\n");
  }
};

}  // namespace

TEST_CASE("every claim of the project holds") {
  const Folder folder;
  const Outcome outcome = run(folder, std::string("validate ") + SYNCLINE_SOURCE_DIR "/validation/executed-mpi --json");
  REQUIRE_MESSAGE(outcome.code == 0, (outcome.err + outcome.out));
  const json claim = json::parse(outcome.out).at("claims").at(0);
  CHECK(claim.at("holds") == true);
  CHECK(claim.at("cases").size() == 5);
  for (const json& one : claim.at("cases")) CHECK(one.at("measured_step_time_s") > 0.1);
}

TEST_CASE("a claim is broken by a simulation that has moved too far, and the case says how far") {
  const ClaimFolder folder;
  folder.claim("{step: 30%, order: 0}");  // 1.252 ms for 1.002 ms: 24.95 % more
  Outcome outcome = run(folder, "validate .");
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.out, ".: holds"));
  CHECK(contains(outcome.out, "machine: none"));
  CHECK(contains(outcome.out, "+25.0 %"));

  folder.claim("{step: 20%, order: 0}");
  outcome = run(folder, "validate .");
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.out, ".: BROKEN"));
  CHECK(contains(outcome.out, "beyond 20%"));

  folder.claim("{step: 20%, order: 0}", ", tolerance: {step: 40%}");  // the case's own is the one that counts
  CHECK(run(folder, "validate .").code == 0);
}

TEST_CASE("what is wrong with a claim is said with its place") {
  const ClaimFolder folder;
  folder.claim("{steps: 20%}");
  const auto refusal = [&](const std::string& arguments) {
    const Outcome outcome = run(folder, arguments);
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  CHECK(contains(refusal("validate ."), "claim.yaml:5:13: error: "));
  folder.claim("{step: much}");
  CHECK(contains(refusal("validate ."), "claim.yaml:5:19: error: \"tolerance.step\": "));
  folder.claim("{}");
  CHECK(contains(refusal("validate ."), "case \"pass\" has no tolerance"));
  folder.claim("{step: 1%}", ", mesured: x.json");
  CHECK(contains(refusal("validate ."), "did you mean \"measured\"?"));
  CHECK(contains(refusal("validate nowhere"), "nowhere/claim.yaml"));
}
