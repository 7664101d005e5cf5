// What standard output and standard error can show.
#pragma once

#include <chrono>
#include <cstdint>

namespace syncline {

struct Terminal {
  bool interactive = false;
  bool colour = false;  // a terminal, and neither NO_COLOR is set nor TERM "dumb"
  int columns = 100;    // of the terminal; 100 when it is none
};

[[nodiscard]] Terminal standard_output();

/// A line on stderr that says how far a long simulation has come; nothing where stderr is no terminal.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // takes the line away
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(double simulated_seconds, std::uint64_t events);

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_, shown_ = false;
  Clock::time_point next_;  // not written before
};

}  // namespace syncline
