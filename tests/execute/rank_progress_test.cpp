// What is left of a rank when it is gone.
#include "backends/execute/rank_progress.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/config/fixture.hpp"
#include "tests/execute/plans.hpp"

namespace syncline {
namespace {

constexpr std::size_t Compute = 0, Transfers = 1;  // streams of two_stages()

TEST_SUITE("execute: rank progress") {
  TEST_CASE("only a rank that stopped without a word is said to have died, with what its streams were at") {
    const test::Folder folder;
    const ExecutionPlan plan = test::two_stages();
    const RankStage last[] = {RankStage::Done, RankStage::Told, RankStage::Running, RankStage::Failed};
    for (std::size_t rank = 0; rank < 4; ++rank) {
      RankProgress progress(folder / "", rank, plan.schedule.streams.size());
      progress.begins(StreamId(Transfers), 0);
      progress.ends(StreamId(Transfers));
      progress.begins(StreamId(Compute), 1);
      progress.set(last[rank]);
    }
    CHECK(who_died(folder / "", plan) == "rank 2 died at: forward for 10 ms, F microbatch 0 (compute)");
    const std::vector<RankTrace> traces = read_progress(folder / "", plan.schedule);
    REQUIRE(traces.size() == 4);
    for (std::size_t rank = 0; rank < 4; ++rank) CHECK(traces[rank].stage == last[rank]);
    CHECK(traces[3].at[Compute] == 1U);
    CHECK_FALSE(traces[3].at[Transfers].has_value());
  }

  TEST_CASE("a rank that never began is absent, and is not said to have died") {
    const test::Folder folder;
    const ExecutionPlan plan = test::two_stages();
    CHECK(read_progress(folder / "", plan.schedule)[0].stage == RankStage::Absent);
    CHECK(who_died(folder / "", plan) == "");
  }

  TEST_CASE("what a process noted stays when it is killed") {
    const test::Folder folder;
    const ExecutionPlan plan = test::two_stages();
    const pid_t process = fork();
    REQUIRE(process >= 0);
    if (process == 0) {
      RankProgress progress(folder / "", 1, plan.schedule.streams.size());
      progress.begins(StreamId(Transfers), 1);
      kill(getpid(), SIGKILL);
    }
    waitpid(process, nullptr, 0);
    CHECK(who_died(folder / "", plan) == "rank 1 died at: send of 4.096 kB to rank 3, F microbatch 0 (pp)");
  }
}

}  // namespace
}  // namespace syncline
