#include "backends/execute/plan.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "sim/core/error.hpp"
#include "tests/execute/plans.hpp"
#include "tests/config/fixture.hpp"

using namespace syncline;
using namespace syncline::test;

TEST_CASE("a plan and a record are read as they were written") {
  const Folder folder;
  ExecutionPlan plan = two_stages();
  plan.compute = ComputeBy::Kernels;
  plan.warmup = 2;
  plan.repeats = 7;
  plan.timeout = Seconds(12.5);
  plan.work_times = {Seconds(0.1), Seconds(1.0 / 3)};
  write_plan(folder / ".", plan);
  CHECK(read_plan(folder / ".") == plan);

  const ExecutionRecord record{{Seconds(0.1), Seconds(0.30000000000000004)}, 1, Seconds(2e-6)};
  write_record(folder / ".", record);
  CHECK(read_record(folder / ".") == record);
}

TEST_CASE("what is missing or broken of a plan is said with its file") {
  const Folder folder;
  const auto message = [&] {
    try {
      static_cast<void>(read_plan(folder / "."));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(message().find("plan.json: error: cannot open the file") != std::string::npos);
  write_plan(folder / ".", two_stages());
  std::filesystem::remove(folder / "schedule.txt");
  CHECK(message().find("schedule.txt: error: cannot open the file") != std::string::npos);

  ExecutionPlan few = two_stages();
  few.work_times.pop_back();
  write_plan(folder / ".", few);
  CHECK(message().find("has the times of 1 works, the schedule has 2") != std::string::npos);

  folder.write("plan.json", "{\"warmup\": 1");
  CHECK(message().find("plan.json: error: not a file that syncline wrote") != std::string::npos);
  CHECK_THROWS_AS(write_plan(folder / "nowhere", two_stages()), EnvironmentError);
}
