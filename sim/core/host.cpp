#include "sim/core/host.hpp"

#include <unistd.h>

namespace syncline {

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace syncline
