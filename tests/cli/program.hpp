// The built program, run as from a shell.
#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/config/fixture.hpp"
#include "tests/text.hpp"

namespace syncline::test {

struct Outcome {
  int code = -1;
  std::string out, err;
  double cpu_seconds = 0;  // not wall-clock: tests run beside each other
};

inline double children_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Runs the program on the tests' own data; `arguments` as in a shell, whose folder is `folder`. `before`
/// stands in front of the command, such as "cat file |".
inline Outcome run(const Folder& folder, const std::string& arguments, const std::string& redirect = "",
                   const std::string& before = "") {
  const std::string out = folder / "stdout", err = folder / "stderr";
  const std::string command = "cd '" + (folder / "") + "' && " + before + " SYNCLINE_DATA='" + Data + "' '" +
                              SYNCLINE_PROGRAM + "' " + arguments + " >'" +
                              (redirect.empty() ? out : redirect) + "' 2>'" + err + "'";
  const double start = children_cpu_seconds();
  const int status = std::system(command.c_str());
  Outcome outcome;
  outcome.cpu_seconds = children_cpu_seconds() - start;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.out = redirect.empty() ? read(out) : "";
  outcome.err = read(err);
  return outcome;
}

/// Exit code, what stands on stderr, and nothing on stdout.
struct BadRow {
  const char* name;
  std::string arguments;
  int code;
  std::string err;
};

inline void check_refused(const Folder& folder, const std::vector<BadRow>& rows) {
  for (const BadRow& row : rows) {
    SUBCASE(row.name) {
      const Outcome outcome = run(folder, row.arguments);
      CHECK(outcome.code == row.code);
      CHECK(outcome.out == "");
      CHECK_MESSAGE(contains(outcome.err, row.err), outcome.err);
      CHECK(outcome.cpu_seconds < 1);
    }
  }
}

}  // namespace syncline::test
