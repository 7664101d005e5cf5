// `syncline execute` as a user meets it: what was measured keeps to the schedule, and nothing is left
// running.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "sim/schedule/text.hpp"
#include "sim/timeline/trace.hpp"
#include "tests/cli/mpi.hpp"
#include "tests/cli/program.hpp"

using namespace syncline;
using namespace syncline::test;
using nlohmann::json;

namespace {

using Clock = std::chrono::steady_clock;

const std::string Lab = SYNCLINE_SOURCE_DIR "/scenarios/labs/9-for-real/";

const std::string ScheduleHead =
    "syncline-schedule 1\nname \"test\"\nmesh dense axes=dp:4\nfamily dp mesh=dense axes=dp\n";
const std::string On = " --topology node.yaml";  // written by NodeFolder

/// A folder with a machine to run on.
struct NodeFolder : Folder {
  NodeFolder() {
    write("node.yaml",
          "version: 1\naccelerators: 4\naccelerators-per-node: 4\n"
          "scale-up: {kind: switch, link: {bandwidth: 4GBps, latency: 25us}}\n");
  }
};

/// All kinds of ops: rank r sends to r + 1 round the ring, eagerly on one stream, and otherwise on two
/// others.
std::string all_kinds() {
  std::string text = ScheduleHead +
                     "stream compute\nstream net\nstream wire\nstream wire-out\nstream wire-in\n"
                     "exchange uneven counts=1,2,3,4/4,3,2,1/0,0,5,5/7,1,1,1\n"
                     "work 0 \"step\"\n  kernel fixed bf16 seconds=0.003\n";
  for (int rank = 0; rank < 4; ++rank) {
    const std::string n = std::to_string(rank);
    const std::string next = std::to_string((rank + 1) % 4), before = std::to_string((rank + 3) % 4);
    text += "role " + n + " \"rank " + n + "\" ranks=" + n + "\n";
    text += "  op 0 compute work=0 stream=compute name=a\n";
    int op = 1;
    for (const char* kind : {"all-reduce", "all-gather", "reduce-scatter", "broadcast", "all-to-all", "shift",
                             "reduce", "scatter", "gather"}) {
      text += "  op " + std::to_string(op) + " collective " + kind +
              " family=dp bytes=100000 stream=net name=" + kind + (op == 1 ? " after=0\n" : "\n");
      ++op;
    }
    text += "  op 10 collective all-to-all family=dp bytes=100000 stream=net exchange=uneven name=uneven\n";
    text += "  op 11 send to=" + next + " bytes=300000 stream=wire eager name=pass\n";
    text += "  op 12 receive from=" + before + " bytes=300000 stream=wire eager name=get\n";
    text += "  op 13 host-wait op=12\n";
    text += "  op 14 compute work=0 stream=compute after=10,12 name=b\n";
    text += "  op 15 send to=" + next + " bytes=500000 message=7 stream=wire-out name=second\n";
    text += "  op 16 receive from=" + before + " bytes=500000 message=7 stream=wire-in name=second\n";
  }
  return text + "speed rank=2 factor=4\nend\n";
}

/// One collective of 8 GB in each of many streams: more than the buffers of any machine hold.
std::string too_large() {
  std::string streams, ops;
  for (int i = 0; i < 200; ++i) {
    streams += "stream s" + std::to_string(i) + "\n";
    ops += "  op " + std::to_string(i) + " collective all-reduce family=dp bytes=8e+09 stream=s" +
           std::to_string(i) + "\n";
  }
  return ScheduleHead + streams + "role 0 \"all\" ranks=0-3\n" + ops + "end\n";
}

/// One op of compute of so many seconds on each rank.
std::string waiting(const std::string& seconds) {
  return ScheduleHead + "stream compute\nwork 0 \"long\"\n  kernel fixed bf16 seconds=" + seconds +
         "\nrole 0 \"all\" ranks=0-3\n  op 0 compute work=0 stream=compute phase=F layer=3\nend\n";
}

// --- what a measured timeline has to keep to ---------------------------------------------------------------

/// Each rank's spans are its program's ops in order; no stream has two at once; none starts before its
/// `after` ends.
void check_order(const Schedule& schedule, const Timeline& timeline) {
  const std::vector<std::uint32_t> first = first_op_of_role(schedule);
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < schedule.world_size(); ++rank) {
    CAPTURE(rank);
    const std::vector<Op>& program = schedule.role(RankId(rank)).program;
    const std::size_t begin = at;
    std::map<StreamId, Seconds> free;
    for (std::size_t op = 0; op < program.size(); ++op, ++at) {
      CAPTURE(op);
      REQUIRE(at < timeline.spans.size());
      const Span& span = timeline.spans[at];
      REQUIRE(span.rank == RankId(rank));
      REQUIRE(span.op == first[schedule.role_of[rank].value()] + op);
      CHECK(span.start <= span.end);
      if (program[op].on_host()) continue;
      CHECK(free[program[op].stream] <= span.start);
      free[program[op].stream] = span.end;
      for (const OpIndex earlier : program[op].after)
        if (!program[earlier.value()].on_host())
          CHECK(timeline.spans[begin + earlier.value()].end <= span.start);
    }
  }
  CHECK(at == timeline.spans.size());
}

