// The built program as a user meets it: exit codes, and what goes to which stream.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace syncline::test;

namespace {

const std::string Tiny = "'" + Data + "/tiny-16.yaml'";

const std::string WithExperts = "'" + Data +
                                "/tiny-16.yaml' --set 'model.experts={count: 16, top-k: 2, ffn: 512}' "
                                "--set parallel.ep=8 --set 'moe.routing={zipf: 1.2}'";

// Each of two ranks waits for the other to receive before it receives itself.
const std::string Deadlock = R"(syncline-schedule 1
name deadlock
job tokens=0 model-flop=0 hardware-flop=0 precision=bf16
mesh world axes=dp:2
stream compute
role 0 first ranks=0
  op 0 send to=1 bytes=8 stream=compute
  op 1 receive from=1 bytes=8 stream=compute
role 1 second ranks=1
  op 0 send to=0 bytes=8 stream=compute
  op 1 receive from=0 bytes=8 stream=compute
end
)";

}  // namespace

TEST_SUITE("cli: help") {
  TEST_CASE("every subcommand has help with an example to paste") {
    const Folder folder;
    for (const std::string name : {"run", "pipeline", "show", "schedule", "topology", "sweep", "doctor"}) {
      CAPTURE(name);
      const Outcome outcome = run(folder, name + " --help");
      CHECK(outcome.code == 0);
      CHECK(outcome.err == "");
      CHECK(contains(outcome.out, "Example:\n  syncline " + name));
      CHECK(contains(run(folder, "--help").out, "\n  " + name + " "));
    }
  }

  TEST_CASE("the help of run names every exit code") {
    const Folder folder;
    const std::string help = run(folder, "run --help").out;
    for (const std::string code :
         {"0 done", "1 an `expect`", "2 bad input", "3 the environment", "4 a bug"}) {
      CAPTURE(help);
      CHECK_MESSAGE(contains(help, code), code);
    }
  }

  TEST_CASE("the version is printed") {
    const Folder folder;
    const Outcome outcome = run(folder, "--version");
    CHECK(outcome.code == 0);
    CHECK(outcome.out.starts_with("syncline "));
  }

  TEST_CASE("wrong usage is refused with a way out") {
    const Folder folder;
    check_refused(
        folder, {
                    {"nothing", "", 2, "see syncline --help"},
                    {"unknown subcommand", "shw x", 2,
                     "error: unknown subcommand \"shw\"; did you mean \"show\"? (known: run, show, "
                     "schedule, pipeline, collective, experts, topology, calibrate, sweep, execute, compare, "
                     "validate, score, doctor)"},
                    {"stray argument", "doctor now", 2, "now; see syncline doctor --help"},
                    {"stray second file", "show " + Tiny + " other", 2, "other; see syncline show --help"},
                    {"unknown flag", "run " + Tiny + " --fast", 2, "--fast; see syncline run --help"},
                    {"no file", "run", 2, "see syncline run --help"},
                    {"wrong word", "run " + Tiny + " --detail most", 2, "--detail"},
                    {"drawing beside JSON", "run " + Tiny + " --json --gantt", 2, "excludes"},
                    {"too narrow", "run " + Tiny + " --gantt --columns 10", 2, "--columns"},
                    {"override without value", "show " + Tiny + " --set batch.global", 2,
                     "--set batch.global: error: expected a path and a value, as in --set batch.global=64"},
                    {"trace of two", "run " + Tiny + " " + Tiny + " --trace t.json", 2,
                     "--trace: error: a trace holds one run"},
                    {"trace without a name", "run " + Tiny + " --trace ''", 2, "a file name is needed"},
                    {"trace named as data", "run " + Tiny + " --trace t.yaml", 2,
                     "--trace: error: t.yaml would be a YAML file, a trace is JSON"},
                    {"cluster of a scenario", "run " + Tiny + " --topology small-tree", 2,
                     "is no schedule, and a scenario says itself what it runs on; change that by --set "
                     "topology=NAME"},
                    {"topology of nothing", "topology", 2, "name a topology or a file, or give --list"},
                });
  }
}

