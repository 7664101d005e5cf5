// Logs of nccl-tests in the layouts that people have them in.
#include "sim/calibrate/nccl_log.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/calibrate/fabric_fit.hpp"

namespace syncline::calibrate {
namespace {

const std::string Devices =
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid     25 on node1 device  0 [0x53] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid     26 on node1 device  1 [0x64] NVIDIA H100 80GB HBM3\n"
    "#  Rank  2 Group  0 Pid     25 on node2 device  0 [0x53] NVIDIA H100 80GB HBM3\n"
    "#  Rank  3 Group  0 Pid     26 on node2 device  1 [0x64] NVIDIA H100 80GB HBM3\n";
const std::string Begin =
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20\n#\n";
const std::string Heading =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   "
    "busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
    "(GB/s)\n";
// 4 MiB in 100 us: 41.94 GB/s; 1.5 times that among 4
const std::string Row =
    "     4194304       1048576     float     sum      -1    100.0   41.94   62.91      0    102.0   41.12   "
    "61.68      0\n";
const std::string End = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 62.2\n#\n";

TEST_CASE("a plain log: its ranks, nodes, devices and rows") {
  const NcclLog log = read_nccl_logs("# Collective test starting: all_reduce_perf\n" + Begin + Devices +
                                         "NCCL version 2.22.3+cuda12.2\n" + Heading + Row + End,
                                     "a.log");
  REQUIRE(log.runs.size() == 1);
  const NcclRun& run = log.runs[0];
  CHECK(run.op == NcclOp::AllReduce);
  CHECK(run.ranks == 4);
  CHECK(run.nodes == 2);
  CHECK(run.per_node == 2);
  CHECK(run.devices == std::vector<std::string>{"NVIDIA H100 80GB HBM3"});
  CHECK(run.library == "NCCL");
  CHECK(run.version == "2.22.3");
  CHECK(run.complete);
  CHECK(run.warnings.empty());
  REQUIRE(run.rows.size() == 1);
  const NcclRow& row = run.rows[0];
  CHECK(row.size == Bytes(4194304));
  CHECK(row.count == 1048576);
  CHECK(row.datatype == "float");
  CHECK(row.redop == "sum");
  CHECK(row.root == -1);
  CHECK(row.line == 12);
  CHECK(row.out_of_place.time.si() == doctest::Approx(100e-6));
  CHECK(row.out_of_place.busbw.si() == doctest::Approx(62.91e9));
  REQUIRE(row.in_place);
  CHECK(row.in_place->time.si() == doctest::Approx(102e-6));
}

TEST_CASE("the same row in every disguise") {
  struct Case {
    const char* name;
    std::string row;
  };
  for (const Case& one : {
           Case{"as it is", Row},
           {"no root column, errors not checked",
            "     4194304       1048576   float     sum    100.0   41.94   62.91    N/A    102.0   41.12   "
            "61.68    N/A\n"},
           {"tagged by mpirun", "[1,0]<stdout>:" + Row},
           {"tagged in the middle",
            "[1,0]<stdout>:     4194304       1048576     float     sum      -1[1,0]<stdout>:    100.0   "
            "41.94   62.91      0"
            "[1,0]<stdout>:    102.0   41.12   61.68      0\n"},
           {"broken in the middle, with a message of the library between",
            "     4194304       1048576     float     sum      -1node1:25:25 [0] NCCL INFO comm 0x5\n"
            "node2:26:26 [1] NCCL INFO Channel 00 : 1[1] -> 0[0]\n"
            "    100.0   41.94   62.91      0    102.0   41.12   61.68      0\n"},
           {"labelled by srun", "0: " + Row},
           {"quoted in Markdown", "> " + Row},
           {"with the line ends of Windows", Row.substr(0, Row.size() - 1) + "\r\n"},
       }) {
    CAPTURE(std::string(one.name));
    const bool rooted = one.row.find("-1") != std::string::npos;
    const NcclLog log =
        read_nccl_logs(Begin + Devices + (rooted ? Heading : "") + one.row + End, "all_reduce.log");
    REQUIRE(log.runs.size() == 1);
    REQUIRE(log.runs[0].rows.size() == 1);
    CHECK(log.runs[0].rows[0].out_of_place.time.si() == doctest::Approx(100e-6));
    REQUIRE(log.runs[0].rows[0].in_place);
    CHECK(log.runs[0].rows[0].in_place->busbw.si() == doctest::Approx(61.68e9));
    CHECK(log.runs[0].warnings.empty());
  }
}

TEST_CASE("runs of one rank are told from one run of many, and no cost is taken from them") {
  const auto process = [](const std::string& pid, const std::string& device) {
    return Begin + "# Using devices\n#  Rank  0 Group  0 Pid " + pid + " on nodea device  " + device + "\n" +
           Heading +
           "     1048576        262144     float     sum      -1     5.10   205.6    0.00      0     5.12   "
           "204.8    0.00      0\n" +
           End;
  };
  // One after another, and printed into each other.
  const std::string first = process("101", "0"), second = process("102", "1");
  const std::size_t half = first.find("#  Rank");
  const std::string mixed =
      first.substr(0, half) + second.substr(0, half) + first.substr(half) + second.substr(half);
  for (const std::string& text : {first + second, mixed}) {
    const NcclLog log = read_nccl_logs(text, "a9.log");
    CHECK(log.runs.size() == 2);
    for (const NcclRun& run : log.runs) CHECK(run.ranks == 1);
    REQUIRE(log.warnings.size() == 1);
    CHECK(log.warnings[0].find("2 separate runs of 1 rank") == 0);
    CHECK_THROWS_WITH_AS(static_cast<void>(fabric_rows(log)), doctest::Contains("2 separate runs of 1 rank"),
                         InputError);
  }
}

TEST_CASE("a printed busbw that does not follow from size and time is pointed out") {
  const std::string wrong =
      "     4194304       1048576     float     sum      -1    100.0   41.94   41.94      0    102.0   41.12 "
      "  41.12      0\n";
  const NcclLog log = read_nccl_logs(Begin + Devices + Heading + Row + wrong + End, "all_reduce.log");
  REQUIRE(log.runs.size() == 1);
  REQUIRE(log.runs[0].warnings.size() == 1);
  CHECK(log.runs[0].warnings[0] ==
        "1 of 2 rows print another busbw than all_reduce among 4 ranks has by its size and time, the first "
        "in line 11");
}

TEST_CASE("a log that breaks off says so, and keeps the rows that are whole") {
  const NcclLog log = read_nccl_logs(Begin + Devices + Heading + Row + Row.substr(0, 70), "all_reduce.log");
  REQUIRE(log.runs.size() == 1);
  CHECK(log.runs[0].rows.size() == 1);
  CHECK_FALSE(log.runs[0].complete);
  CHECK(log.runs[0].warnings ==
        std::vector<std::string>{"1 row is broken off and left out",
                                 "cut off after 1 rows: the closing average is missing"});
}

TEST_CASE("an op that is not named is told by its bandwidths where they tell") {
  const NcclLog log = read_nccl_logs(Begin + Devices + Heading + Row + End, "log.txt");
  REQUIRE(log.runs.size() == 1);
  CHECK(log.runs[0].op == NcclOp::AllReduce);  // 62.91 / 41.94 = 2 · 3/4
  REQUIRE(log.runs[0].warnings.size() == 1);
  CHECK(log.runs[0].warnings[0] ==
        "the log does not say which collective this is; all_reduce by its busbw / algbw");
}

TEST_CASE("text that is no log is no log") {
  for (const std::string text : {"", "\n\n", "hello", "{\"a\": 1}", "1 2 3 4 5 6 7 8 9", "\xff\xfe\x00"}) {
    const NcclLog log = read_nccl_logs(text, "x");
    CHECK(log.runs.empty());
    CHECK(log.warnings == std::vector<std::string>{"no table of nccl-tests found"});
  }
}

// --- public logs ---

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

const std::filesystem::path RawLogs =
    std::filesystem::path(SYNCLINE_SOURCE_DIR) / "../shared/data/published/raw_logs";

TEST_CASE("public logs of seven layouts are read whole") {
  if (!std::filesystem::exists(RawLogs)) {
    MESSAGE("skipped: the public logs are not beside the source tree");
    return;
  }
  struct Case {
    std::string file;
    std::vector<NcclOp> ops;
    int ranks, nodes;
    std::size_t rows;  // of each run
    std::string version;
    bool complete;
  };
  using enum NcclOp;
  for (const Case& one : {
           Case{"a100_1node_8gpu_all_reduce.log", {AllReduce}, 8, 1, 34, "", true},
           {"a100_128node_512gpu_slingshot_all_reduce.log", {AllReduce}, 512, 128, 29, "", true},
           {"h100_1node_8gpu_readme_sample.log", {AllReduce}, 8, 1, 32, "", true},
           {"h100_2node_efa_mpi_tagged_debug.log", {AllReduce}, 16, 2, 32, "2.22.3", true},
           {"h100_2node_tcpxo_markdown.md", {AllReduce}, 16, 2, 31, "", true},
           {"mi300x_2node_16gpu_rccl.log", {AllReduce}, 16, 2, 32, "2.22.3", true},
           {"h100_10node_80gpu_five_ops.log",
            {AllReduce, AllGather, ReduceScatter, AllToAll, SendReceive},
            80,
            10,
            10,
            "2.29.2",
            true},
       }) {
    CAPTURE(one.file);
    const NcclLog log = read_nccl_logs(content_of(RawLogs / one.file), one.file);
    CHECK(log.warnings.empty());
    REQUIRE(log.runs.size() == one.ops.size());
    for (std::size_t i = 0; i < log.runs.size(); ++i) {
      const NcclRun& run = log.runs[i];
      CAPTURE(i);
      CHECK(run.op == one.ops[i]);
      CHECK(run.ranks == one.ranks);
      CHECK(run.nodes == one.nodes);
      CHECK(run.per_node == one.ranks / one.nodes);
      CHECK(run.rows.size() == one.rows);
      CHECK(run.version == one.version);
      CHECK(run.complete == one.complete);
      for (const std::string& warning : run.warnings)
        CHECK(warning.find("does not say which collective") != std::string::npos);
    }
  }
}

TEST_CASE("public logs cut and damaged anywhere are read as far as they go") {
  if (!std::filesystem::exists(RawLogs)) {
    MESSAGE("skipped: the public logs are not beside the source tree");
    return;
  }
  constexpr std::size_t Cuts = 60;
  for (const auto& entry : std::filesystem::directory_iterator(RawLogs)) {
    CAPTURE(entry.path().string());
    const std::string text = content_of(entry.path());
    const NcclLog whole = read_nccl_logs(text, "all_reduce.log");
    std::size_t rows = 0;
    for (std::size_t i = 1; i <= Cuts; ++i) {
      // Ever nearer to the end, where the tables are.
      const std::size_t length = text.size() - text.size() * (Cuts - i) * (Cuts - i) / (Cuts * Cuts);
      const NcclLog log = read_nccl_logs(text.substr(0, length), "all_reduce.log");
      std::size_t found = 0;
      for (const NcclRun& run : log.runs) {
        found += run.rows.size();
        for (const NcclRow& row : run.rows) CHECK(row.out_of_place.time > Seconds(0));
      }
      CHECK(found >= rows);  // more text, no fewer rows
      rows = found;
    }
    std::size_t all = 0;
    for (const NcclRun& run : whole.runs) all += run.rows.size();
    CHECK(rows == all);
    std::string damaged = text;
    for (std::size_t i = 7; i < damaged.size(); i += 101) damaged[i] = static_cast<char>(i % 256);
    CHECK_NOTHROW(static_cast<void>(read_nccl_logs(damaged, "all_reduce.log")));
  }
}

}  // namespace
}  // namespace syncline::calibrate
