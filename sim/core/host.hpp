// The machine that this process runs on.
#pragma once

#include <string>

namespace syncline {

[[nodiscard]] std::string host_name();

}  // namespace syncline
