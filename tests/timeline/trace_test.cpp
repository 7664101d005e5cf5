#include "sim/timeline/trace.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/core/error.hpp"
#include "sim/core/random.hpp"
#include "tests/timeline/example.hpp"

using namespace syncline;
using doctest::Approx;
using syncline::test::tag;
using syncline::test::TimelineExample;

namespace {

namespace fs = std::filesystem;

// A folder that goes away with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "syncline-trace-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() { fs::remove_all(path_); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }

 private:
  fs::path path_;
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Timeline one_of_everything() {
  TimelineExample example(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    example.host(rank, 0, 0.25);
    example.collective(rank, "all-gather", 0.25, rank == 0 ? 0.75 : 0.25, 1.5);
    TimelineOp layer{.kind = SpanKind::Compute,
                     .stream = example.stream("compute"),
                     .tag = tag(Phase::Backward, 3),
                     .name = "layer"};
    layer.tag.microbatch = 0;
    layer.tag.chunk = 1;
    layer.tag.name = "attention";
    layer.flop = Flop(1.5e12);
    example.add(rank, layer, 1.5, 1.5, 4);
  }
  return example;
}

// Ranks with FIFO streams that never rest, so that every rounding matters.
Timeline busy(std::uint64_t seed, double scale) {
  Random random(seed);
  TimelineExample example(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    double compute = 0, gather = 0;
    for (int i = 0; i < 200; ++i) {
      const double next = compute + scale * random.uniform();
      example.compute(rank, compute, next);
      compute = next;
      const double moving = gather + scale * random.uniform() / 2, end = moving + scale * random.uniform();
      example.collective(rank, "all-gather", gather, moving, end);
      gather = end;
    }
  }
  return example;
}

void check_equal(const Timeline& a, const Timeline& b) {
  CHECK(a.source == b.source);
  CHECK(a.about == b.about);
  CHECK(a.ranks == b.ranks);
  CHECK(a.streams == b.streams);
  REQUIRE(a.ops.size() == b.ops.size());
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    CHECK(a.ops[i].kind == b.ops[i].kind);
    CHECK(a.ops[i].stream == b.ops[i].stream);
    CHECK(a.ops[i].tag == b.ops[i].tag);
    CHECK(a.ops[i].name == b.ops[i].name);
    CHECK(a.ops[i].bytes == b.ops[i].bytes);
    CHECK(a.ops[i].flop == b.ops[i].flop);
    CHECK(a.ops[i].group == b.ops[i].group);
    CHECK(a.ops[i].algorithm == b.ops[i].algorithm);
  }
  REQUIRE(a.spans.size() == b.spans.size());
  double worst = 0, latest = std::numeric_limits<double>::min();
  for (std::size_t i = 0; i < a.spans.size(); ++i) {
    REQUIRE(a.spans[i].rank == b.spans[i].rank);
    REQUIRE(a.spans[i].op == b.spans[i].op);
    for (const auto time : {&Span::start, &Span::transfer, &Span::end})
      worst = std::max(worst, std::abs((a.spans[i].*time - b.spans[i].*time).si()));
    latest = std::max(latest, a.spans[i].end.si());
  }
  CHECK(worst / latest <= 1e-13);
}

// The message of the InputError that reading gives.
std::string refusal(const std::string& path) {
  try {
    (void)read_trace(path);
  } catch (const InputError& error) {
    return error.what();
  }
  return "read without complaint";
}

}  // namespace

TEST_CASE("a trace is what Perfetto expects") {
  const Folder folder;
  const std::string path = folder.file("a.json");
  write_trace(path, one_of_everything());
  CHECK(content(path) ==
        R"({"displayTimeUnit":"ms",
"otherData":{"schema":"syncline-trace","version":1,"source":"by hand","ranks":2,"streams":["gather","compute"]},
"traceEvents":[
{"ph":"M","pid":0,"tid":0,"name":"process_name","args":{"name":"rank 0"}},
{"ph":"M","pid":0,"tid":0,"name":"process_sort_index","args":{"sort_index":0}},
{"ph":"M","pid":0,"tid":0,"name":"thread_name","args":{"name":"gather"}},
{"ph":"M","pid":0,"tid":0,"name":"thread_sort_index","args":{"sort_index":0}},
{"ph":"M","pid":0,"tid":1,"name":"thread_name","args":{"name":"compute"}},
{"ph":"M","pid":0,"tid":1,"name":"thread_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":0,"tid":2,"name":"thread_name","args":{"name":"host"}},
{"ph":"M","pid":0,"tid":2,"name":"thread_sort_index","args":{"sort_index":2}},
{"ph":"X","pid":0,"tid":2,"ts":0,"dur":250,"name":"host-work","cat":"host","args":{"op":0,"phase":"other"}},
{"ph":"X","pid":0,"tid":0,"ts":250,"dur":1250,"name":"all-gather","cat":"communication","args":{"op":1,"phase":"other","bytes":1e+06,"group":"dp","algorithm":"ring","waiting_us":500}},
{"ph":"X","pid":0,"tid":1,"ts":1500,"dur":2500,"name":"layer","cat":"compute","args":{"op":2,"phase":"B","layer":3,"microbatch":0,"chunk":1,"tag":"attention","flop":1.5e+12}},
{"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"rank 1"}},
{"ph":"M","pid":1,"tid":0,"name":"process_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":1,"tid":0,"name":"thread_name","args":{"name":"gather"}},
{"ph":"M","pid":1,"tid":0,"name":"thread_sort_index","args":{"sort_index":0}},
{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"compute"}},
{"ph":"M","pid":1,"tid":1,"name":"thread_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"host"}},
{"ph":"M","pid":1,"tid":2,"name":"thread_sort_index","args":{"sort_index":2}},
{"ph":"X","pid":1,"tid":2,"ts":0,"dur":250,"name":"host-work","cat":"host","args":{"op":3,"phase":"other"}},
{"ph":"X","pid":1,"tid":0,"ts":250,"dur":1250,"name":"all-gather","cat":"communication","args":{"op":4,"phase":"other","bytes":1e+06,"group":"dp","algorithm":"ring","waiting_us":0}},
{"ph":"X","pid":1,"tid":1,"ts":1500,"dur":2500,"name":"layer","cat":"compute","args":{"op":5,"phase":"B","layer":3,"microbatch":0,"chunk":1,"tag":"attention","flop":1.5e+12}}
]}
)");
}

