// What standard output can show.
#pragma once

namespace syncline {

struct Terminal {
  bool colour = false;  // a terminal, and neither NO_COLOR is set nor TERM "dumb"
  int columns = 100;    // of the terminal; 100 when it is none
};

[[nodiscard]] Terminal standard_output();

}  // namespace syncline