TEST_SUITE("cli: bad input") {
  TEST_CASE("files that are no scenario are refused within a second, with exit code 2") {
    const Folder folder;
    folder.write("empty.yaml", "");
    folder.write("binary.yaml", std::string("\x7f"
                                            "ELF\0\1",
                                            6));
    folder.write("keys.yaml", read(Data + "/tiny-16.yaml") + "recompte: full\nbatch: {}\n");
    folder.write("broken.schedule", "syncline-schedule 1\nnonsense\n");
    std::filesystem::resize_file(folder.write("large.yaml", "a: 1\n"), 100'000'000);
    check_refused(
        folder,
        {
            {"missing", "run none.yaml", 2, "none.yaml: error: no such file"},
            {"folder", "run .", 2, ".: error: is a folder; name a file in it"},
            {"empty", "run empty.yaml", 2, "empty.yaml: error: is empty"},
            {"binary", "run binary.yaml", 2, "binary.yaml: error: not a text file: byte 5 is not UTF-8 text"},
            {"100 MB", "run large.yaml", 2, "large.yaml: error: is too large (100000000 bytes"},
            {"100 MB shown", "show large.yaml", 2, "large.yaml: error: is too large (100000000 bytes"},
            {"unknown key", "run keys.yaml", 2,
             "keys.yaml:8:1: error: unknown key \"recompte\"; did you mean \"recompute\"?"},
            {"repeated key", "run keys.yaml", 2,
             "keys.yaml:9:1: error: repeated key \"batch\"; it stands on line 7 already, keep one of them"},
            {"does not divide", "run " + Tiny + " --set batch.global=100", 2,
             "--set batch.global=100: error: \"batch.global\" is 100, which is not a multiple of"},
            {"too many ranks", "schedule " + Tiny + " --set parallel.dp=64", 2,
             "more ranks than topology.accelerators (16)"},
            {"unknown topology", "topology small-tre", 2, "did you mean \"small-tree\"?"},
            {"broken schedule", "run broken.schedule --topology small-tree", 2, "broken.schedule:2"},
        });
  }

  TEST_CASE("a trace does not replace its own input, by whatever name") {
    const Folder folder;
    const std::string text = read(Data + "/tiny-16.yaml");
    folder.write("in", text);
    std::filesystem::create_hard_link(folder / "in", folder / "twin");
    for (const std::string name : {"in", "./in", "twin"}) {
      CAPTURE(name);
      const Outcome outcome = run(folder, "run in --trace " + name);
      CHECK(outcome.code == 2);
      CHECK(contains(outcome.err, "--trace: error: " + name + " is the input in; name another file"));
      CHECK(read(folder / "in") == text);
    }
  }

  TEST_CASE("a schedule of another version is a schedule, with or without a byte order mark") {
    const Folder folder;
    const std::string message = "version \"2\" of the format is not known; this program reads version 1";
    for (const std::string mark : {"", "\xEF\xBB\xBF"}) {
      folder.write("s", mark + "syncline-schedule 2\n");
      const Outcome outcome = run(folder, "run s --topology small-tree");
      CHECK(outcome.code == 2);
      CHECK_MESSAGE(contains(outcome.err, message), outcome.err);
    }
    folder.write("s", "\xEF\xBB\xBF" + run(folder, "schedule " + Tiny).out);
    CHECK(run(folder, "run s --topology small-tree --device toy").code == 0);
  }

  TEST_CASE("the ideal device says which kernels it has no time for") {
    const Folder folder;
    folder.write("s", run(folder, "schedule " + Tiny).out);
    const Outcome outcome = run(folder, "run s --topology small-tree");
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(contains(outcome.err, "s: error: has kernels without a time on this device: \""),
                  outcome.err);
    CHECK(contains(outcome.err, "such as --device h100-sxm"));
  }

  TEST_CASE("a missing data folder is the environment's fault, exit code 3") {
    const Folder folder;
    const Outcome outcome =
        run(folder, "--version >/dev/null; SYNCLINE_DATA=/nonexistent '" SYNCLINE_PROGRAM "' doctor");
    CHECK(outcome.code == 3);
    CHECK(contains(outcome.err, "SYNCLINE_DATA is \"/nonexistent\""));
  }

  TEST_CASE("a file that --set names is looked for here, whatever folder the scenario is in") {
    const Folder folder;
    folder.write("mine.yaml",
                 "version: 1\nname: mine\naccelerators: 16\naccelerators-per-node: 16\n"
                 "scale-up: {kind: switch, link: {bandwidth: 400GBps, latency: 1us}}\n");
    const std::string tiny = "'" + Data + "/tiny-16.yaml'";
    const Outcome outcome = run(folder, "show " + tiny + " --set topology=mine.yaml");
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    CHECK(contains(outcome.out, "name: mine"));
    CHECK(run(folder, "show " + tiny + " --set topology=nowhere.yaml").code == 2);
  }

  TEST_CASE("a full disk is the environment's fault, exit code 3") {
    const Folder folder;
    for (const std::string& arguments :
         {"show " + Tiny, "schedule " + Tiny, std::string("topology small-tree")}) {
      CAPTURE(arguments);
      const Outcome outcome = run(folder, arguments, "/dev/full");
      CHECK(outcome.code == 3);
      CHECK(contains(outcome.err, "cannot write to standard output"));
    }
    // More than a buffer full: it fails in the middle of a print.
    const Outcome long_text = run(folder, "run " + Tiny + " " + Tiny + " " + Tiny + " --json", "/dev/full");
    CHECK(long_text.code == 3);
    CHECK_MESSAGE(contains(long_text.err, "cannot write"), long_text.err);
  }

  TEST_CASE("standard input and named pipes are read as files are") {
    const Folder folder;
    const auto step_of = [&](const Outcome& outcome) {
      CHECK_MESSAGE(outcome.code == 0, outcome.err);
      return nlohmann::json::parse(outcome.out).at("step_time_s").get<double>();
    };
    const double expected = step_of(run(folder, "run " + Tiny + " --json"));
    CHECK(step_of(run(folder, "run /dev/stdin --json", "", "cat " + Tiny + " |")) == expected);
    REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK(step_of(run(folder, "run pipe --json", "", "{ cat " + Tiny + " > pipe & };")) == expected);
    folder.write("s", run(folder, "schedule " + Tiny).out);
    CHECK(step_of(run(folder, "run /dev/stdin --topology small-tree --device toy --json", "", "cat s |")) ==
          expected);
    const Outcome endless = run(folder, "run /dev/stdin < /dev/zero");
    CHECK(endless.code == 2);
    CHECK(contains(endless.err, "it goes on after that"));
  }
}

