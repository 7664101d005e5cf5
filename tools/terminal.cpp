#include "tools/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sim/core/units.hpp"

namespace syncline {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

constexpr int NarrowestPicture = 40;
constexpr std::chrono::seconds PatienceOfPeople{1};
constexpr std::chrono::milliseconds BetweenLines{200};
constexpr const char* ClearLine = "\r\x1b[K";

}  // namespace

Terminal standard_output() {
  Terminal terminal;
  if (isatty(STDOUT_FILENO) == 0) return terminal;
  terminal.interactive = true;
  terminal.colour = environment("NO_COLOR").empty() && environment("TERM") != "dumb";  // no-color.org
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    terminal.columns = std::max<int>(size.ws_col, NarrowestPicture);
  return terminal;
}

ProgressLine::ProgressLine()
    : terminal_(isatty(STDERR_FILENO) != 0 && environment("TERM") != "dumb"),
      next_(Clock::now() + PatienceOfPeople) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fputs(ClearLine, stderr);
}

void ProgressLine::show(double simulated_seconds, std::uint64_t events) {
  if (!terminal_ || Clock::now() < next_) return;
  next_ = Clock::now() + BetweenLines;
  shown_ = true;
  const std::string line =
      fmt::format("{}simulating: {}, {} events", ClearLine, to_text(Seconds(simulated_seconds)), events);
  std::fputs(line.c_str(), stderr);
}

}  // namespace syncline
