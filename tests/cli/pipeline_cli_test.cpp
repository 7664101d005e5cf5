// `syncline pipeline` as a user meets it: what it takes, refuses, prints, writes and reads back.
#include <doctest/doctest.h>

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/program.hpp"

using namespace syncline::test;
using nlohmann::json;

namespace {

const std::string Labs = SYNCLINE_SOURCE_DIR "/scenarios/labs/";
const std::string Small = "pipeline --schedule 1f1b --stages 2 --microbatches 4 ";

json json_of(const Outcome& outcome) {
  CHECK(outcome.code == 0);
  CHECK_MESSAGE(outcome.err == "", outcome.err);
  return json::parse(outcome.out);
}

double makespan(const Folder& folder, const std::string& arguments) {
  return json_of(run(folder, "pipeline " + arguments + " --json")).at("makespan").get<double>();
}

/// With all digits that a double has.
std::string all_digits(double value) {
  std::ostringstream text;
  text << std::setprecision(17) << value;
  return text.str();
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

/// Characters, not bytes: those that begin one.
std::size_t width(const std::string& line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Rows of a picture, by what they begin with.
std::vector<std::string> rank_rows(const std::string& text) {
  std::vector<std::string> rows = lines(text);
  std::erase_if(rows, [](const std::string& line) { return !line.starts_with("rank "); });
  return rows;
}

/// One microbatch through a stage on each rank: "0F0 0B0", "1F0 1B0", ...
std::string ranks_of_one_stage(int ranks, const std::string& between = " ") {
  std::string text;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string stage = std::to_string(rank);
    text += stage + "F0" + between + stage + "B0\n";
  }
  return text;
}

/// A file of the folder, read by --from-order or --from-csv, and what is said of it.
struct FileRow {
  const char* name;
  std::string text;
  std::vector<std::string> err;
};

void check_file_refused(const char* flag, const std::vector<FileRow>& rows) {
  const Folder folder;
  for (const FileRow& row : rows) {
    SUBCASE(row.name) {
      folder.write("f", row.text);
      const Outcome outcome = run(folder, std::string("pipeline ") + flag + " f");
      CHECK(outcome.code == 2);
      CHECK(outcome.out == "");
      for (const std::string& part : row.err) CHECK_MESSAGE(contains(outcome.err, part), outcome.err);
      CHECK(outcome.cpu_seconds < 1);
    }
  }
}

}  // namespace

TEST_SUITE("cli: pipeline usage") {
  TEST_CASE("times are written with a unit where they were given with one, and unlike work is pointed out") {
    const Folder folder;
    const Outcome units = run(
        folder, "pipeline --schedule 1f1b --stages 2 --microbatches 4 --F 10ms --B 10ms --W 10ms --comm 1ms");
    CHECK(units.code == 0);
    // (m + p − 1)w + 2c[m + p − 2 − ⌊(m + p − 2) / p⌋] = 5 · 30 + 2 · (4 − 2)
    CHECK(contains(units.out, "makespan 154 ms"));
    CHECK(contains(units.out, "eager transfers of 1 ms"));
    const Outcome plain = run(folder, "pipeline --schedule 1f1b,zb-v --stages 2 --microbatches 4");
    CHECK(contains(plain.out, "makespan 15;"));
    CHECK(contains(plain.out, "they do not do the same work"));
    const Outcome alike = run(folder, "pipeline --schedule 1f1b,gpipe --stages 2 --microbatches 4");
    CHECK_FALSE(contains(alike.out, "they do not do the same work"));
  }

  TEST_CASE("what cannot be is refused with exit code 2 and a way out") {
    const Folder folder;
    folder.write("good", "0F0 0B0\n");
    check_refused(
        folder,
        {
            {"nothing", "pipeline", 2,
             "--schedule: error: name one, or give --from-order or --from-csv (known: naive,"},
            {"unknown name", "pipeline --schedule zbh1", 2,
             "--schedule: error: unknown schedule \"zbh1\"; did you mean \"zb-h1\"?"},
            {"a default without unit", "pipeline --schedule 1f1b --F 1ms --W 1ms", 2,
             "--B: error: is 1 by default, which has no unit, but other amounts have one"},
            {"custom without a file", "pipeline --schedule custom", 2,
             "--schedule: error: custom comes from a file: give --from-order FILE or --from-csv FILE"},
            {"schedule and file", "pipeline --schedule 1f1b --from-order good", 2,
             "--schedule: error: 1f1b comes without a file"},
            {"two files", "pipeline --from-order good --from-csv good", 2,
             "--from-order excludes --from-csv"},
            {"order and JSON", Small + "--order --json", 2, "--order excludes --json"},
            {"odd stages", "pipeline --schedule dualpipe --stages 3", 2,
             "dualpipe needs an even number of stages, not 3; try --stages 4"},
            {"odd microbatches", "pipeline --schedule dualpipe --stages 4 --microbatches 9", 2,
             "dualpipe needs an even number of microbatches, not 9; try --microbatches 10"},
            {"few microbatches", "pipeline --schedule dualpipe-v --stages 4 --microbatches 6", 2,
             "dualpipe-v needs m ≥ 2p = 8 microbatches, not 6; try --microbatches 8"},
            {"unequal rounds", "pipeline --schedule interleaved-1f1b --stages 4 --microbatches 9 --chunks 2",
             2,
             "9 microbatches on 4 ranks make ⌊m / p⌋ = 2 rounds; try --microbatches 8 or 10, or --group-size "
             "5"},
            {"chunks of 1f1b", Small + "--chunks 2", 2, "1f1b has 1 chunk a rank, not 2"},
            {"one of several", "pipeline --schedule 1f1b,dualpipe --stages 3", 2, "try --stages 4"},
            {"limit below one", "pipeline --schedule zb-auto --memory-limit 0.5", 2,
             "what one microbatch holds on a rank, not 0.5; try --memory-limit 1"},
            {"limit not searched", Small + "--memory-limit 2", 2, "--memory-limit: error: is for zb-auto"},
            {"limit no number", "pipeline --schedule zb-auto --memory-limit lots", 2,
             "--memory-limit: error: \"lots\" is not a number; expected a number such as 8, or 1.5p"},
            {"two times for four stages", "pipeline --schedule 1f1b --stages 4 --F 1,2", 2,
             "--F: error: gives 2 times, but 1f1b has 4 virtual stages; give one, or 4"},
            {"times by virtual stage", "pipeline --schedule zb-v --stages 2 --W 1,2", 2,
             "--W: error: gives 2 times, but zb-v has 4 virtual stages; give one, or 4"},
            {"some units", Small + "--F 1ms --B 2", 2,
             "--B: error: --B 2 has no unit, --F 1ms has one; give all amounts with units or all without"},
            {"units of bytes alone", Small + "--F 1 --bytes 5MB --bandwidth 1", 2,
             "--bytes 5MB has a unit, --F 1 has none"},
            {"bytes alone", Small + "--bytes 5", 2,
             "--bytes: error: needs the other: give --bytes and --bandwidth"},
            {"bandwidth alone", Small + "--bandwidth 5", 2, "--bandwidth: error: needs the other"},
            {"no bandwidth", Small + "--bytes 5 --bandwidth 0", 2, "--bandwidth: error: must be above 0"},
            {"negative time", Small + "--F -1", 2, "--F: error: -1 is negative"},
            {"no time", Small + "--F soon", 2,
             "--F: error: \"soon\" is not a number; expected a time such as \"5us\""},
            {"endless time", Small + "--F 1e400", 2, "--F: error: \"1e400\" is out of range"},
            {"no microbatch", "pipeline --schedule 1f1b --microbatches 0", 2, "--microbatches"},
            {"unknown weight order", "pipeline --schedule zb-h1 --weight-order newest", 2,
             "--weight-order: newest not in {oldest-first,newest-first}"},
            {"weight order of none", Small + "--weight-order oldest-first", 2,
             "--weight-order: error: is for zb-h1, zb-h2; leave it out"},
            {"too many actions", "pipeline --schedule 1f1b --stages 1000 --microbatches 1000000", 2,
             "--microbatches: error: is 1000000: 1f1b would have up to 3e+09 actions; at most 2e+07 are "
             "simulated"},
            {"too many ranks", "pipeline --schedule 1f1b --stages 1025", 2,
             "--stages: error: is 1025; at most 1024 ranks are simulated"},
            {"ranks that no memory holds", "pipeline --schedule looped-bfs --stages 10000000 --chunks 100", 2,
             "--stages: error: is 10000000; at most 1024 ranks are simulated"},
            {"chunks that no memory holds", "pipeline --schedule looped-bfs --chunks 10000000", 2,
             "looped-bfs needs 1 to 1024 chunks a rank, not 10000000"},
            {"no time at all", Small + "--F 0 --B 0 --W 0 --comm 1", 2,
             "--F: error: is 0, and so is every backward: nothing takes time; give one that does"},
            {"time that no number holds when added up", Small + "--F 1e308", 2,
             "--F: error: 1e308 is not simulated; give 0, or 1e-18 to 1e+18"},
            {"stages beside a file", "pipeline --from-order good --stages 7", 2,
             "--stages: error: is of schedules that are made by name; good has its order: leave it out"},
            {"microbatches beside a file", "pipeline --from-order good --microbatches 8", 2,
             "--microbatches: error: is of schedules that are made by name; good has its order"},
            {"chunks beside a file", "pipeline --from-order good --chunks 3", 2,
             "--chunks: error: is of schedules that are made by name; good has its order"},
            {"fused time of nothing", "pipeline --schedule 1f1b,zb-v --FB 3", 2,
             "--FB: error: is for dualpipe, dualpipe-v; leave it out"},
            {"fused time of a file without", "pipeline --from-order good --FB 3", 2,
             "--FB: error: is of fused blocks, of which good has none; leave it out"},
            {"form of no CSV", Small + "--csv-form compute_only", 2, "--csv-form requires --csv"},
            {"notation of no CSV", Small + "--csv-notation old", 2, "--csv-notation requires --csv"},
            {"narrow", Small + "--columns 10", 2, "--columns"},
            {"two in a CSV", "pipeline --schedule 1f1b,gpipe --csv x.csv", 2,
             "--csv: error: a file holds one schedule; name one"},
            {"two directions in a CSV", "pipeline --schedule dualpipe --csv x.csv", 2,
             "but PyTorch runs a stage on one rank alone; try dualpipe-v in place of dualpipe"},
            {"fused in the old notation", "pipeline --schedule dualpipe-v --csv x.csv --csv-notation old", 2,
             "is a fused block, which PyTorch's old notation cannot write; take the new one"},
            {"missing order", "pipeline --from-order none", 2, "none: error: no such file"},
            {"missing CSV", "pipeline --from-csv none", 2, "none: error: no such file"},
            {"CSV that cannot be written", Small + "--csv none/x.csv", 3, "cannot write none/x.csv"},
        });
  }

  TEST_CASE("the list names every schedule that errors name, and what each accepts") {
    const Folder folder;
    const Outcome list = run(folder, "pipeline --list");
    CHECK(list.code == 0);
    for (const std::string name : {"naive", "gpipe", "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1",
                                   "zb-h2", "zb-auto", "zb-v", "zb-v-handcrafted", "1f1b-v", "v-half",
                                   "v-min", "v-search", "interleaved-zb", "dualpipe", "dualpipe-v", "custom"})
      CHECK_MESSAGE(contains(list.out, "  " + name + " "), name);
    CHECK(contains(list.out, "accepts p even, m even, m ≥ 2p"));
  }
}

TEST_SUITE("cli: pipeline results") {
  TEST_CASE("the JSON of 1F1B on two ranks is what comes out on paper") {
    // rank 0: F0 F1 . . B0 F2 B1 F3 B2 . B3, rank 1: one forward later and never idle. m = 4, F = B = W = 1:
    // (m + p - 1) w = 5 · 3; each rank works m w = 12.
    const Folder folder;
    const json object = json_of(run(folder, Small + "--F 1 --B 1 --W 1 --json"));
    struct Row {
      const char* key;
      json value;
    };
    for (const Row& row : std::initializer_list<Row>{
             {"schema", 1},
             {"schedule", "1f1b"},
             {"ranks", 2},
             {"microbatches", 4},
             {"virtual_stages", 2},
             {"F", {1.0, 1.0}},
             {"B", {1.0, 1.0}},
             {"W", {1.0, 1.0}},
             {"FB", nullptr},
             {"comm", 0.0},
             {"transfers", "eager"},
             {"bandwidth", nullptr},
             {"makespan", 15.0},
             {"max_rank_span", 15.0},  // of rank 0
             {"ideal", 12.0},
             {"bubble", 3.0},
             {"bubble_of_ideal", 0.25},  // (p - 1) / m
             {"imbalance", 0.0},
             {"rank_busy", {12.0, 12.0}},
             {"rank_internal_idle", {3.0, 0.0}},  // rank 1 starts 1 late and ends 2 early
             {"peak_activations", {2, 1}},
             {"peak_activations_free_at_I", {2, 1}},
             {"order", {"0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"}},
         }) {
      CAPTURE(std::string(row.key));
      CHECK(object.at(row.key) == row.value);
    }
    CHECK(object.at("bubble_fraction").get<double>() == doctest::Approx(3. / 15));
    CHECK(object.at("bubble_of_span").get<double>() == doctest::Approx(3. / 15));
    // Idle in warm-up: rank 0 waits 2 for F1 to be through, less its own F1, and 1 for B0; rank 1 starts 1
    // late.
    double idle = 0;
    for (const auto& [phase, causes] : object.at("bubble_by_cause").items())
      for (const auto& [cause, time] : causes.items()) idle += time.get<double>();
    CHECK(idle == doctest::Approx(3));
  }

  TEST_CASE("several schedules are a list, in the order in which they were named") {
    const Folder folder;
    const json object =
        json_of(run(folder, "pipeline --schedule zb-h1,gpipe,1f1b --stages 3 --microbatches 5 --json"));
    REQUIRE(object.at("runs").size() == 3);
    CHECK(object.at("schema") == 1);
    // F = B = W = 1 by default: m w = 15, and a bubble of (p - 1)(F + B - W) = 2, (p - 1) w = 6 and 6.
    const std::vector<std::pair<std::string, double>> expected{{"zb-h1", 17}, {"gpipe", 21}, {"1f1b", 21}};
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(object.at("runs").at(i).at("schedule") == expected[i].first);
      CHECK(object.at("runs").at(i).at("makespan") == expected[i].second);
      CHECK_FALSE(object.at("runs").at(i).contains("schema"));
    }
  }

