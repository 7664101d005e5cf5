// Schedules simulated on SimGrid's engine.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.hpp"

namespace syncline {

/// One run at a time in a process.
[[nodiscard]] std::unique_ptr<Backend> make_simgrid_backend();

/// "simgrid 3.32"
[[nodiscard]] std::string simgrid_version();

}  // namespace syncline
