// Ranks as threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "backends/execute/world.hpp"

namespace syncline {

/// One world a rank, each for a thread of its own. abort() ends the process.
[[nodiscard]] std::vector<std::unique_ptr<World>> thread_worlds(int size);

}  // namespace syncline