  TEST_CASE("the ways to transfer take what they take on paper") {
    // GPipe, p = m = 2, F = B = W = 1: (m + p - 1) w = 9. A transfer of 1:
    const Folder folder;
    const std::string gpipe = "--schedule gpipe --stages 2 --microbatches 2 ";
    CHECK(makespan(folder, gpipe) == 9);
    CHECK(makespan(folder, gpipe + "--comm 1") == doctest::Approx(11));  // 2c(p - 1): there and back
    CHECK(makespan(folder, gpipe + "--bytes 6 --bandwidth 6") == doctest::Approx(11));  // fits beside compute
    CHECK(makespan(folder, gpipe + "--comm 1 --blocking") ==
          doctest::Approx(13));  // 2c(m + p - 2): all is waited for
    CHECK(makespan(folder, gpipe + "--bytes 6 --bandwidth 6 --blocking") == doctest::Approx(13));
    // Messages of 2 queue: F1's leaves at 3 and comes at 5, F1 and both backwards of the last rank end at 10,
    // the last gradient comes at 12, its backward ends at 14.
    CHECK(makespan(folder, gpipe + "--bytes 2 --bandwidth 1") == doctest::Approx(14));
  }

  TEST_CASE("units make no difference but that of the unit") {
    const Folder folder;
    CHECK(makespan(folder, "--schedule 1f1b --stages 2 --microbatches 4 --F 10ms --B 12ms --W 7ms") ==
          doctest::Approx(5 * 0.029));  // (m + p - 1) w
    CHECK(makespan(folder, "--schedule 1f1b --stages 2 --microbatches 4 --F 10 --B 12 --W 7") == 5 * 29);
    // A transfer of 64 MB at 64 Gbps takes 8 ms; a microbatch of two stages has two of them.
    CHECK(makespan(folder,
                   "--schedule 1f1b --stages 2 --microbatches 1 --F 10ms --B 12ms --W 7ms --bytes 64MB "
                   "--bandwidth 64Gbps") == doctest::Approx(2 * 0.029 + 2 * 0.008));
  }

