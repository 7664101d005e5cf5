// For tests that execute schedules by MPI.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace syncline::test {

/// Why nothing can be executed here; empty when it can.
inline std::string why_no_mpi() {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) return "there is no mpirun";
  const std::string rank = std::filesystem::path(SYNCLINE_PROGRAM).parent_path() / "syncline-rank-mpi";
  return access(rank.c_str(), X_OK) == 0 ? "" : "the program is built without MPI";
}

#define SKIP_WITHOUT_MPI()                                        \
  if (const std::string reason = why_no_mpi(); !reason.empty()) { \
    MESSAGE("skipped: " << reason);                               \
    return;                                                       \
  }

}  // namespace syncline::test