/// No collective ends on a member before all have come to it, and nothing is received before it was sent: to
/// within what clocks differ by.
void check_causes(const Schedule& schedule, const Timeline& timeline, Seconds clock_error) {
  struct Meeting {
    std::size_t ends = 0;
    Seconds last_start{0}, first_end{1e9};
  };
  std::map<std::tuple<FamilyId, GroupId, StreamId, std::size_t>, Meeting> collectives;
  std::map<std::tuple<RankId, RankId, int, std::size_t>, std::pair<Seconds, Seconds>>
      messages;  // start of send, end of receive
  std::size_t at = 0;
  for (std::size_t r = 0; r < schedule.world_size(); ++r) {
    const RankId rank(r);
    std::map<std::tuple<FamilyId, StreamId>, std::size_t> met;
    std::map<std::tuple<RankId, RankId, int>, std::size_t> passed;
    for (const Op& op : schedule.role(rank).program) {
      const Span& span = timeline.spans[at++];
      if (const auto* collective = std::get_if<Collective>(&op.body)) {
        const GroupId group = schedule.families[collective->family.value()].group_of(rank);
        Meeting& meeting =
            collectives[{collective->family, group, op.stream, met[{collective->family, op.stream}]++}];
        ++meeting.ends;
        meeting.last_start = std::max(meeting.last_start, span.start);
        meeting.first_end = std::min(meeting.first_end, span.end);
      } else if (const auto* send = std::get_if<Send>(&op.body)) {
        const RankId to = schedule.peer(rank, send->to);
        messages[{rank, to, send->message, passed[{rank, to, send->message}]++}].first = span.start;
      } else if (const auto* receive = std::get_if<Receive>(&op.body)) {
        const RankId from = schedule.peer(rank, receive->from);
        messages[{from, rank, receive->message, passed[{from, rank, receive->message}]++}].second = span.end;
      }
    }
  }
  for (const auto& [key, meeting] : collectives)
    CHECK(meeting.last_start <= meeting.first_end + 2 * clock_error);
  for (const auto& [key, times] : messages) CHECK(times.first <= times.second + 2 * clock_error);
}

/// Executes it, and holds what was measured against the schedule.
json execute_and_check(const Folder& folder, const std::string& file, const std::string& options) {
  const Outcome outcome = run(
      folder, "execute '" + file + "' " + options + " --json --trace measured.json --schedule executed.txt");
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const Schedule schedule = read_schedule(read(folder / "executed.txt"), "executed.txt");
  const Timeline timeline = read_trace(folder / "measured.json");
  json object = json::parse(outcome.out);
  check_order(schedule, timeline);
  check_causes(schedule, timeline, Seconds(object.at("clock_error_s")));
  return object;
}

// --- processes ---------------------------------------------------------------------------------------------

