// What MPI does for a schedule, on four processes of this machine.
#include <doctest/doctest.h>

#include <cstdlib>

#include "tools/launcher.hpp"

namespace syncline {
namespace {

bool has_mpirun() {
  return std::system("command -v mpirun >/dev/null 2>&1") == 0;
}

TEST_SUITE("mpi") {
  TEST_CASE("every kind of collective puts every number in its place, in groups of two, three and four") {
    if (!has_mpirun()) {
      MESSAGE("skipped: there is no mpirun");
      return;
    }
    LaunchOptions options;
    options.processes = 4;
    const Ended ended = run_to_end(launch_of(options, {MPI_COLLECTIVES}));
    CHECK(ended.code == 0);  // what is wrong stands above
    CHECK(ended.interrupted == 0);
  }
}

}  // namespace
}  // namespace syncline