  TEST_CASE("the scale of plain numbers makes no difference but that of the scale") {
    // GPipe, p = m = 2: (m + p - 1) w with a hop of c: 3 (F + B + W) + 2c = 3 · 6 + 2; in blocking mode, with
    // messages that take 1: 18 + 2 (m + p - 2). Units of 1e-9 as of 1e18 or of a power of two.
    const Folder folder;
    const std::string gpipe = "--schedule gpipe --stages 2 --microbatches 2 ";
    for (const std::string unit : {"e-15", "e-9", "e-3", "e0", "e3", "e9", "e17"}) {
      CAPTURE(unit);
      const double one = std::stod("1" + unit);
      const std::string times = "--F 1" + unit + " --B 2" + unit + " --W 3" + unit;
      CHECK(makespan(folder, gpipe + times + " --comm 1" + unit) == doctest::Approx(20 * one).epsilon(1e-9));
      for (const std::string bytes : {"1e-9", "6", "1e17"})
        if (std::stod(bytes) / one < 1e18 && std::stod(bytes) / one > 1e-18)
          CHECK(makespan(folder, gpipe + times + " --blocking --bytes " + bytes + " --bandwidth " +
                                     all_digits(std::stod(bytes) / one)) ==
                doctest::Approx(22 * one).epsilon(1e-9));
    }
  }

