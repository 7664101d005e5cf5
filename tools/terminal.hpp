// What standard output and standard error can show.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

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

/// A line on stderr that says for how long something goes on that cannot tell how far it is; nothing where stderr is no
/// terminal.
class WaitingLine {
 public:
  explicit WaitingLine(const std::string& what);
  ~WaitingLine();  // takes the line away
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

 private:
  std::jthread writer_;
};

/// A bar on stderr: how many of a number of items are done, how fast, and how long the rest takes; nothing where
/// stderr is no terminal.
class ProgressBar {
 public:
  ProgressBar(std::string items, std::size_t count);
  ~ProgressBar();  // takes the bar away
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void step();

 private:
  using Clock = std::chrono::steady_clock;
  std::string items_;
  std::size_t count_, done_ = 0;
  bool terminal_, shown_ = false;
  Clock::time_point begin_, next_;
};

}  // namespace syncline
