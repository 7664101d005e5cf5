#include "tools/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
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

bool errors_are_seen() {
  return isatty(STDERR_FILENO) != 0 && environment("TERM") != "dumb";
}

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

ProgressLine::ProgressLine() : terminal_(errors_are_seen()), next_(Clock::now() + PatienceOfPeople) {}

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

WaitingLine::WaitingLine(const std::string& what) {
  if (!errors_are_seen()) return;
  writer_ = std::jthread([what](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any over;
    std::unique_lock lock(mutex);
    for (std::chrono::seconds waited = PatienceOfPeople;; waited += PatienceOfPeople) {
      over.wait_for(lock, stop, PatienceOfPeople, [] { return false; });
      if (stop.stop_requested()) break;
      std::fputs(fmt::format("{}{}: {} s", ClearLine, what, waited.count()).c_str(), stderr);
    }
    std::fputs(ClearLine, stderr);
  });
}

WaitingLine::~WaitingLine() = default;

ProgressBar::ProgressBar(std::string items, std::size_t count)
    : items_(std::move(items)),
      count_(count),
      terminal_(errors_are_seen()),
      begin_(Clock::now()),
      next_(begin_ + PatienceOfPeople) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::fputs(ClearLine, stderr);
}

void ProgressBar::step() {
  ++done_;
  if (!terminal_ || Clock::now() < next_) return;
  next_ = Clock::now() + BetweenLines;
  shown_ = true;
  constexpr std::size_t Width = 30;
  const std::string full(Width * done_ / count_, '#');
  const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  const double rate = static_cast<double>(done_) / seconds;
  const std::string line =
      fmt::format("{}[{:<{}}] {}/{} {}, {:.1f}/s, {:.0f} s left", ClearLine, full, Width, done_, count_,
                  items_, rate, static_cast<double>(count_ - done_) / rate);
  std::fputs(line.c_str(), stderr);
}

}  // namespace syncline
