#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "backends/execute/plan.hpp"
#include "sim/schedule/text.hpp"

using namespace syncline;

namespace {

/// Exit code and all that it printed.
struct Ran {
  int code = -1;
  std::string text;
};

Ran run(const std::string& arguments, const std::string& program = SYNCLINE_RANK_CUDA) {
  Ran ran;
  std::FILE* pipe = popen((program + " " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> piece{};
  for (std::size_t size = 0; (size = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    ran.text.append(piece.data(), size);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

}  // namespace

TEST_CASE("without a driver, the ranks' program says so and exits with 3") {
  ExecutionPlan plan;
  plan.schedule = read_schedule(
      "syncline-schedule 1\nmesh dense axes=dp:2\nstream compute\nwork 0 \"a\"\n  kernel fixed bf16 "
      "seconds=1e-05\n"
      "role 0 \"all\" ranks=0-1\n  op 0 compute work=0 stream=compute\nend\n",
      "text");
  plan.work_times = {Seconds(1e-5)};
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "syncline-cuda-program-test";
  std::filesystem::create_directories(folder);
  write_plan(folder, plan);
  const Ran ran = run(folder.string() + " --virtual-ranks");
  std::filesystem::remove_all(folder);
  CAPTURE(ran.text);
  if (ran.code == 0) {
    MESSAGE("skipped: there is a GPU");
    return;
  }
  CHECK(ran.code == 3);
  CHECK(ran.text.starts_with("error: no "));  // driver, or GPU
}

TEST_CASE("the ranks' program has help, and names what it does not know") {
  CHECK(run("--help").code == 0);
  CHECK(run("--help").text.find("--virtual-ranks") != std::string::npos);
  CHECK(run("").code == 2);
  CHECK(run("no-such-folder").code == 2);
  CHECK(run("no-such-folder").text.find("no-such-folder/plan.json: error: cannot open the file") !=
        std::string::npos);
}

TEST_CASE("syncline execute says that there is no driver, or no GPU, and exits with 3") {
  const std::string lab = SYNCLINE_SOURCE_DIR "/scenarios/labs/9-for-real/1-1f1b.yaml";
  const Ran ran = run("execute " + lab + " --backend cuda --virtual-ranks", SYNCLINE_PROGRAM);
  CAPTURE(ran.text);
  if (ran.code == 0) {
    MESSAGE("skipped: there is a GPU");
    return;
  }
  CHECK(ran.code == 3);
  CHECK(ran.text.starts_with("error: no "));
  CHECK(ran.text.find("the ranks could not execute the schedule") != std::string::npos);
}