TEST_SUITE("cli: results") {
  TEST_CASE("doctor names what is there") {
    const Folder folder;
    const Outcome outcome = run(folder, "doctor");
    CHECK(outcome.code == 0);
    for (const std::string part :
         {"backends", "simgrid 3.", "yaml-cpp", "memory", "small-tree", "toy", "tiny"}) {
      CAPTURE(outcome.out);
      CHECK_MESSAGE(contains(outcome.out, part), part);
    }
  }

  TEST_CASE("a topology is described and measured") {
    const Folder folder;
    CHECK(run(folder, "topology --list").out == "circle\nsmall-tree\nsmall-tree-thin\n");
    const Outcome outcome =
        run(folder, "topology small-tree --set accelerators=32 --set scale-out.oversubscription=3");
    CHECK(outcome.code == 0);
    CHECK(outcome.err == "");
    for (const std::string part :
         {"small-tree\n", "32 in 8 nodes", "rail-optimised", "oversubscription 3:1", "GB/s"}) {
      CAPTURE(outcome.out);
      CHECK_MESSAGE(contains(outcome.out, part), part);
    }
  }

  TEST_CASE("a topology goes out in formats of others; what they do not hold is said beside it") {
    const Folder folder;
    const Outcome graphml = run(folder, "topology small-tree --graphml -");
    CHECK(graphml.code == 0);
    CHECK(contains(graphml.out, "<graphml"));
    CHECK(graphml.err == "");
    const Outcome plain = run(
        folder, "topology small-tree --set scale-out.rail-optimised=false --graphml - --simgrid-xml p.xml");
    CHECK(plain.code == 0);
    CHECK(contains(plain.err, "--graphml: warning: the file does not hold the routes of "));
    CHECK(contains(plain.err, "for who reads it back here"));
    CHECK(run(folder, "topology p.xml").code == 0);
  }

  TEST_CASE("what show prints can be run and shown again") {
    const Folder folder;
    const Outcome first = run(folder, "show " + Tiny + " --set model.layers=2");
    REQUIRE(first.code == 0);
    folder.write("tiny-16.yaml", first.out);
    CHECK(run(folder, "show tiny-16.yaml").out == first.out);
  }

  TEST_CASE("run prints a table, or one JSON object with stable keys") {
    const Folder folder;
    const Outcome table = run(folder, "run " + Tiny);
    CHECK(table.code == 0);
    CHECK(table.err == "");
    CHECK(contains(table.out, "how fast is a tiny model on 16 toys?"));

    const Outcome json = run(folder, "run " + Tiny + " --json");
    REQUIRE(json.code == 0);
    const nlohmann::json object = nlohmann::json::parse(json.out);
    CHECK(object.at("step_time_s").get<double>() > 0);
    CHECK(object.at("tokens_per_s_per_accelerator").get<double>() > 0);
    CHECK(object.at("mfu").get<double>() > 0);
    CHECK(object.at("mfu").get<double>() < 1);
    CHECK(object.at("exposed_communication_s").get<double>() >= 0);
    CHECK(object.at("peak_memory_bytes").get<double>() > 0);
    CHECK(object.at("engine").at("wall_s").get<double>() > 0);
  }

  TEST_CASE("a folded run says how few ranks it simulated, and gives the same step") {
    const Folder folder;
    const auto whole = nlohmann::json::parse(run(folder, "run " + Tiny + " --json").out);
    const auto folded = nlohmann::json::parse(run(folder, "run " + Tiny + " --fold --json").out);
    CHECK(whole["ranks_simulated"] == 16);
    CHECK(folded["ranks_simulated"] == 1);
    CHECK(folded["step_time_s"].get<double>() ==
          doctest::Approx(whole["step_time_s"].get<double>()).epsilon(1e-9));
    CHECK(
        contains(run(folder, "run " + Tiny + " --fold").out, "folded: 1 of 16 ranks simulated, one a role"));
    const Outcome full = run(folder, "run " + Tiny + " --fold --detail full");
    CHECK(full.code == 2);
    CHECK(
        contains(full.err,
                 "tiny-16.yaml: error: full detail plays every transfer of every rank and cannot be folded"));
  }

  TEST_CASE("one microbatch a step has no other to run beside, and the run says so") {
    const Folder folder;
    const std::string batch = "run " + WithExperts + " --set sharding.kind=zero-1 --set moe.overlap=batch ";
    const std::string warning = "warning: moe.overlap is batch, and a rank has one microbatch a step";
    CHECK(contains(run(folder, batch + "--set batch.global=32").out, warning));
    const Outcome several = run(folder, batch + "--set batch.global=64");
    CHECK(several.code == 0);
    CHECK_FALSE(contains(several.out, warning));
  }

  TEST_CASE("a run tells how uneven its experts are and what that costs, folded or not") {
    const Folder folder;
    const Outcome outcome = run(folder, "run " + WithExperts);
    CHECK(outcome.err == "");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "Experts: a token goes to 2 of 16, shared by 8 ranks"));
    CHECK(contains(outcome.out, "routing: zipf 1.2\n"));
    CHECK(contains(outcome.out, "uneven tokens: a layer's fullest rank gets "));
    const nlohmann::json whole = nlohmann::json::parse(run(folder, "run " + WithExperts + " --json").out);
    const nlohmann::json folded =
        nlohmann::json::parse(run(folder, "run " + WithExperts + " --fold --json").out);
    CHECK(whole["expert_imbalance"].get<double>() > 1.2);
    CHECK(whole["expert_imbalance_max"] >= whole["expert_imbalance"]);
    CHECK(whole["expert_wait_s"].get<double>() > 0);
    CHECK(whole["experts"]["layers"].size() == 4);
    CHECK(whole["experts"]["layers"] == folded["experts"]["layers"]);
    CHECK(folded["ranks_simulated"] < whole["ranks_simulated"]);
    for (const char* key : {"work_s", "work_of_fullest_s", "wait_s", "longest_wait_s"})
      CHECK(folded["experts"][key].get<double>() ==
            doctest::Approx(whole["experts"][key].get<double>()).epsilon(0.01));
  }

  TEST_CASE("two runs give the same bytes but for the wall clock") {
    const Folder folder;
    const std::string command = "run " + Tiny + " --gantt --trace ";
    const Outcome first = run(folder, command + "a.json"), second = run(folder, command + "b.json");
    CHECK(first.code == 0);
    CHECK(contains(first.err, "trace written to a.json"));
    CHECK(read(folder / "a.json") == read(folder / "b.json"));
    CHECK(read(folder / "a.json").size() > 1000);
    CHECK(run(folder, "schedule " + Tiny).out == run(folder, "schedule " + Tiny).out);
  }

  TEST_CASE("a drawing that goes to a file has no colour and the asked width") {
    const Folder folder;
    const Outcome outcome = run(folder, "run " + Tiny + " --gantt --columns 60");
    CHECK(outcome.code == 0);
    CHECK_FALSE(contains(outcome.out, "\x1b["));
    CHECK(contains(outcome.out, "tiny-16\n"));
  }

  TEST_CASE("a pipeline without a model is drawn as its blocks") {
    const Folder folder;
    folder.write("p.yaml",
                 "version: 1\nname: p\npipeline: {schedule: 1f1b, stages: 2, microbatches: 2, forward: 10ms, "
                 "backward-input: 10ms, backward-weight: 10ms}\n");
    const Outcome outcome = run(folder, "run p.yaml --gantt --columns 45");
    CHECK(outcome.code == 0);
    // (m + p - 1)(F + B + W) = 90 ms in 45 - 8 columns: 4 for 10 ms.
    CHECK_MESSAGE(contains(outcome.out,
                           "\np\nrank 0  F0──F1──········B0══════····B1══════\n"
                           "rank 1  ····F0──B0══════F1──B1══════········\n"
                           "        0 s                 50 ms\n"),
                  outcome.out);
    // Transfers that take time, 10 ms here, have a row beside each rank.
    const Outcome slow = run(folder,
                             "run p.yaml --gantt --columns 60 --set pipeline.transfers=overlapped --set "
                             "pipeline.bytes=10MB --set pipeline.bandwidth=1GBps");
    CHECK_MESSAGE(contains(slow.out, "· idle, ▀ transfer\n"), slow.err);
  }

  TEST_CASE("several runs are shown side by side") {
    const Folder folder;
    std::string thin = read(Data + "/tiny-16.yaml");
    thin.replace(thin.find("small-tree"), 10, "small-tree-thin");
    folder.write("thin.yaml", thin);
    const Outcome table = run(folder, "run " + Tiny + " thin.yaml");
    CHECK(table.code == 0);
    CHECK(contains(table.out, "tiny-16"));
    CHECK(contains(table.out, "thin"));
    const Outcome json = run(folder, "run " + Tiny + " thin.yaml --json");
    CHECK(nlohmann::json::parse(json.out).at("runs").size() == 2);
  }

  TEST_CASE("a textbook pipeline runs, is shown and printed, and stands beside a training run") {
    const Folder folder;
    folder.write(
        "textbook.yaml",
        "version: 1\npipeline: {schedule: 1f1b, stages: 4, microbatches: 8, forward: 10ms, "
        "backward-input: 12ms, backward-weight: 7ms}\nexpect: {step-time: {value: 319ms, within: 1us}}\n");
    CHECK(run(folder, "run textbook.yaml").code == 0);
    const Outcome shown = run(folder, "show textbook.yaml");
    CHECK(contains(shown.out, "transfers: eager"));
    const Outcome beside = run(folder, "run " + Tiny + " textbook.yaml --json");
    REQUIRE(beside.code == 0);
    // (8 + 4 - 1) (10 + 12 + 7) ms
    CHECK(nlohmann::json::parse(beside.out).at("runs")[1].at("step_time_s") == doctest::Approx(0.319));
    folder.write("textbook.schedule", run(folder, "schedule textbook.yaml").out);
    const Outcome schedule = run(folder, "run textbook.schedule --topology small-tree --json");
    REQUIRE(schedule.code == 0);
    CHECK(nlohmann::json::parse(schedule.out).at("step_time_s") == doctest::Approx(0.319).epsilon(1e-3));
  }

  TEST_CASE("an expectation that does not hold gives exit code 1 and says so") {
    const Folder folder;
    CHECK(run(folder, "run " + Tiny + " --set expect.mfu.at-least=0").code == 0);
    const Outcome outcome = run(folder, "run " + Tiny + " --set expect.mfu.at-least=0.99");
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.err, "tiny-16: mfu is "));
    CHECK(contains(outcome.err, "expected at least 99.0 %"));
    CHECK(outcome.out != "");
  }

  TEST_CASE("a schedule that was printed runs to the same step time as its scenario") {
    const Folder folder;
    folder.write("step.schedule", run(folder, "schedule " + Tiny).out);
    const Outcome missing = run(folder, "run step.schedule");
    CHECK(missing.code == 2);
    CHECK(
        contains(missing.err,
                 "step.schedule: error: is a schedule, which does not say what it runs on; add --topology"));
    const Outcome small = run(folder, "run step.schedule --topology small-tree --device toy --set a=1");
    CHECK(small.code == 2);
    CHECK(contains(small.err, "--set changes scenarios only"));

    const Outcome schedule = run(folder, "run step.schedule --topology small-tree --device toy --json");
    REQUIRE(schedule.code == 0);
    const Outcome scenario = run(folder, "run " + Tiny + " --json");
    CHECK(nlohmann::json::parse(schedule.out).at("step_time_s") ==
          nlohmann::json::parse(scenario.out).at("step_time_s"));
  }

  TEST_CASE("a schedule that would deadlock is refused with who waits for whom") {
    const Folder folder;
    folder.write("d.schedule", Deadlock);
    const Outcome outcome = run(folder, "run d.schedule --topology small-tree");
    CHECK(outcome.code == 2);
    CHECK(contains(outcome.err, "d.schedule: error: "));
    CHECK(contains(outcome.err, "wait"));
  }
}
