// `syncline experts` and `syncline calibrate experts` as a user meets them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace syncline::test;
using nlohmann::json;

namespace {

const std::string Made = R"(version: 1
name: made
source: made up for tests
family: made
links: {inside: 400GBps, between: 50GBps}
kernels:
  - name: normal
    travel: two-hop
    figures:
      - {op: dispatch, call: 10us, inside: 300GBps, between: [{nodes: 2, rate: 50GBps}]}
      - {op: combine, call: 20us, inside: 300GBps, between: [{nodes: 2, rate: 50GBps}]}
)";

}  // namespace

TEST_SUITE("cli: experts") {
  TEST_CASE("a call by hand") {
    // 2 of 4 experts, one a rank, two ranks a node: 2 ranks and 2(1 − 1/6) = 5/3 nodes; 1 copy to another rank
    // of a node, 5/6 to another node. 1000 tokens of 2048 bytes: 2.048 MB inside take 6.827 us, 1.707 MB
    // between 34.133 us: together (6.827³ + 34.133³)^(1/3) = 34.224 us.
    const Folder folder;
    folder.write("made.yaml", Made);
    const std::string command =
        "experts --library made.yaml --ranks 4 --nodes 2 --tokens 1000 --hidden 1024 --top-k 2 --experts 4 "
        "--dispatch-precision bf16";
    const Outcome outcome = run(folder, command);
    CHECK(outcome.err == "");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out,
                   "# made, normal: 4 ranks on 2 nodes, 1000 tokens a rank, hidden 1024, top 2 of 4"));
    CHECK(contains(outcome.out, "# a token goes to 2.00 ranks of 1.67 nodes"));
    CHECK(contains(outcome.out,
                   "dispatch                         2.048         1.707         10.00         44.22"));
    const json object = json::parse(run(folder, command + " --json").out);
    CHECK(object["schema"] == 1);
    CHECK(object["operations"][1]["op"] == "combine");
    CHECK(object["operations"][1]["between_bytes"].get<double>() == doctest::Approx(2048e3 * 5 / 6));
    CHECK(object["operations"][1]["time_s"].get<double>() == doctest::Approx(54.224e-6).epsilon(1e-4));
  }

  TEST_CASE("a table is fitted, and predicted by what was fitted") {
    const Folder folder;
    folder.write("made.yaml", Made);
    folder.write("t.csv",
                 "library,kernel,gpu,ep_ranks,nodes,tokens_per_rank,hidden,topk,experts,op,time_us\n"
                 "Made,normal,X1,4,2,1000,1024,2,4,dispatch,40\n"
                 "Made,normal,X1,4,2,2000,1024,2,4,dispatch,60\n");
    const Outcome fitted = run(folder, "calibrate experts t.csv --library made.yaml --out fitted");
    CHECK(fitted.err == "");
    CHECK(fitted.code == 0);
    CHECK(contains(fitted.out, "made                    normal       dispatch                    2"));
    const std::string file = read(folder / "fitted/made.yaml");
    CHECK(contains(file, "measured: 2"));
    CHECK(!contains(file, "op: combine"));  // no row is of it
    CHECK(run(folder, "experts --library fitted/made.yaml --ranks 4 --nodes 2 --experts 4 --top-k 2").code ==
          0);
    CHECK(
        contains(run(folder, "calibrate experts t.csv --library made.yaml --hold-out").out, "mean |error|"));
  }

  TEST_CASE("what is wrong is told, with a way out") {
    const Folder folder;
    folder.write("made.yaml", Made);
    const std::string
        begin = "version: 1\nsource: made up\nfamily: made\nlinks: {inside: 400GBps, between: 50GBps}\n",
        dispatch = "figures: [{op: dispatch, call: 10us, inside: 300GBps";
    folder.write("kinds.yaml", begin +
                                   "name: kinds\nkernels:\n  - {name: inside, nodes: one, travel: two-hop, " +
                                   dispatch + "}]}\n  - {name: across, nodes: several, travel: two-hop, " +
                                   dispatch + ", between: [{nodes: 2, rate: 40GBps}]}]}\n");
    folder.write("links.yaml",
                 begin + "name: links\nkernels:\n  - {name: normal, travel: two-hop, " + dispatch + "}]}\n");
    CHECK(run(folder, "experts --library kinds.yaml --ranks 8 --nodes 2 --kernel across").code == 0);
    CHECK(run(folder, "experts --library links.yaml --ranks 8").code == 0);
    const std::string one = "experts --library made.yaml ";
    const BadRow rows[]{
        {"nothing", "experts", 2, "--library: error: name a library"},
        {"no ranks", one, 2, "--ranks: error: say how many ranks share the experts"},
        {"nodes", one + "--ranks 8 --nodes 3", 2, "8 ranks are no whole number on each of 3 nodes"},
        {"experts", one + "--ranks 8 --experts 12", 2, "12 experts are no whole number on each of 8 ranks"},
        {"top k", one + "--ranks 8 --experts 8 --top-k 9", 2, "9 experts of a token, out of 8"},
        {"kernel of one node", "experts --library kinds.yaml --ranks 8 --nodes 2 --kernel inside", 2,
         "--kernel: error: inside of kinds is for one node; give --nodes 1, or another kernel"},
        {"kernel of several nodes", "experts --library kinds.yaml --ranks 8 --kernel across", 2,
         "--kernel: error: across of kinds is for several nodes; give --nodes 2 or more, or another kernel"},
        {"no rates between nodes", "experts --library links.yaml --ranks 8 --nodes 2", 2,
         "--nodes: error: normal of links has no rates between nodes; give --nodes 1"},
        {"more SMs than there are", one + "--ranks 8 --sms 305", 2, "--sms"},
        {"kernel", one + "--ranks 8 --kernel norml", 2, "did you mean \"normal\"?"},
        {"precision", one + "--ranks 8 --dispatch-precision fp9", 2, "unknown precision \"fp9\""},
        {"library", "experts --library missing.yaml --ranks 8", 2, "missing.yaml"},
        {"table", "experts --table missing.csv", 2, "missing.csv"}};
    for (const BadRow& row : rows) {
      CAPTURE(row.name);
      const Outcome outcome = run(folder, row.arguments);
      CAPTURE(outcome.err);
      CHECK(outcome.code == row.code);
      CHECK(contains(outcome.err, row.err));
      CHECK(outcome.out == "");
    }
  }
}
