// Measured dispatch and combine: whose a row is, what it says, and figures found again in rows made of them.
#include "sim/calibrate/expert_fit.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tests/config/fixture.hpp"

namespace syncline::calibrate {
namespace {

using namespace literals;

const std::string Shared = SYNCLINE_SOURCE_DIR "/../shared/data/published/moe_alltoall.csv";
const std::string ExpertHeader =
    "id,library,kernel,gpu,ep_ranks,nodes,tokens_per_rank,hidden,topk,experts,dispatch_dtype,sms,op,time_us,"
    "bandwidth_gbps,bandwidth_kind\n";

const std::string Made = R"(version: 1
name: made
source: made up for tests
family: made
rows: {library: "^Made$", gpu: "^X1"}
stands-for: "^X"
links: {inside: 400GBps, between: 50GBps}
benchmark: {tokens: 1000, hidden: 1024, top-k: 2, experts: 8}
kernels:
  - {name: intranode, rows: "^normal", nodes: one, travel: two-hop, lanes: sms, sms: 20}
  - {name: internode, rows: "^normal", nodes: several, travel: two-hop, lanes: sms, sms: 20}
  - {name: low-latency, rows: "^ll", travel: direct}
)";

std::vector<ExpertLibrary> libraries_of(const std::string& yaml) {
  const test::Folder folder;
  return {load_expert_library(folder.write("made.yaml", yaml))};
}

ExpertTable read_rows(const std::string& lines, const std::vector<ExpertLibrary>& libraries) {
  return read_expert_rows(CsvTable::parse(ExpertHeader + lines, "t.csv"), libraries);
}

TEST_CASE("a row belongs to a library, or to one that stands in for its GPU") {
  const std::vector<ExpertLibrary> libraries = libraries_of(Made);
  struct Row {
    const char *name, *line, *kernel;
    bool stands_in;
  };
  for (const Row& row :
       {Row{"one node", "a,Made,normal,X1,8,1,64,,,,fp8,,dispatch,50,,", "intranode", false},
        Row{"two", "a,Made,normal,X1,8,2,64,,,,fp8,,dispatch,50,,", "internode", false},
        Row{"another kernel", "a,Made,ll,X1 SXM,8,2,64,,,,fp8,,dispatch,50,,", "low-latency", false},
        Row{"another GPU", "a,Made,normal,X2,8,1,64,,,,fp8,,dispatch,50,,", "intranode", true}}) {
    CAPTURE(row.name);
    const ExpertTable table = read_rows(std::string(row.line) + "\n", libraries);
    REQUIRE(table.rows.size() == 1);
    CHECK(libraries[0].kernels[table.rows[0].kernel].name == row.kernel);
    CHECK(table.rows[0].stands_in == row.stands_in);
  }
  const ExpertTable none = read_rows(
      "a,Made,normal,Y1,8,1,64,,,,,,dispatch,50,,\n"
      "b,Other,normal,X1,8,1,64,,,,,,dispatch,50,,\n"
      "c,Made,normal,X1,8,1,64,,,,,,dispatch,,,\n",
      libraries);
  CHECK(none.rows.empty());
  CHECK(none.left_out == std::vector<std::string>{"1 row: neither a time nor a bandwidth",
                                                  "1 row: no library of Made normal on Y1",
                                                  "1 row: no library of Other normal on X1"});
}

TEST_CASE("what a row leaves out is as in the benchmark, and a bandwidth becomes a time by what it counts") {
  const std::vector<ExpertLibrary> libraries = libraries_of(Made);
  // 2 of 8 experts, one a rank: 2 ranks; of 28 pairs 6 miss a node: 11/7 nodes. fp8 of 1024: 1024 + 32 bytes.
  struct Row {
    const char *name, *line;
    double measured, copies;
  };
  for (const Row& row :
       {Row{"time", "a,Made,normal,X1,8,2,,,,,,,dispatch,50,1,RDMA", 50e-6, 2000},
        Row{"RDMA", "a,Made,normal,X1,8,2,,,,,,,dispatch,,10,RDMA", 1000 * 11.0 / 7 * 1056 / 10e9, 2000},
        Row{"NVLink", "a,Made,normal,X1,8,2,,,,,,,dispatch,,10,NVLink", 1000 * 2 * 1056 / 10e9, 2000},
        Row{"each copy", "a,Made,ll,X1,8,2,,,,,,,dispatch,,10,RDMA", 1000 * 2 * 1056 / 10e9, 2000},
        Row{"combine in bf16", "a,Made,normal,X1,8,1,,,,,,,combine,,10,NVLink", 1000 * 2 * 2048 / 10e9, 2000},
        Row{"stated", "a,Made,normal,X1,8,1,10,100,1,16,bfloat16,,dispatch,,10,NVLink", 10 * 200 / 10e9,
            10}}) {
    CAPTURE(row.name);
    const ExpertTable table = read_rows(std::string(row.line) + "\n", libraries);
    REQUIRE(table.rows.size() == 1);
    CHECK(table.rows[0].measured.si() == doctest::Approx(row.measured));
    CHECK(table.rows[0].load.copies == doctest::Approx(row.copies));
  }
  CHECK(read_rows("a,Made,normal,X1,8,1,,,,,,,dispatch,50,,\n", libraries).rows[0].load.lanes == 20);
  CHECK(read_rows("a,Made,normal,X1,8,1,,,,,,8,dispatch,50,,\n", libraries).rows[0].load.lanes == 8);
  CHECK(read_rows("a,Made,ll,X1,8,1,,,,,,8,dispatch,50,,\n", libraries).rows[0].load.lanes == 0);
  CHECK(read_rows("a,Made,normal,X1,8,1,,,,,,,prepare,50,,\n", libraries).rows[0].load.inside == Bytes(0));
}

TEST_CASE("bad rows are refused with the place") {
  const std::vector<ExpertLibrary> libraries = libraries_of(Made);
  struct Row {
    const char *name, *line, *message;
  };
  for (const Row& row :
       {Row{"an op", "a,Made,ll,X1,8,1,,,,,,,dispach,50,,",
            "t.csv:2: error: unknown op \"dispach\"; did you mean \"dispatch\"?"},
        Row{"a number", "a,Made,ll,X1,8,1,ten,,,,,,dispatch,50,,",
            "t.csv:2: error: column \"tokens_per_rank\" is \"ten\", expected a number above 0"},
        Row{"no whole number", "a,Made,ll,X1,8,1,1.5,,,,,,dispatch,50,,", "expected a whole number"},
        Row{"ranks", "a,Made,ll,X1,,1,1,,,,,,dispatch,50,,", "column \"ep_ranks\" is empty"},
        Row{"nodes", "a,Made,ll,X1,8,3,1,,,,,,dispatch,50,,",
            "8 ranks are no whole number on each of 3 nodes"},
        Row{"precision", "a,Made,ll,X1,8,1,1,,,,fp9,,dispatch,50,,", "unknown dispatch_dtype \"fp9\""},
        Row{"top k", "a,Made,ll,X1,8,1,1,,9,8,,,dispatch,50,,", "9 experts chosen out of 8"}}) {
    CAPTURE(row.name);
    const std::string message =
        test::message_of([&] { static_cast<void>(read_rows(std::string(row.line) + "\n", libraries)); });
    CAPTURE(message);
    CHECK(message.find(row.message) != std::string::npos);
  }
  const std::string message = test::message_of(
      [&] { static_cast<void>(read_expert_rows(CsvTable::parse("library,gpu\n", "t.csv"), libraries)); });
  CHECK(message.find("t.csv:1: error: there is no column kernel") != std::string::npos);
}

/// Rows of a kernel with these figures, over one to eight nodes, SMs and tokens: 24 for each number of nodes.
std::string made_rows(const ExpertLibrary& library, const moe::DispatchFigures& figures, std::size_t kernel) {
  std::string lines;
  const std::vector<ExpertLibrary> one{library};
  for (const int nodes : {1, 2, 4, 8})
    for (const int sms : {4, 8, 16, 24})
      for (int tokens = 64; tokens <= 65536; tokens *= 4) {
        const std::string line = fmt::format("a,Made,{},X1,{},{},{},7168,8,256,fp8,{},dispatch,",
                                             kernel == 2 ? "ll" : "normal", 8 * nodes, nodes, tokens, sms);
        const ExpertTable table = read_rows(line + "1,,\n", one);
        if (table.rows[0].kernel != kernel) continue;
        const double time = moe::dispatch_time(figures, table.rows[0].load).total().si();
        lines += line + fmt::format("{:.6g},,\n", time * 1e6);
      }
  return lines;
}

TEST_CASE("figures are found again in rows made from them") {
  moe::DispatchFigures figures;
  figures.call = 40_us;
  figures.rank = 150_ns;
  figures.node = 6_us;
  figures.expert = 20_ns;
  figures.token = 3_ns;
  figures.copy = 150_ns;
  figures.lane = 15_GBps;
  figures.inside = 250_GBps;
  figures.between = {{2, 40_GBps}, {4, 45_GBps}, {8, 20_GBps}};
  for (const std::size_t kernel : {0, 1, 2}) {
    CAPTURE(kernel);
    std::vector<ExpertLibrary> libraries = libraries_of(Made);
    const ExpertTable table = read_rows(made_rows(libraries[0], figures, kernel), libraries);
    fit_experts(libraries, table.rows);
    REQUIRE(libraries[0].kernels[kernel].figures.size() == 1);
    const OperationFigures& found = libraries[0].kernels[kernel].figures[0];
    CHECK(found.measured == static_cast<int>(table.rows.size()));
    CHECK(found.error < 0.02);
    for (const ExpertRow& row : table.rows)
      CHECK(*predict(row, libraries) / row.measured == doctest::Approx(1).epsilon(0.1));
    // figures are within what their file says: no rate above the link's
    REQUIRE(found.figures.inside);
    CHECK(*found.figures.inside <= libraries[0].link_inside);
    for (const moe::NodeRate& rate : found.figures.between) CHECK(rate.rate <= libraries[0].link_between);
    // what was left out is predicted by the rest
    const auto held_out = predict_held_out(libraries, table.rows);
    double error = 0;
    for (std::size_t i = 0; i < held_out.size(); ++i)
      error += std::abs(*held_out[i] / table.rows[i].measured - 1) / static_cast<double>(held_out.size());
    CHECK(error < 0.25);
  }
}

TEST_CASE("a library's file reads back as it was, and what is wrong in one has its place") {
  std::vector<ExpertLibrary> libraries = libraries_of(Made);
  moe::DispatchFigures figures;
  figures.call = 40_us;
  figures.lane = 15_GBps;
  const ExpertTable table = read_rows(made_rows(libraries[0], figures, 0), libraries);
  fit_experts(libraries, table.rows);
  const std::string text = show_expert_library(libraries[0]);
  const std::vector<ExpertLibrary> again = libraries_of(text);
  CHECK(show_expert_library(again[0]) == text);
  CHECK(*predict(table.rows[0], again) == *predict(table.rows[0], libraries));

  const test::Folder folder;
  const auto message = [&](std::string yaml, const std::string& from, const std::string& to) {
    yaml.replace(yaml.find(from), from.size(), to);
    const std::string file = folder.write("bad.yaml", yaml);
    return test::message_of([&] { static_cast<void>(load_expert_library(file)); }, folder / "");
  };
  CHECK(message(Made, "travel: direct", "travel: wireless")
            .find("bad.yaml:12:46: error: \"kernels[2].travel\"") != std::string::npos);
  CHECK(message(Made, "\"^Made$\"", "\"(\"").find("is no regular expression") != std::string::npos);
  CHECK(message(Made, "family: made\n", "").find("family") != std::string::npos);
}

TEST_CASE("the libraries predict the measured table to 15 % on the mean, the larger groups each") {
  if (!std::filesystem::exists(Shared)) {
    MESSAGE("skipped: no measured table at " << Shared);
    return;
  }
  unsetenv("SYNCLINE_DATA");
  const std::vector<ExpertLibrary> libraries = expert_libraries();
  const ExpertTable table =
      read_expert_rows(CsvTable::parse(read_text_file(Shared, 64 << 20), "moe_alltoall.csv"), libraries);
  CHECK(table.left_out.empty());
  double sum = 0;
  for (const ExpertRow& row : table.rows) {
    const std::optional<Seconds> predicted = predict(row, libraries);
    REQUIRE(predicted);
    sum += std::abs(*predicted / row.measured - 1);
  }
  CHECK(sum / static_cast<double>(table.rows.size()) < 0.05);
  for (const ExpertLibrary& library : libraries)
    for (const ExpertKernel& kernel : library.kernels)
      for (const OperationFigures& operation : kernel.figures)
        if (operation.measured >= 20) {
          CAPTURE(library.name);
          CAPTURE(kernel.name);
          CHECK(operation.error < 0.15);
        }
}

}  // namespace
}  // namespace syncline::calibrate
