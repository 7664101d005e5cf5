#include "sim/device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "sim/device/cluster.hpp"

namespace syncline {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// FLOP that the tiles of a product occupy the machine for, idle units of the last wave and cut-off edges
/// included.
Flop occupied_flop(const Kernel& kernel, int tile_m, int tile_n, int units) {
  const std::int64_t tiles = kernel.batch * ceil_div(kernel.m, tile_m) * ceil_div(kernel.n, tile_n);
  const double slots = static_cast<double>(ceil_div(tiles, units)) * units;
  return Flop(2.0 * tile_m * tile_n * static_cast<double>(kernel.k) * slots);
}

Seconds gemm_time(const Kernel& kernel, const Device& device) {
  const GemmModel& gemm = device.gemm;
  const double k = static_cast<double>(kernel.k);
  const FlopPerSecond rate =
      device.peak_of(kernel.precision) * (device.sustained_clock * gemm.plateau * k / (k + gemm.k_half));
  const Flop large = occupied_flop(kernel, gemm.tile_m, gemm.tile_n, gemm.units);
  const Flop small = occupied_flop(kernel, gemm.small_m, gemm.small_n, gemm.units) / gemm.small_rate;
  return std::min(large, small) / rate;
}

Seconds attention_time(const Kernel& kernel, const Device& device) {
  const double share = kernel.backward ? device.attention_backward : device.attention_forward;
  return kernel.flop / (device.peak_of(kernel.precision) * (device.sustained_clock * share));
}

Seconds arithmetic_time(const Kernel& kernel, const Device& device) {
  switch (kernel.kind) {
    case KernelClass::Gemm:
      return gemm_time(kernel, device);
    case KernelClass::Attention:
      return attention_time(kernel, device);
    default:
      return Seconds(0);  // bound by memory
  }
}

Seconds memory_time(const Kernel& kernel, const Device& device) {
  if (kernel.hbm == Bytes(0)) return Seconds(0);
  if (device.hbm_bandwidth <= BytesPerSecond(0)) {
    throw std::invalid_argument(fmt::format("device \"{}\" has no memory bandwidth", device.name));
  }
  return kernel.hbm / (device.hbm_bandwidth * device.hbm_efficiency);
}

}  // namespace

FlopPerSecond Device::peak_of(Precision precision) const {
  const auto found = peak.find(precision);
  if (found == peak.end()) {
    throw std::invalid_argument(fmt::format("device \"{}\" has no peak for {}", name, name_of(precision)));
  }
  return found->second;
}

Device ideal_device() {
  Device device;
  device.name = "ideal";
  device.source = "no costs of its own, for schedules with fixed times";
  return device;
}

Seconds kernel_time(const Kernel& kernel, const Device& device) {
  if (kernel.kind == KernelClass::Fixed) return kernel.fixed;
  return std::max(arithmetic_time(kernel, device), memory_time(kernel, device)) + device.kernel_gap;
}

Seconds work_time(const Work& work, const Device& device) {
  Seconds total;
  for (const Kernel& kernel : work.kernels) total += kernel_time(kernel, device);
  return total;
}

std::vector<AcceleratorId> placement_in_order(std::size_t ranks) {
  std::vector<AcceleratorId> placement;
  placement.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) placement.emplace_back(rank);
  return placement;
}

}  // namespace syncline
