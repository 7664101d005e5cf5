// What a timeline's header says of the machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace syncline::cuda {

/// GPU, driver, CUDA, clocks, power limit, ECC, links: key and text. What only NVIDIA's management library
/// (NVML) tells is left out where that is missing.
/// @throws CallFailed
[[nodiscard]] std::vector<std::pair<std::string, std::string>> describe_machine(int device);

}  // namespace syncline::cuda