  TEST_CASE("times that are almost alike are told apart at every scale") {
    // 1F1B on two ranks, m = 2, no W: rank 1's blocks of a(1 + d) hold up rank 0's of a:
    // a + 4a (1 + d) + a.
    const Folder folder;
    CHECK(makespan(folder,
                   "--schedule 1f1b --stages 2 --microbatches 2 --F 1e-9,1.000001e-9 --B 1e-9,1.000001e-9 "
                   "--W 0") == doctest::Approx(6.000004e-9).epsilon(1e-10));
  }

  TEST_CASE("a list of times goes by virtual stage") {
    // A microbatch alone: (1 + 2 + 3) forward, as long in each half of backward.
    const Folder folder;
    CHECK(makespan(folder, "--schedule 1f1b --stages 3 --microbatches 1 --F 1,2,3 --B 3,2,1 --W 2,2,2") ==
          18);
  }

  TEST_CASE("a memory limit in multiples of p is that many microbatches") {
    const Folder folder;
    const std::string search = "--schedule zb-auto --stages 4 --microbatches 8 --memory-limit ";
    CHECK(makespan(folder, search + "p") == makespan(folder, search + "4"));
    CHECK(makespan(folder, search + "1.5p") == makespan(folder, search + "6"));
    // At equal times: ZB-H1's bubble of p - 1.
    CHECK(makespan(folder, search + "1p") == 8 * 3 + 3);
  }
}