TEST_CASE("how a timeline came about stands in its header, in its own order") {
  const Folder folder;
  Timeline timeline;
  timeline.about = {{"repeats", "5"}, {"backend", "mpi"}, {"clock-error", "3.1 µs \"sic\""}};
  write_trace(folder.file("a.json"), timeline);
  CHECK(
      content(folder.file("a.json"))
          .find(R"("streams":[],"about":{"repeats":"5","backend":"mpi","clock-error":"3.1 µs \"sic\""}})") !=
      std::string::npos);
  check_equal(timeline, read_trace(folder.file("a.json")));
}

TEST_CASE("reading gives the timeline back, and writing that gives the same bytes") {
  const Folder folder;
  TimelineExample awkward;
  awkward.add(
      0,
      {.kind = SpanKind::Compute, .stream = awkward.stream("a \"quoted\"\\ stream\n→"), .name = "tab\there"},
      1, 1, 2);
  Timeline told = one_of_everything();
  told.about = {{"host", "a"}, {"backend", "mpi"}, {"", "\n"}};
  struct Row {
    const char* name;
    Timeline timeline;
  };
  const Row rows[] = {
      {"one of everything", one_of_everything()},
      {"nothing", {}},
      {"names that JSON must escape", awkward},
      {"facts in an order of their own", told},
      {"before zero", TimelineExample().compute(0, -2.5, -1).compute(0, -1, 3)},
      {"microseconds", busy(1, 1e-3)},
      {"milliseconds", busy(2, 1)},
      {"hours", busy(3, 1e5)},
      {"at the edge of the grid", TimelineExample().compute(0, 0, std::nextafter(1.0, 0.0)).compute(0, 1, 1)},
  };
  for (const Row& row : rows) {
    for (const char* ending : {".json", ".json.gz"}) {
      CAPTURE(row.name);
      CAPTURE(ending);
      const std::string first = folder.file(std::string("first") + ending),
                        second = folder.file(std::string("second") + ending);
      write_trace(first, row.timeline);
      const Timeline read = read_trace(first);
      check_equal(row.timeline, read);
      write_trace(second, read);
      CHECK(content(first) == content(second));
    }
  }
}

TEST_CASE("ops that never ran keep the numbers of the others") {
  const Folder folder;
  Timeline timeline = one_of_everything();
  timeline.ops.insert(timeline.ops.begin(), TimelineOp{});
  for (Span& span : timeline.spans) ++span.op;
  write_trace(folder.file("a.json"), timeline);
  check_equal(timeline, read_trace(folder.file("a.json")));
}

TEST_CASE("spans in one track never overlap in the file") {
  const Folder folder;
  for (const double scale : {1e-4, 1.0, 3e3}) {
    CAPTURE(scale);
    write_trace(folder.file("a.json"), busy(7, scale));
    const auto trace = nlohmann::json::parse(content(folder.file("a.json")));
    // Sorted by start, each must begin at the end of the one before or later. Ends are sums of two decimal texts, so
    // they are compared in whole steps of the grid.
    struct Slice {
      double start, end;
    };
    std::map<std::pair<int, int>, std::vector<Slice>> tracks;
    double latest = 0;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const double start = event["ts"], length = event["dur"];
      tracks[{event["pid"], event["tid"]}].push_back({start, start + length});
      latest = std::max(latest, start + length);
    }
    REQUIRE(tracks.size() == 6);
    for (auto& [track, slices] : tracks) {
      REQUIRE(slices.size() == 200);
      std::sort(slices.begin(), slices.end(),
                [](const Slice& a, const Slice& b) { return a.start < b.start; });
      for (std::size_t i = 1; i < slices.size(); ++i)
        CHECK(slices[i].start >= slices[i - 1].end - latest * 1e-15);
    }
  }
}