/// Starts the program as a shell does in the background.
pid_t start(const Folder& folder, std::vector<std::string> arguments) {
  const pid_t process = fork();
  REQUIRE(process >= 0);
  if (process != 0) return process;
  if (chdir((folder / "").c_str()) != 0) _exit(1);
  dup2(open("stdout", O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
  dup2(open("stderr", O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
  setenv("SYNCLINE_DATA", Data.c_str(), 1);
  std::vector<char*> words{const_cast<char*>("syncline")};
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  execv(SYNCLINE_PROGRAM, words.data());
  _exit(127);
}

/// Starts the program on a terminal, whose other end is `terminal`; temporary files lie in `temporary`.
pid_t start_on_terminal(const Folder& folder, const std::string& temporary, int& terminal) {
  const pid_t process = forkpty(&terminal, nullptr, nullptr, nullptr);
  REQUIRE(process >= 0);
  if (process != 0) return process;
  if (chdir((folder / "").c_str()) != 0) _exit(1);
  setenv("SYNCLINE_DATA", Data.c_str(), 1);
  setenv("TMPDIR", temporary.c_str(), 1);
  setenv("TERM", "xterm", 1);
  execl(SYNCLINE_PROGRAM, "syncline", "execute", "long.txt", "--topology", "node.yaml", nullptr);
  _exit(127);
}

/// Ranks that run on a folder, by their process.
std::vector<pid_t> ranks_on(const std::string& folder) {
  std::vector<pid_t> ranks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    const std::size_t end = line.find('\0');
    if (end != std::string::npos && line.substr(0, end).ends_with("syncline-rank-mpi") &&
        contains(line, folder))
      ranks.push_back(std::stoi(name));
  }
  return ranks;
}

bool within(std::chrono::seconds limit, const auto& holds) {
  for (const auto end = Clock::now() + limit; Clock::now() < end; usleep(20'000))
    if (holds()) return true;
  return false;
}

/// Starts four ranks with an op of a minute, and waits until all are at it.
pid_t start_long_run(const Folder& folder) {
  folder.write("long.txt", waiting("60"));
  const pid_t process =
      start(folder, {"execute", "long.txt", "--topology", "node.yaml", "--work-folder", "work"});
  const auto all_at_it = [&] {
    for (int rank = 0; rank < 4; ++rank) {
      const std::string words = read(folder / ("work/progress-" + std::to_string(rank)));
      if (words.size() < 8 || words[4] == 0) return false;  // the stage, then the op of the only stream
    }
    return true;
  };
  REQUIRE(within(std::chrono::seconds(60), all_at_it));
  return process;
}

struct End {
  int status = 0;
  bool in_time = false;  // 10 s
};
End end_of(pid_t process) {
  End end;
  end.in_time =
      within(std::chrono::seconds(10), [&] { return waitpid(process, &end.status, WNOHANG) == process; });
  if (!end.in_time) kill(process, SIGKILL);
  return end;
}

}  // namespace

TEST_SUITE("cli: execute") {
  TEST_CASE("every kind of op runs in the order of the schedule, after what it waits for") {
    SKIP_WITHOUT_MPI();
    const NodeFolder folder;
    const json result = execute_and_check(folder, folder.write("all.txt", all_kinds()), "--repeats 3" + On);
    CHECK(result.at("ranks") == 4);
    CHECK(result.at("step_times_s").size() == 3);
    // Rank 2 takes four times 3 ms for each of two ops, and all wait for its first: 12 + 12 ms.
    CHECK(result.at("step_time_s").get<double>() >= 0.024);
    // Nine kinds, of which two ops are alike; eager and other sends and receives of four ranks.
    CHECK(result.at("communication").size() == 25);
  }

  TEST_CASE("the scenarios of the lab keep to their schedules") {
    SKIP_WITHOUT_MPI();
    const NodeFolder folder;
    for (const char* name : {"1-1f1b", "2-interleaved", "3-zb-h1", "4-fsdp", "5-experts"}) {
      CAPTURE(name);
      const json result = execute_and_check(folder, Lab + name + ".yaml", "--repeats 2 --warmup 0");
      CHECK(result.at("simulated_step_time_s").get<double>() > 0);
      CHECK(result.at("step_time_s").get<double>() > 0);
    }
  }

  TEST_CASE("what was measured before a run is ended is kept, and files that cannot be written are told at once") {
    SKIP_WITHOUT_MPI();
    const NodeFolder folder;
    folder.write("s.txt", all_kinds());
    const Outcome ended = run(folder, "execute s.txt --warmup 0 --repeats 10000 --trace t.json" + On, "",
                              "timeout -s INT 6 env");
    CHECK(ended.code != 0);
    CHECK_MESSAGE(contains(ended.err, "what was measured before that is in t.json"), ended.err);
    CHECK(read_trace(folder / "t.json").ranks == 4);

    const Outcome nowhere = run(folder, "execute s.txt --trace nowhere/t.json" + On);
    CHECK(nowhere.code == 2);
    CHECK_MESSAGE(contains(nowhere.err, "--trace: error: there is no folder"), nowhere.err);
    const Outcome launcher = run(folder, "execute s.txt --launcher true --work-folder w" + On);
    CHECK(launcher.code == 3);
    CHECK_MESSAGE(contains(launcher.err, "no rank"), launcher.err);
  }

  TEST_CASE("a scaled schedule is executed, and written, as it is simulated") {
    SKIP_WITHOUT_MPI();
    const NodeFolder folder;
    const std::string file = folder.write("long.txt", waiting("0.4"));
    const json result =
        execute_and_check(folder, file, "--repeats 1 --warmup 0 --scale 0.05 --simulated sim.json" + On);
    CHECK(result.at("simulated_step_time_s").get<double>() == doctest::Approx(0.02));  // 0.4 s · 0.05
    CHECK(result.at("step_time_s").get<double>() >= 0.02);
    CHECK(read_trace(folder / "sim.json").spans.front().end.si() == doctest::Approx(0.02));
    const Outcome simulated = run(folder, "run executed.txt --json" + On);
    CHECK(json::parse(simulated.out).at("step_time_s").get<double>() == doctest::Approx(0.02));
  }

  TEST_CASE("kernels are computed, or what they need is named") {
    SKIP_WITHOUT_MPI();
    const NodeFolder folder;
    folder.write(
        "core.yaml",
        "version: 1\nmemory: 4GB\nhbm: {bandwidth: 8GBps, efficiency: 1}\npeak: {fp32: 50GFLOPps}\n"
        "gemm: {units: 1, plateau: 1, k-half: 0}\nattention: {forward: 1, backward: 1}\nkernel-gap: 0us\n"
        "launch: 0us\ncompute-rate-while-communicating: 1\nreserve: 0B\n");
    folder.write("products.txt",
                 ScheduleHead +
                     "stream compute\nwork 0 \"product\"\n"
                     "  kernel gemm fp32 m=64 n=64 k=64 flop=524288 hbm-bytes=49152\n"
                     "  kernel attention fp32 batch=2 m=64 n=64 k=16 flop=524288 hbm-bytes=49152\n"
                     "  kernel elementwise fp32 hbm-bytes=1e+06\n"
                     "role 0 \"all\" ranks=0-3\n  op 0 compute work=0 stream=compute\nend\n");
    const Outcome outcome =
        run(folder, "execute products.txt --compute kernels --repeats 1 --device core.yaml --json" + On);
    if (contains(outcome.err, "libopenblas-dev")) {
      CHECK(outcome.code == 3);
      MESSAGE("skipped: the program is built without OpenBLAS");
      return;
    }
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    CHECK(json::parse(outcome.out).at("compute") == "kernels");
  }

  TEST_CASE("wrong options and what cannot be executed are refused") {
    const NodeFolder folder;
    folder.write("s.txt", waiting("0.001"));
    folder.write("w.yaml",
                 "version: 1\npipeline: {schedule: gpipe, stages: 1000, microbatches: 2, forward: 1ms, "
                 "backward-input: 1ms, backward-weight: 1ms}\n");
    check_refused(
        folder,
        {
            {"no file", "execute", 2, "file is required"},
            {"no topology", "execute s.txt", 2, "add --topology"},
            {"unknown backend", "execute s.txt --backend gpu", 2, "--backend"},
            {"bare time", "execute s.txt --timeout 5" + On, 2, "--timeout: error:"},
            {"virtual ranks", "execute s.txt --virtual-ranks" + On, 2, "--virtual-ranks: error: is of GPUs"},
            {"no common folder", "execute s.txt --hostfile h" + On, 2, "--work-folder: error: is needed"},
            {"scale", "execute s.txt --scale 0" + On, 2, "--scale"},
            {"no scale", "execute s.txt --scale nan" + On, 2, "--scale"},
            {"too many ranks", "execute w.yaml", 2, "too many for this machine"},
        });
  }

  TEST_CASE("buffers beyond the machine's memory are refused with both figures") {
    SKIP_WITHOUT_MPI();
    const NodeFolder folder;
    folder.write("large.txt", too_large());
    const Outcome outcome = run(folder, "execute large.txt" + On);
    CHECK(outcome.code == 3);
    CHECK_MESSAGE(contains(outcome.err, "take 12.8 TB"), outcome.err);  // 4 ranks · 200 streams · 2 · 8 GB
    CHECK(contains(outcome.err, "of memory are free"));
  }

  TEST_CASE("a launcher that starts nothing is told from a rank that dies") {
    SKIP_WITHOUT_MPI();
    const NodeFolder folder;
    folder.write("s.txt", waiting("0.001"));
    for (const std::string launcher : {"false", "no-such-launcher"}) {
      const Outcome outcome =
          run(folder, "execute s.txt --work-folder w --launcher '" + launcher + " {ranks}'" + On);
      CHECK(outcome.code == 3);
      CHECK_MESSAGE(contains(outcome.err, "no rank began, exit code"), outcome.err);
      CHECK(contains(outcome.err, "see whether this works: " + launcher + " 4 hostname"));
    }
  }

  TEST_CASE("a rank in which nothing moves ends all, with what it is at") {
    SKIP_WITHOUT_MPI();
    const NodeFolder folder;
    folder.write("long.txt", waiting("60"));
    const auto begin = Clock::now();
    const Outcome outcome = run(folder, "execute long.txt --timeout 1s" + On);
    CHECK(outcome.code == 1);
    CHECK(Clock::now() - begin < std::chrono::seconds(20));
    CHECK_MESSAGE(contains(outcome.err, "layer 3"), outcome.err);
    CHECK(contains(outcome.err, "a rank hung or failed, see above; all ranks were ended"));
  }

  TEST_CASE("when a rank is killed all end within ten seconds, and it is named with what it was at") {
    SKIP_WITHOUT_MPI();
    const NodeFolder folder;
    const pid_t process = start_long_run(folder);
    const std::vector<pid_t> ranks = ranks_on(folder / "work");
    REQUIRE(ranks.size() == 4);
    kill(ranks[2], SIGKILL);
    const End end = end_of(process);
    CHECK(end.in_time);
    CHECK(WIFEXITED(end.status));
    CHECK(WEXITSTATUS(end.status) == 1);
    CHECK(ranks_on(folder / "work").empty());
    const std::string said = read(folder / "stderr");
    CHECK_MESSAGE(contains(said, " died at: long for 60 s, F layer 3"), said);
    CHECK(contains(said, "by signal 9 (Killed); all ranks were ended"));
    CHECK(said.find("died") == said.rfind("died"));  // no other is blamed
  }

  TEST_CASE("who interrupts it leaves nothing running") {
    SKIP_WITHOUT_MPI();
    for (const int signal : {SIGINT, SIGTERM}) {
      CAPTURE(signal);
      const NodeFolder folder;
      const pid_t process = start_long_run(folder);
      kill(process, signal);
      const End end = end_of(process);
      CHECK(end.in_time);
      CHECK(WIFSIGNALED(end.status));
      CHECK(WTERMSIG(end.status) == signal);
      CHECK(within(std::chrono::seconds(5), [&] { return ranks_on(folder / "work").empty(); }));
    }
  }

  TEST_CASE("Ctrl-C on a terminal ends the ranks first, and takes the temporary folder away") {
    SKIP_WITHOUT_MPI();
    const NodeFolder folder;
    folder.write("long.txt", waiting("60"));
    const std::string temporary = folder / "tmp";
    std::filesystem::create_directory(temporary);
    int terminal = -1;
    const pid_t process = start_on_terminal(folder, temporary, terminal);
    REQUIRE(within(std::chrono::seconds(60), [&] { return ranks_on(temporary).size() == 4; }));
    REQUIRE(write(terminal, "\x03", 1) == 1);
    const End end = end_of(process);
    CHECK(end.in_time);
    CHECK(WIFSIGNALED(end.status));
    CHECK(WTERMSIG(end.status) == SIGINT);
    CHECK(within(std::chrono::seconds(5), [&] { return ranks_on(temporary).empty(); }));
    for (const auto& entry : std::filesystem::directory_iterator(temporary))
      CHECK(!entry.path().filename().string().starts_with("syncline-execute-"));
    close(terminal);
  }

  TEST_CASE("when the program itself is killed, its ranks end, too") {
    SKIP_WITHOUT_MPI();
    const NodeFolder folder;
    const pid_t process = start_long_run(folder);
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
    CHECK(within(std::chrono::seconds(10), [&] { return ranks_on(folder / "work").empty(); }));
  }
}
