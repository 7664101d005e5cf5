// `syncline sweep` as a user meets it: rows, errors, kills, and an MPI job.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace syncline::test;
using nlohmann::json;

namespace {

const std::string SweepHead = "version: 1\nscenario: " + Data + "/tiny-16.yaml\n";

std::string numbers(int first, int last) {
  std::string list;
  for (int i = first; i <= last; ++i) list += (list.empty() ? "" : ", ") + std::to_string(i);
  return "[" + list + "]";
}

/// 200 points of a few milliseconds each.
std::string two_hundred() {
  return SweepHead + "set: {batch.sequence: 512}\ncross:\n  batch.global: [64, 128, 256, 512]\n  run.seed: " +
         numbers(1, 50) + "\nmetrics: [step-time, exposed-communication]\n";
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

/// Rows that are whole in a journal.
std::vector<std::string> rows_in(const std::string& journal) {
  std::vector<std::string> rows;
  const std::size_t begin = journal.find("\nrows\n");
  if (begin == std::string::npos) return rows;
  std::istringstream text(journal.substr(begin + 6));
  for (std::string line; std::getline(text, line);)
    if (!text.eof()) rows.push_back(line);
  return rows;
}

/// Starts the sweep and kills it, as by kill -9, when its journal holds so many rows.
void kill_at(const Folder& folder, std::size_t rows) {
  const pid_t process = fork();
  REQUIRE(process >= 0);
  if (process == 0) {
    if (chdir((folder / "").c_str()) != 0) _exit(1);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
    setenv("SYNCLINE_DATA", Data.c_str(), 1);
    execl(SYNCLINE_PROGRAM, SYNCLINE_PROGRAM, "sweep", "w.yaml", "--output", "o.csv", "--resume", "--jobs",
          "2", nullptr);
    _exit(1);
  }
  int status = 0;
  while (rows_in(read(folder / "o.csv.journal")).size() < rows && waitpid(process, &status, WNOHANG) == 0)
    usleep(500);
  kill(process, SIGKILL);
  waitpid(process, &status, 0);
}

bool has_mpirun() {
  return std::system("command -v mpirun >/dev/null 2>&1") == 0;
}

}  // namespace

TEST_SUITE("cli: sweep") {
  TEST_CASE("rows come out in the order of points, whatever the number of processes") {
    const Folder folder;
    folder.write("w.yaml",
                 SweepHead + "cross: {batch.global: [64, 128], batch.microbatch: [1, 2]}\nmetrics: [step-time]\n");
    const Outcome one = run(folder, "sweep w.yaml --jobs 1");
    CHECK(one.code == 0);
    CHECK(one.err == "");
    CHECK(one.out.starts_with("point,batch.global,batch.microbatch,step_time_s,error\n1,64,1,"));
    CHECK(lines_of(one.out) == 5);
    CHECK(run(folder, "sweep w.yaml --jobs 4").out == one.out);
    const Outcome file = run(folder, "sweep w.yaml --output o.csv");
    CHECK(file.out == "");
    CHECK(read(folder / "o.csv") == one.out);
  }

  TEST_CASE("a row is what run says of the same values") {
    const Folder folder;
    folder.write(
        "w.yaml",
        SweepHead + "cross: {batch.global: [64, 128]}\nmetrics: [step-time, exposed-communication, mfu]\n");
    const json rows = json::parse(run(folder, "sweep w.yaml --json").out).at("rows");
    REQUIRE(rows.size() == 2);
    for (const json& row : rows) {
      const std::string global = row.at("set").at("batch.global");
      const json one = json::parse(
          run(folder, "run '" + Data + "/tiny-16.yaml' --set batch.global=" + global + " --json").out);
      for (const char* key : {"step_time_s", "exposed_communication_s", "mfu"})
        CHECK(row.at(key) == one.at(key));
    }
  }

  TEST_CASE("a point that cannot run is a row with its error, and the sweep goes on to exit code 1") {
    const Folder folder;
    folder.write("w.yaml", SweepHead + "cross: {batch.global: [64, 7, 128]}\nmetrics: [step-time]\n");
    const Outcome outcome = run(folder, "sweep w.yaml");
    CHECK(outcome.code == 1);
    CHECK(lines_of(outcome.out) == 4);
    CHECK(contains(outcome.out,
                   "\n2,7,,\"w.yaml:3:28: error: \"\"batch.global\"\" is 7, which is not a multiple of"));
    CHECK(contains(outcome.out, "\n3,128,0."));
    CHECK(contains(outcome.err, "1 of 3 points failed; the first is point 2: w.yaml:3:28: error:"));
  }

  TEST_CASE("wrong input is refused before anything runs") {
    const Folder folder;
    folder.write("w.yaml", SweepHead + "cross: {batch.global: [64]}\nmetrics: [step-time, mfu]\n");
    folder.write("unknown.yaml", SweepHead + "cross: {batch.globl: [64]}\n");
    check_refused(folder,
                  {
                      {"no file", "sweep", 2, "sweep is required"},
                      {"missing file", "sweep x.yaml", 2, "x.yaml: error: no such file"},
                      {"unknown path", "sweep unknown.yaml --output o.csv", 2,
                       "unknown.yaml:3:9: error: unknown key \"globl\"; did you mean \"global\"?"},
                      {"unknown path of --set", "sweep w.yaml --set batch.sequenc=8", 2,
                       "--set batch.sequenc=8: error: unknown key \"sequenc\""},
                      {"a scenario", "sweep '" + Data + "/tiny-16.yaml'", 2, "missing key \"scenario\""},
                      {"resume without output", "sweep w.yaml --resume", 2, "--resume requires --output"},
                      {"output is the sweep", "sweep w.yaml --output w.yaml", 2,
                       "--output: error: w.yaml is the input; name another file"},
                      {"unknown kind", "sweep w.yaml --plot p.svg --kind pie", 2,
                       "--kind: error: unknown kind of plot \"pie\""},
                      {"front of one", "sweep w.yaml --pareto mfu", 2,
                       "--pareto: error: a front is of two metrics or more"},
                      {"front of others", "sweep w.yaml --pareto mfu,hfu", 2,
                       "--pareto: error: unknown metric of the sweep \"hfu\""},
                  });
    CHECK(read(folder / "o.csv.journal") == "");
  }

  TEST_CASE("a plot and a front are made of the rows") {
    const Folder folder;
    folder.write("w.yaml",
                 SweepHead +
                     "cross: {batch.global: [64, 128], batch.microbatch: [1, 2]}\nmetrics: [step-time, mfu]\n"
                     "plot: {kind: lines, x: batch.microbatch}\n");
    const Outcome outcome = run(folder, "sweep w.yaml --output o.csv --plot p.svg --pareto step-time,mfu");
    CHECK(outcome.code == 0);
    CHECK(outcome.out.starts_with("points that no other beats in step-time and mfu:\n  point  batch.global"));
    CHECK(contains(outcome.err, "plot written to p.svg"));
    CHECK(contains(read(folder / "p.svg"), "<polyline"));
    // Done once, drawn again without a run.
    const Outcome again = run(folder, "sweep w.yaml --output o.csv --resume --plot q.svg --kind bars");
    CHECK(contains(again.err, "4 of 4 points are done already"));
    CHECK(contains(read(folder / "q.svg"), "<rect x="));
  }

  TEST_CASE(
      "kills in the middle lose no finished row, and --resume ends with the bytes of an undisturbed run") {
    const Folder folder;
    folder.write("w.yaml", two_hundred());
    CHECK(run(folder, "sweep w.yaml --output undisturbed.csv").code == 0);
    const std::string undisturbed = read(folder / "undisturbed.csv");
    REQUIRE(lines_of(undisturbed) == 201);
    for (const std::size_t rows : {1U, 60U, 61U, 150U}) {
      CAPTURE(rows);
      const std::vector<std::string> before = rows_in(read(folder / "o.csv.journal"));
      kill_at(folder, rows);
      const std::vector<std::string> after = rows_in(read(folder / "o.csv.journal"));
      CHECK(after.size() >= std::max(rows, before.size()));
      CHECK(after.size() < 200);
      CHECK(std::equal(before.begin(), before.end(), after.begin()));
      CHECK(read(folder / "o.csv") == "");
    }
    const std::size_t done = rows_in(read(folder / "o.csv.journal")).size();
    CHECK(run(folder, "sweep w.yaml --output o.csv").code == 2);  // would lose them
    const Outcome rest = run(folder, "sweep w.yaml --output o.csv --resume");
    CHECK(rest.code == 0);
    CHECK(contains(rest.err, std::to_string(done) + " of 200 points are done already"));
    CHECK(read(folder / "o.csv") == undisturbed);
  }

  TEST_CASE("a changed sweep is not gone on with, and says what has changed") {
    const Folder folder;
    const std::string sweep = SweepHead + "cross: {batch.global: [64, 128]}\nmetrics: [step-time]\n";
    folder.write("w.yaml", sweep);
    CHECK(run(folder, "sweep w.yaml --output o.csv").code == 0);
    folder.write("w.yaml", sweep + "question: another?\n");
    const Outcome changed = run(folder, "sweep w.yaml --output o.csv --resume --set batch.sequence=1024");
    CHECK(changed.code == 2);
    CHECK_MESSAGE(contains(changed.err, "o.csv.journal: error: holds rows of another sweep"), changed.err);
    for (const std::string part : {"the sweep file was", "the flags was \"\", is \"batch.sequence=1024\""})
      CHECK_MESSAGE(contains(changed.err, part), changed.err);
    CHECK_FALSE(contains(changed.err, "the scenario file was"));
  }

  TEST_CASE("a point over its time limit costs that point alone") {
    const Folder folder;
    // Full detail of many microbatches takes seconds; the other point milliseconds.
    folder.write(
        "w.yaml",
        SweepHead + "set: {run.detail: full}\ncross: {batch.global: [64, 200000]}\nmetrics: [step-time]\n");
    const Outcome outcome = run(folder, "sweep w.yaml --time-limit 1 --jobs 1");
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.out, "\n1,64,0."));
    CHECK_MESSAGE(
        contains(outcome.out, "\n2,200000,,not done in 1 s of processor time; raise --time-limit\n"),
        outcome.out);
  }
}