TEST_SUITE("cli: pipeline pictures") {
  TEST_CASE("a picture has a row a rank, is as wide as asked, and has no colour in a file") {
    const Folder folder;
    for (const std::size_t columns : {40, 80, 300}) {
      CAPTURE(columns);
      const Outcome outcome =
          run(folder, "pipeline --schedule 1f1b,dualpipe-v --stages 4 --microbatches 8 --columns " +
                          std::to_string(columns));
      CHECK(outcome.code == 0);
      CHECK(outcome.err == "");
      CHECK_FALSE(contains(outcome.out, "\x1b["));
      const std::vector<std::string> rows = rank_rows(outcome.out);
      REQUIRE(rows.size() == 8);
      for (const std::string& row : rows) {
        CHECK_MESSAGE(width(row) <= columns, row);
        CHECK_MESSAGE(width(row) > columns / 2, row);
      }
    }
  }

  TEST_CASE("a picture tells the kinds apart and says what they are") {
    const Folder folder;
    const Outcome outcome =
        run(folder, "pipeline --schedule zb-h1 --stages 2 --microbatches 3 --F 1 --B 1 --W 1 --columns 68");
    // 3 · 3 + 1 = 10 units in 60 columns: rank 0 waits 1 for its first gradient.
    const std::vector<std::string> rows = rank_rows(outcome.out);
    REQUIRE(rows.size() == 2);
    CHECK(rows[0] == "rank 0  F0────F1────······B0══════════F2────B1══════════B2══════════");
    CHECK(rows[1] == "rank 1  ······F0────I0≡≡≡≡F1────B1══════════F2────I2≡≡≡≡W0~~~~W2~~~~");
    for (const std::string part :
         {"forward", "backward", "backward for inputs", "backward for weights", "idle"})
      CHECK(contains(outcome.out, part));
    CHECK(contains(outcome.out, "makespan 10"));
    CHECK(contains(outcome.out, "bubble 1 = 10.0 % of the total = 11.1 % of the ideal 9"));
    CHECK(contains(outcome.out, "peak activations by rank"));
  }

  TEST_CASE("several schedules have one scale and end in a table with a line each") {
    const Folder folder;
    const Outcome outcome =
        run(folder, "pipeline --schedule naive,1f1b --stages 2 --microbatches 4 --columns 80");
    const std::vector<std::string> all = lines(outcome.out);
    REQUIRE(all.size() > 2);
    CHECK(contains(all[all.size() - 2], "naive"));
    CHECK(contains(all[all.size() - 2], " 24 "));  // m p w = 4 · 2 · 3
    CHECK(contains(all.back(), "1f1b"));
    CHECK(contains(all.back(), " 15 "));
    // 1F1B ends at 15 of 24: the rest of its row is empty.
    CHECK(contains(rank_rows(outcome.out).back(), "··········"));
  }
}

