// The handcrafted zero-bubble schedules, which differ in one number.
#pragma once

#include "sim/pipeline/generator.hpp"

namespace syncline::pipeline {

/// 1F1B in which a rank starts early and computes weight gradients late.
/// @param depth  forwards of warm-up for each rank behind, and weight gradients held back for each rank in
/// front:
///               1 in ZB-H1, 2 in ZB-H2
[[nodiscard]] Order handcrafted_zero_bubble(const Request& request, int depth);

}  // namespace syncline::pipeline
