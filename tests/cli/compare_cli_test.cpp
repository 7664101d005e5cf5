// `syncline compare` as a user meets it: traces of runs, limits, pages, bad input.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/timeline/trace.hpp"
#include "tests/cli/program.hpp"
#include "tests/timeline/example.hpp"

using namespace syncline::test;
using nlohmann::json;
using syncline::write_trace;

namespace {

/// A forward of two layers on two ranks, an all-reduce that both wait for, and what rank 1's second layer takes.
syncline::Timeline timeline(double second_layer) {
  TimelineExample example(2);
  const double late = 1 + second_layer;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const double ends = rank == 0 ? 2 : late;
    example.compute(rank, 0, 1, tag(syncline::Phase::Forward, 0));
    example.compute(rank, 1, ends, tag(syncline::Phase::Forward, 1));
    example.collective(rank, "all-reduce", ends, late, late + 0.5);
  }
  return example;
}

}  // namespace

TEST_SUITE("cli: compare") {
  TEST_CASE("the trace of a run against itself differs in nothing, and any limit holds") {
    const Folder folder;
    REQUIRE(run(folder, "run '" + Data + "/tiny-16.yaml' --trace a.json.gz").code == 0);
    const Outcome outcome = run(
        folder, "compare a.json.gz a.json.gz --tolerance step=0%,op=0%,order=0,missing=0,start=0,clock=0");
    CHECK(outcome.code == 0);
    CHECK(outcome.err == "");
    for (const char* part : {"both have the same ops", "every stream has its ops in the same order",
                             "no op takes longer or shorter", "A and B begin at the same time"})
      CHECK(contains(outcome.out, part));
    const json object = json::parse(run(folder, "compare a.json.gz a.json.gz --json").out);
    CHECK(object.at("schema") == 1);
    CHECK(object.at("step_error") == 0);
    for (const char* count : {"ops_differing", "missing", "extra", "moved", "overlapped_differently"})
      CHECK(object.at(count) == 0);
    CHECK(object.at("all").at("ops") == object.at("a").at("ops"));
  }

  TEST_CASE("what is beyond a limit is named on stderr with exit code 1") {
    const Folder folder;
    write_trace(folder / "fast.json", timeline(2));
    write_trace(folder / "slow.json", timeline(2.6));  // 30 % more; the step is 4.1 ms against 3.5
    const Outcome beyond = run(folder, "compare slow.json fast.json --tolerance step=20%,op=15%");
    CHECK(beyond.code == 1);
    CHECK(contains(beyond.err, "op: rank 1, compute: F layer 1 work: A 2.6 ms, B 2 ms, +30.0 %, beyond 15%"));
    CHECK(!contains(beyond.err, "step"));
    CHECK(contains(beyond.out, "+17.1 %"));  // 4.1/3.5 − 1
    CHECK(run(folder, "compare slow.json fast.json --tolerance step=20%,op=31%").code == 0);

    folder.write("limits.yaml", "version: 1\nstep: 5%\nop: 31%\n");
    const Outcome file = run(folder, "compare slow.json fast.json --tolerance-file limits.yaml --json");
    CHECK(file.code == 1);
    const json broken = json::parse(file.out).at("broken");
    REQUIRE(broken.size() == 1);
    CHECK(broken.front().at("what") == "step");
    CHECK(run(folder, "compare slow.json fast.json --tolerance-file limits.yaml --tolerance step=20%").code ==
          0);
  }

  TEST_CASE("who waits for whom is said of both") {
    const Folder folder;
    write_trace(folder / "a.json", timeline(2));
    const json object = json::parse(run(folder, "compare a.json a.json --json").out);
    const json& longest = object.at("a").at("waits").at("longest");
    REQUIRE(longest.size() == 1);
    CHECK(longest.front().at("last_rank") == 1);
    CHECK(longest.front().at("before").at("layer") == 1);
    CHECK(longest.front().at("waiting_s").get<double>() == doctest::Approx(1e-3));  // rank 0, from 2 to 3 ms
    CHECK(longest.front().at("cost_at_most_s").get<double>() == doctest::Approx(0.5e-3));
  }

  TEST_CASE("a page holds both timelines and nothing from elsewhere") {
    const Folder folder;
    syncline::Timeline odd = timeline(2);
    odd.source = "</script><script>alert(1)</script>";
    write_trace(folder / "a.json", odd);
    write_trace(folder / "b.json", timeline(2.6));
    CHECK(run(folder, "compare a.json b.json --html page.html").code == 0);
    const std::string page = read(folder / "page.html");
    CHECK(page.starts_with("<!DOCTYPE html>"));
    CHECK(!contains(page, "alert(1)</script>"));
    for (const char* elsewhere : {"http:", "https:", "src=", "@import", "url("})
      CHECK(!contains(page, elsewhere));
    const std::string begin = "id=\"data\">";
    const std::size_t at = page.find(begin) + begin.size();
    const json data = json::parse(page.substr(at, page.find("</script>", at) - at));
    CHECK(data.at("rows").size() == 4);  // two ranks of two streams
    CHECK(data.at("rows").front().at("a").size() == 2);
    CHECK(data.at("length") == doctest::Approx(4100));  // µs, of the longer one
  }

  TEST_CASE("bad input is refused") {
    const Folder folder;
    write_trace(folder / "a.json", timeline(2));
    write_trace(folder / "other.json", TimelineExample().compute(0, 0, 1));
    folder.write("not.json", "{}");
    folder.write("bad.yaml", "step: 5\nop: [1]\norder: -1\n");
    folder.write("empty.yaml", "version: 1\n");
    folder.write("later.yaml", "version: 2\nstep: 5%\n");
    check_refused(
        folder,
        {{"no second timeline", "compare a.json", 2, "b is required"},
         {"missing file", "compare a.json b.json", 2, "b.json: error: cannot open the trace"},
         {"no trace", "compare a.json not.json", 2, "not.json: error: \"otherData\" is missing"},
         {"nothing in common", "compare a.json other.json", 2,
          "other.json: error: the two timelines have no op in common (a.json)"},
         {"limit without unit", "compare a.json a.json --tolerance step=0.05", 2, "is no percentage"},
         {"unknown kind", "compare a.json a.json --tolerance all-gather=5%", 2,
          "unknown measure or kind of op \"all-gather\""},
         {"floor", "compare a.json a.json --floor 10", 2, "--floor: error: "},
         {"limits in a file", "compare a.json a.json --tolerance-file bad.yaml", 2,
          "bad.yaml:1:7: error: \"step\": \"5\" is no percentage"},
         {"a list for a limit", "compare a.json a.json --tolerance-file bad.yaml", 2,
          "bad.yaml:2:1: error: \"op\" has no limit"},
         {"no limits in a file", "compare a.json a.json --tolerance-file empty.yaml", 2, "there is no limit"},
         {"a later version", "compare a.json a.json --tolerance-file later.yaml", 2,
          "later.yaml:1:10: error: version 2 is not known"},
         {"page over the input", "compare a.json a.json --html a.json", 2,
          "--html: error: a.json is the input"}});
  }
}
