#include "backends/execute/runtime.hpp"

#include <fstream>

#include "sim/core/error.hpp"

namespace syncline {

std::string Runtime::clock() const {
  std::string boot;  // of the machine: its steady clock counts from there
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  if (boot.empty()) throw EnvironmentError("cannot read /proc/sys/kernel/random/boot_id");
  return boot;
}

}  // namespace syncline
