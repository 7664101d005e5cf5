// The parts of `syncline calibrate`: figures of a device or of a fabric out of what was measured.
#pragma once

#include <memory>

#include "tools/subcommand.hpp"

namespace syncline {

std::unique_ptr<Subcommand> make_calibrate_device();
std::unique_ptr<Subcommand> make_calibrate_fabric();
std::unique_ptr<Subcommand> make_calibrate_library();
std::unique_ptr<Subcommand> make_calibrate_experts();

}  // namespace syncline