TEST_SUITE("cli: pipeline files") {
  TEST_CASE("an order that is printed is read back, alone or in JSON") {
    const Folder folder;
    for (const std::string schedule :
         {"1f1b", "zb-h1", "interleaved-1f1b", "zb-v", "dualpipe", "dualpipe-v"}) {
      CAPTURE(schedule);
      const std::string ask =
          "pipeline --schedule " + schedule + " --stages 2 --microbatches 4 --F 3 --B 4 --W 2 ";
      const json made = json_of(run(folder, ask + "--json"));
      const Outcome order = run(folder, ask + "--order");
      CHECK(lines(order.out) == made.at("order").get<std::vector<std::string>>());
      folder.write("order.txt", "# made here\n\n" + order.out);
      folder.write("order.json", made.dump());
      for (const std::string file : {"order.txt", "order.json"}) {
        const json read_back =
            json_of(run(folder, "pipeline --from-order " + file + " --F 3 --B 4 --W 2 --json"));
        CHECK(read_back.at("schedule") == "custom");
        for (const std::string key : {"order", "makespan", "bubble", "peak_activations", "microbatches"})
          CHECK(read_back.at(key) == made.at(key));
      }
    }
  }

  TEST_CASE("a byte-order mark at the beginning of a file is passed over") {
    const Folder folder;
    const std::string mark = "\xEF\xBB\xBF", lines = "0F0 0B0\n1F0 1B0\n";
    folder.write("order", mark + lines);
    folder.write("json", mark + R"({"order": ["0F0 0B0", "1F0 1B0"]})");
    folder.write("csv", mark + "0F0,0B0\n1F0,1B0\n");
    for (const std::string file : {"--from-order order", "--from-order json", "--from-csv csv"}) {
      CAPTURE(file);
      CHECK(run(folder, "pipeline " + file + " --order").out == lines);
    }
    folder.write("csv", mark + "0F0,0X0\n");
    CHECK(contains(run(folder, "pipeline --from-csv csv").err, "csv:1:5: error: unknown action \"0X0\""));
  }

  TEST_CASE("an order given as JSON is refused in its own words") {
    const Folder folder;
    folder.write("json", R"({"order": ["0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0"]})");
    const Outcome outcome = run(folder, "pipeline --from-order json");
    CHECK(outcome.code == 2);
    CHECK_MESSAGE(
        contains(outcome.err, "json, \"order\":1:1: error: the order deadlocks: rank 0 waits in 0B0"),
        outcome.err);
  }

  TEST_CASE("orders that cannot run are refused with ranks and actions") {
    check_file_refused(
        "--from-order",
        {
            {"deadlock",
             "0F0 0B0 0F1 0B1\n1F1 1B1 1F0 1B0\n",
             {"f:1:1: error: the order deadlocks: rank 0 waits in 0B0 for 1B0 of rank 1, which comes after "
              "1F1; rank 1 waits in 1F1 for 0F1 of rank 0, which comes after 0B0\n    1 | 0F0 0B0 0F1 0B1"}},
            {"unknown action",
             "0F0 0F1 0B0 0B1\n1F0 1X1 1B0 1B1\n",
             {"f:2:5: error: unknown action \"1X1\"; expected stage, kind (F, B, I or W) and microbatch such "
              "as 3F1",
              "    2 | 1F0 1X1 1B0 1B1\n      |     ^"}},
            {"missing",
             "0F0 0F1 0B0 0B1\n1F0 1B0 1F1\n",
             {"f: error: the order is not sound", "4 forwards and as many backwards"}},
            {"twice",
             "0F0 0F1 0B0 0B1\n1F0 1F0 1B0 1F1 1B1\n",
             {"f:2:1: error: the order is not sound: rank 1: 1F0 stands twice\n    2 | 1F0 1F0 1B0"}},
            {"W before I",
             "# a comment\n0F0 0B0\n\n1F0 1W0 1I0\n",
             {"f:4:1: error: the order is not sound: rank 1: 1W0 before its 1I0\n    4 | 1F0 1W0 1I0"}},
            {"two ranks",
             "0F0 1B0\n1F0 0B0\n",
             {"f:1:1: error: the order is not sound: rank 0: 1B0 before its 1F0"}},
            {"too many ranks",
             ranks_of_one_stage(1025),
             {"f: error: the order has 1025 ranks; at most 1024 are simulated"}},
            {"JSON without an order",
             "{\"a\": 1}",
             {"is JSON, but has no list of strings, one a rank, under \"order\""}},
            {"empty", "", {"f"}},
        });
  }

  TEST_CASE("what is written for PyTorch is read back as the same schedule, in either form and notation") {
    const Folder folder;
    struct Row {
      std::string schedule, form, notation, told;
    };
    for (const Row& row : std::initializer_list<Row>{
             {"1f1b", "compute_comms", "new", "told by"},
             {"1f1b", "compute_only", "new", "assumed"},
             {"zb-h1", "compute_comms", "new", "told by"},
             {"zb-h1", "compute_only", "new", "told by"},
             {"zb-h1", "compute_comms", "old", "told by"},
             {"zb-h1", "compute_only", "old", "told by"},
             {"interleaved-1f1b --chunks 2", "compute_comms", "new", "told by"},
             {"zb-v", "compute_only", "new", "told by"},
             {"dualpipe-v", "compute_comms", "new", "told by"},
         }) {
      CAPTURE(row.schedule);
      CAPTURE(row.form);
      CAPTURE(row.notation);
      const std::string ask = "pipeline --schedule " + row.schedule + " --stages 2 --microbatches 4 ";
      const Outcome written =
          run(folder, ask + "--csv s.csv --order --csv-form " + row.form + " --csv-notation " + row.notation);
      CHECK(written.code == 0);
      CHECK_MESSAGE(contains(written.err, "s.csv written: " + row.form + ", " + row.notation + " notation"),
                    written.err);
      const Outcome again = run(folder, "pipeline --from-csv s.csv --order");
      CHECK(again.code == 0);
      CHECK_MESSAGE(
          contains(again.err, "s.csv: " + row.form + ", " + row.notation + " notation (" + row.told),
          again.err);
      CHECK(again.out == written.out);
    }
  }

  TEST_CASE("a CSV that PyTorch wrote is drawn and timed") {
    const Folder folder;
    const Outcome outcome = run(folder, "pipeline --from-csv '" + Labs + "8-pytorch/interleaved.csv' --json");
    CHECK(outcome.code == 0);
    CHECK(contains(outcome.err, "compute_comms, new notation (told by 2REDUCE_GRAD)"));
    // Two ranks, two chunks of w = 3, four microbatches: (vm + p - 1) w.
    CHECK(json::parse(outcome.out).at("makespan") == 27);
  }

  TEST_CASE("a CSV that cannot run is refused with row and column") {
    check_file_refused(
        "--from-csv",
        {
            {"hole",
             "0F0,0B0,0B1\n1F0,1B0,1F1,1B1\n",
             {"f:1:1: error: stage 0 has 1 of the 2 microbatches that are named; 0F1 is missing",
              "f:1:9: error: 0B1 without its 0F1\n    1 | 0F0,0B0,0B1\n      |         ^"}},
            {"twice",
             "0F0,0F1,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n",
             {"f:1:9: error: 0F1 stands twice, first in line 1, column 5"}},
            {"unknown",
             "0F0,0G1,0B0,0B1\n1F0,1B0,1F1,1B1\n",
             {"f:1:5: error: unknown action \"0G1\"; expected stage, kind (F, B, I, W, SEND_F,"}},
            {"missing receive",
             "0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n",
             {"f:1:5: error: 0SEND_F0 without its 1RECV_F0", "f:2:1: error: 1F0 without its 1RECV_F0"}},
            {"empty cell",
             "0F0,,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
             {"f:1:5: error: an empty cell in a file with transfers"}},
            {"W before I",
             "0F0,0I0,0W0\n1F0,1W0,1I0\n",
             {"f:2:5: error: 1W0 before its 1I0 in line 2, column 9"}},
            {"two notations",
             "0F0,0F1,0I0,0W0,0BW1\n1F0,1B0,1F1,1B1\n",
             {"f:1:17: error: \"0BW1\" is of the old notation, but 0I0 of the new"}},
            {"swapped receives",
             "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0B1,0RECV_B0,0B0\n"
             "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
             {"f:1:", "0RECV_B1", "NCCL matches messages by their order alone"}},
            {"deadlock",
             "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
             "1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F0,1F0,1B0,1SEND_B0\n",
             {"deadlock: rank 0 waits in 0RECV_B0 (line 1, column 14) for 1SEND_B0 (line 2, column 44) of "
              "rank 1",
              "rank 1 waits in 1RECV_F1 (line 2, column 1) for 0SEND_F1 (line 1, column 31) of rank 0"}},
            {"too many ranks",
             ranks_of_one_stage(1025, ","),
             {"f: error: has 1025 ranks; at most 1024 are simulated"}},
            {"empty", "", {"f: error: is empty"}},
        });
  }
}

