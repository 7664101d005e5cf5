// `syncline collective` as a user meets it.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace syncline::test;
using nlohmann::json;

namespace {

/// Eight on an ideal switch: links of 50 GB/s, hops of 2 us.
const std::string Star = R"(version: 1
name: star
source: made up for tests
accelerators: 8
accelerators-per-node: 1
scale-out: {kind: all-to-all, fabric: ideal-switch, link: {bandwidth: 50GBps, latency: 1us}}
)";

/// One run of two ranks, as nccl-tests prints it.
const std::string Header =
    R"(# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
)";
const std::string Columns = R"(#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
)";

}  // namespace

TEST_SUITE("cli: collective") {
  TEST_CASE("the table has nccl-tests' columns, by hand") {
    // Ring all-reduce of 8: 14 (2 us + S/8 / 50 GB/s): 8 MB take 28 + 280 us; algbw 8e6 / 308e-6 = 25.97
    // GB/s, busbw 2·7/8 of it; in elements of 4 bytes.
    const Folder folder;
    folder.write("star.yaml", Star);
    const Outcome outcome = run(folder, "collective --topology star.yaml --algorithm ring --sizes 8MB,80MB");
    CHECK(outcome.err == "");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.out, "# star, all-reduce among 8 ranks\n"));
    CHECK(
        contains(outcome.out, "       8000000       2000000  float       308.00     25.97     45.45  ring "));
    CHECK(
        contains(outcome.out, "      80000000      20000000  float      2828.00     28.29     49.50  ring "));
  }

  TEST_CASE("groups of consecutive and of strided ranks, as JSON") {
    const Folder folder;
    folder.write("star.yaml", Star);
    for (const std::string groups :
         {"--group-size 4", "--groups 2", "--group-size 4 --strided", "--groups 2 --stride 2"}) {
      CAPTURE(groups);
      const Outcome outcome =
          run(folder, "collective --topology star.yaml --kind all-gather --algorithm ring --sizes 4MB " +
                          groups + " --json --loads 2");
      REQUIRE(outcome.code == 0);
      const json object = json::parse(outcome.out);
      CHECK(object["schema"] == 1);
      CHECK(object["ranks"] == 4);
      CHECK(object["groups"] == 2);
      CHECK(object["loads"].size() == 2);
      const json& row = object["rows"][0];
      CHECK(row["time_s"].get<double>() == doctest::Approx(3 * (2e-6 + 1e6 / 50e9)));  // nothing is shared
      CHECK(row["count"] == 250000);                                                   // of one rank
      CHECK(row["busbw_bytes_per_s"].get<double>() == doctest::Approx(4e6 / 66e-6 * 0.75));
      CHECK(row["algorithm"] == "ring");
      CHECK(row["busiest_link_bytes"].get<double>() == doctest::Approx(3e6));
    }
  }

  TEST_CASE("both details and SimGrid's own network agree on a ring") {
    const Folder folder;
    folder.write("star.yaml", Star);
    const std::string command = "collective --topology star.yaml --algorithm ring --sizes 8MB ";
    const std::string expected = run(folder, command).out;
    CHECK(run(folder, command + "--detail full").out == expected);
    CHECK(run(folder, command + "--detail full --network native").out == expected);
  }

  TEST_CASE("a log is put beside what is predicted") {
    // Two ranks: all-reduce of 1 MiB in 2 (2 us + 512 KiB / 50 GB/s) = 24.97 us, of 2 MiB in 45.94 us.
    const Folder folder;
    folder.write("star.yaml", Star);
    folder.write("all_reduce.log", Header +
                                       "#  Rank  0 Group  0 Pid 101 on nodea device  0 [0x00] H100\n"
                                       "#  Rank  1 Group  0 Pid 102 on nodeb device  0 [0x00] H100\n" +
                                       Columns +
                                       "     1048576        262144     float     sum      -1    25.00   "
                                       "41.94   41.94      0    25.00   41.94   41.94      0\n"
                                       "     2097152        524288     float     sum      -1    50.00   "
                                       "41.94   41.94      0    50.00   41.94   41.94      0\n");
    const Outcome outcome = run(folder, "collective --topology star.yaml --compare all_reduce.log --json");
    CHECK(outcome.err == "");
    REQUIRE(outcome.code == 0);
    const json object = json::parse(outcome.out);
    REQUIRE(object["rows"].size() == 2);
    CHECK(object["rows"][0]["predicted_s"].get<double>() == doctest::Approx(24.97152e-6));
    CHECK(object["rows"][0]["measured_s"].get<double>() == doctest::Approx(25e-6));
    CHECK(object["systems"][0]["from_1_mib"]["rows"] == 2);
    CHECK(object["systems"][0]["from_1_mib"]["mean_absolute_error"].get<double>() ==
          doctest::Approx((1 - 24.97152 / 25 + 1 - 45.94304 / 50) / 2));
    CHECK(object["systems"][0]["below_1_mib"]["rows"] == 0);
    CHECK(contains(run(folder, "collective --topology star.yaml --compare all_reduce.log").out,
                   "from 1 MiB     2 rows"));
  }

  TEST_CASE("runs of one rank each are told, and nothing is compared with them") {
    const Folder folder;
    folder.write("star.yaml", Star);
    std::string log;
    for (const char* pid : {"101", "102"})
      log += Header + "#  Rank  0 Group  0 Pid " + pid + " on nodea device  0 [0x00] H100\n" + Columns +
             "     1048576        262144     float     sum      -1     5.10  205.60    0.00      0     5.10  "
             "205.60    0.00      0\n";
    folder.write("single.log", log);
    const Outcome outcome = run(folder, "collective --topology star.yaml --compare single.log");
    CHECK(outcome.code == 2);
    CHECK(outcome.out == "");
    CHECK(contains(outcome.err, "2 separate runs of 1 rank"));
  }

  TEST_CASE("bad input") {
    const Folder folder;
    folder.write("star.yaml", Star);
    const std::vector<BadRow> rows{
        {"no topology", "collective", 2, "--topology: error: name a topology of the catalogue, or a file"},
        {"a kind that is none", "collective --topology star.yaml --kind all-redcue", 2,
         "did you mean \"all-reduce\"?"},
        {"an algorithm that cannot",
         "collective --topology star.yaml --kind gather --algorithm ring --sizes 1MB", 2,
         "gather cannot go by ring; it goes by direct, recursive"},
        {"sizes without a unit", "collective --topology star.yaml --sizes 8:64:x2", 2, "--sizes: error: "},
        {"a factor of one", "collective --topology star.yaml --sizes 8B:64B:x1", 2,
         "a factor of 1 leads nowhere"},
        {"sizes that fall", "collective --topology star.yaml --sizes 64B:8B:x2", 2, "8B is less than 64B"},
        {"a rank twice", "collective --topology star.yaml --ranks 0-3,2", 2, "rank 2 stands in it twice"},
        {"ranks backwards", "collective --topology star.yaml --ranks 3-1", 2,
         "\"3-1\" ends before it begins"},
        {"groups that do not divide", "collective --topology star.yaml --group-size 3", 2,
         "8 is no multiple of 3"},
        {"a group of one", "collective --topology star.yaml --group-size 1", 2,
         "--group-size: error: one rank alone has nobody to talk to"},
        {"one rank", "collective --topology star.yaml --ranks 3", 2,
         "--ranks: error: one rank alone has nobody to talk to"},
        {"ranks beyond what was asked for",
         "collective --topology star.yaml --set accelerators=4 --ranks 0-7", 2,
         "rank 7 is beyond the 4 accelerators of star"},
        {"no ranks at all", "collective --topology star.yaml --ranks ''", 2,
         "--ranks: error: a rank is missing; expected ranks as in 0-63 or 0,8,16-23"},
        {"a rank below none", "collective --topology star.yaml --ranks=-1", 2,
         "\"-1\" is no rank; ranks count from 0"},
        {"more ranks than are built", "collective --topology star.yaml --ranks 0-1000000", 2,
         "--ranks: error: 1000000 is no rank; expected 0 to 262143"},
        {"a rank missing", "collective --topology star.yaml --ranks 1-", 2, "a rank is missing"},
        {"groups of nobody", "collective --topology star.yaml --group-size 0", 2, "--group-size"},
        {"groups below none", "collective --topology star.yaml --group-size=-2", 2, "--group-size"},
        {"no groups", "collective --topology star.yaml --groups 0", 2, "--groups"},
        {"no stride", "collective --topology star.yaml --group-size 2 --stride 0", 2, "--stride"},
        {"no loads", "collective --topology star.yaml --loads 0", 2, "--loads"},
        {"a part of a byte", "collective --topology star.yaml --sizes 0.5B", 2,
         "\"0.5B\" is no whole number of bytes"},
        {"a step by parts of bytes", "collective --topology star.yaml --sizes 8B:64B:+1.5B", 2,
         "\"1.5B\" is no whole number of bytes"},
        {"more bytes than there are", "collective --topology star.yaml --sizes 8B:2e18B:x8", 2,
         "\"2e18B\" is beyond 1000000 TB"},
        {"pieces of a ring", "collective --topology star.yaml --algorithm ring --chunks 4 --sizes 1MB", 2,
         "--chunks: error: all-reduce by ring does not go in rounds, so that pieces of it change nothing"},
        {"a native network in aggregate detail",
         "collective --topology star.yaml --network native --sizes 1MB", 2, "ask for full detail"}};
    check_refused(folder, rows);
  }

  TEST_CASE("pieces of what auto chooses are warned of where they change nothing") {
    const Folder folder;
    folder.write("star.yaml", Star);
    // Much is broadcast along a chain, in pieces of its own.
    const Outcome whole =
        run(folder, "collective --topology star.yaml --kind broadcast --sizes 1GB --chunks 4");
    CHECK(whole.code == 0);
    CHECK(contains(whole.err, "--chunks: warning: changes nothing at 1 of 1 sizes"));
    const Outcome pieces =
        run(folder,
            "collective --topology star.yaml --kind all-reduce --algorithm recursive --sizes 1MB --chunks 4");
    CHECK(pieces.code == 0);
    CHECK(pieces.err == "");
  }

  TEST_CASE("sizes by a factor are whole bytes, and counts are no more whole than they are") {
    // 8, 12, 18, 27, 40.5 and 60.75 B; each of 8 ranks has S/8, in floats of 4 B.
    const Folder folder;
    folder.write("star.yaml", Star);
    const Outcome outcome =
        run(folder, "collective --topology star.yaml --kind all-gather --sizes 8B:64B:x1.5 --json");
    REQUIRE(outcome.code == 0);
    std::vector<double> sizes;
    const json object = json::parse(outcome.out);
    for (const json& row : object["rows"]) sizes.push_back(row["size_bytes"].get<double>());
    CHECK(sizes == std::vector<double>{8, 12, 18, 27, 40, 60});
    CHECK(contains(run(folder, "collective --topology star.yaml --kind all-gather --sizes 8B").out,
                   " 8         0.250  float"));
  }

  TEST_CASE("large jobs are quick") {
    // All-to-all among 1,024 ranks; 256 concurrent rings of 64 on 16,384 ranks behind a 2:1 fat tree of three
    // levels.
    const Folder folder;
    folder.write("nodes.yaml", R"(version: 1
name: nodes
source: made up for tests
accelerators: 1024
accelerators-per-node: 8
scale-up: {kind: switch, link: {bandwidth: 400GBps, latency: 1us}}
nic: {per-node: 8, host-bus: {bandwidth: 64GBps, latency: 0.5us}}
scale-out: {kind: fat-tree, radix: 64, oversubscription: [2], link: {bandwidth: 400Gbps, latency: 1us}}
)");
    const Outcome exchange = run(folder, "collective --topology nodes.yaml --kind all-to-all --sizes 64MiB");
    CHECK(exchange.code == 0);
    CHECK(exchange.cpu_seconds < 1.5);
    const Outcome rings = run(
        folder,
        "collective --topology nodes.yaml --ranks 0-16383 --group-size 64 --algorithm ring --sizes 64MiB");
    CHECK(rings.code == 0);
    CHECK(rings.cpu_seconds < 3);
  }
}
