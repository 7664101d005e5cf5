#include "tools/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace syncline {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

constexpr int NarrowestPicture = 40;

}  // namespace

Terminal standard_output() {
  Terminal terminal;
  if (isatty(STDOUT_FILENO) == 0) return terminal;
  terminal.colour = environment("NO_COLOR").empty() && environment("TERM") != "dumb";  // no-color.org
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    terminal.columns = std::max<int>(size.ws_col, NarrowestPicture);
  return terminal;
}

}  // namespace syncline