TEST_SUITE("cli: pipeline scenarios") {
  TEST_CASE("a lab is shown side by side, and its expectations hold") {
    const Folder folder;
    const Outcome outcome = run(folder, "run '" + Labs + "'1-bubble/*.yaml");
    CHECK(outcome.code == 0);
    CHECK_MESSAGE(outcome.err == "", outcome.err);
    for (const std::string part : {"naive", "gpipe", "1f1b", "960 ms", "330 ms", "27.3 %", "37.5 %"})
      CHECK_MESSAGE(contains(outcome.out, part), outcome.out);
  }

  TEST_CASE("a textbook scenario and the same question without a file have one answer") {
    const Folder folder;
    const json scenario = json_of(run(folder, "run '" + Labs + "6-slow-links/2-latency.yaml' --json"));
    const json asked = json_of(run(folder,
                                   "pipeline --schedule 1f1b --stages 4 --microbatches 8 --F 10ms --B 10ms "
                                   "--W 10ms --comm 5ms --json"));
    CHECK(scenario.at("pipeline_time_s") == asked.at("makespan"));
    CHECK(scenario.at("bubble_of_total") == asked.at("bubble_fraction"));
    CHECK(scenario.at("pipeline").at("bubble_s") == asked.at("bubble"));
    CHECK(scenario.at("pipeline").at("bubble_by_cause").at("steady").at("transfer_s") ==
          asked.at("bubble_by_cause").at("steady").at("transfer"));
    CHECK(scenario.at("peak_activations") == 4);
  }

  TEST_CASE("a changed lab misses its expectations, with exit code 1") {
    const Folder folder;
    const Outcome outcome =
        run(folder, "run '" + Labs + "1-bubble/3-1f1b.yaml' --set pipeline.microbatches=9");
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.err, "1f1b: step-time is 360 ms, expected 330 ms"));  // (9 + 3) · 30 ms
  }
}