TEST_CASE("compressed traces are small, readable and always the same bytes") {
  const Folder folder;
  const Timeline timeline = busy(5, 1);
  write_trace(folder.file("a.json"), timeline);
  write_trace(folder.file("a.json.gz"), timeline);
  const std::string packed = content(folder.file("a.json.gz"));
  CHECK(packed.substr(0, 2) == "\x1f\x8b");
  CHECK(packed.substr(4, 4) == std::string(4, '\0'));  // the header's time of writing
  CHECK(packed.size() < content(folder.file("a.json")).size() / 2);
}

TEST_CASE("what cannot be written is said") {
  const Timeline timeline = busy(1, 1);
  CHECK_THROWS_WITH_AS(write_trace("/nowhere/at/all.json", timeline),
                       "cannot write the trace \"/nowhere/at/all.json\": No such file or directory",
                       EnvironmentError);
  if (fs::exists("/dev/full")) {
    CHECK_THROWS_WITH_AS(write_trace("/dev/full", timeline),
                         "cannot write the trace \"/dev/full\": No space left on device", EnvironmentError);
  }
}

TEST_CASE("broken traces are refused with their place") {
  const Folder folder;
  const std::string header =
      R"("otherData":{"schema":"syncline-trace","version":1,"source":"","ranks":1,"streams":["c"]})";
  const auto trace = [&](const std::string& events) {
    return "{" + header + ",\n\"traceEvents\":[\n" + events + "\n]}";
  };
  const auto event = [](const std::string& args) {
    return R"({"ph":"X","pid":0,"tid":0,"ts":0,"dur":5,"name":"a","cat":"compute","args":{)" + args + "}}";
  };
  struct Row {
    const char* name;
    std::string content;
    const char* message;
  };
  const Row rows[] = {
      {"empty", "", ":1: error: not a JSON trace: syntax error"},
      {"cut off", trace(event(R"("op":0,"phase":"F")")).substr(0, 150),
       ":3:42: error: not a JSON trace: syntax error"},
      {"another program's", R"({"traceEvents":[],"otherData":{}})",
       R"(: error: not a trace of this program: "otherData.schema" is "", expected "syncline-trace")"},
      {"no header", R"({"traceEvents":[]})", R"(: error: "otherData" is missing)"},
      {"a later version", R"({"otherData":{"schema":"syncline-trace","version":2},"traceEvents":[]})",
       ": error: version 2 of the trace format is not known, only 1"},
      {"facts in a list",
       R"({"otherData":{"schema":"syncline-trace","version":1,"source":"","ranks":1,)"
       R"("streams":[],"about":["mpi"]},"traceEvents":[]})",
       R"(: error: "about" is not an object)"},
      {"a fact that is no text",
       R"({"otherData":{"schema":"syncline-trace","version":1,"source":"",)"
       R"("ranks":1,"streams":[],"about":{"repeats":5}},"traceEvents":[]})",
       R"(: error: "repeats" is not a text)"},
      {"a fact twice", R"({"otherData":{"about":{"host":"a","host":"b"}},"traceEvents":[]})",
       R"(:1:40: error: "about" has "host" twice)"},
      {"no op", trace(event(R"("phase":"F")")), R"(:3:89: error: "op" is missing)"},
      {"negative op", trace(event(R"("op":-1,"phase":"F")")),
       R"(:3:97: error: "op" is -1, expected a whole number)"},
      {"unknown phase", trace(event(R"("op":0,"phase":"X")")), R"(error: unknown phase "X")"},
      {"wild op number", trace(event(R"("op":200000000,"phase":"F")")),
       "error: op numbers go up to 200000000 but only 1"},
      {"two ops of one number",
       trace(event(R"("op":0,"phase":"F")") + ",\n" + event(R"("op":0,"phase":"B")")),
       ":4:96: error: op 0 differs from an earlier event of the same number"},
      {"waiting beyond the end", trace(event(R"("op":0,"phase":"F","waiting_us":6)")),
       R"("dur" is 5 and "waiting_us" 6)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const std::string message = refusal(folder.file("broken.json", row.content));
    CAPTURE(message);
    CHECK(message.find("broken.json") != std::string::npos);
    CHECK(message.find(row.message) != std::string::npos);
  }
  CHECK(refusal(folder.file("missing.json")).find("cannot open the trace") != std::string::npos);
  CHECK(refusal(folder.file("")).find("Is a directory") != std::string::npos);
}

TEST_CASE("damaged compressed traces are refused") {
  const Folder folder;
  write_trace(folder.file("a.json.gz"), busy(5, 1));
  const std::string packed = content(folder.file("a.json.gz"));
  CHECK(refusal(folder.file("cut.gz", packed.substr(0, packed.size() / 2))).find("unexpected end of file") !=
        std::string::npos);
  std::string wrong_sum = packed;
  wrong_sum[packed.size() - 8] ^= 1;  // of the check sum
  CHECK(refusal(folder.file("sum.gz", wrong_sum)).find("incorrect data check") != std::string::npos);
}