TEST_SUITE("cli: sweep under MPI") {
  TEST_CASE("an MPI job writes the same rows") {
    const Folder folder;
    const bool built_in = !contains(run(folder, "doctor").out, "not built in");
    if (!has_mpirun() || !built_in) {
      MESSAGE("skipped: " << (built_in ? "there is no mpirun" : "the program is built without MPI"));
      return;
    }
    folder.write("w.yaml", SweepHead + "cross: {batch.global: [64, 7, 128], run.seed: " + numbers(1, 10) +
                               "}\nmetrics: [step-time]\n");
    const std::string mpirun = "OMPI_MCA_plm_rsh_agent= mpirun -n 3 --oversubscribe --allow-run-as-root env";
    const Outcome alone = run(folder, "sweep w.yaml --output alone.csv");
    CHECK(alone.code == 1);
    const Outcome job = run(folder, "sweep w.yaml --output job.csv", "", mpirun);
    CHECK_MESSAGE(job.code == 1, job.err);
    CHECK(contains(job.err, "10 of 30 points failed"));
    CHECK(read(folder / "job.csv") == read(folder / "alone.csv"));
    CHECK(lines_of(read(folder / "job.csv")) == 31);
    // What is wrong is said once.
    const Outcome wrong = run(folder, "sweep x.yaml", "", mpirun);
    CHECK(wrong.code == 2);
    CHECK(wrong.err.find("no such file") == wrong.err.rfind("no such file"));
  }
}
