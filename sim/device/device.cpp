#include "sim/device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
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
  const GemmRates rates = gemm.rates_of(kernel.precision);
  const double k = static_cast<double>(kernel.k);
  const FlopPerSecond rate =
      device.peak_of(kernel.precision) * (device.sustained_clock * rates.plateau * k / (k + rates.k_half));
  const Flop large = occupied_flop(kernel, gemm.tile_m, gemm.tile_n, gemm.units);
  const Flop small = occupied_flop(kernel, gemm.small_m, gemm.small_n, gemm.units) / rates.small_rate;
  return std::min(large, small) / rate;
}

Seconds attention_time(const Kernel& kernel, const Device& device) {
  constexpr std::int64_t WideHead = 128;  // flash kernels are tuned up to here
  const double share = (kernel.backward ? device.attention_backward : device.attention_forward) *
                       (kernel.k > WideHead ? device.attention_wide_head : 1.0);
  return kernel.flop / (device.peak_of(kernel.precision) * (device.sustained_clock * share)) +
         device.attention_ramp;
}

Seconds memory_time(const Kernel& kernel, const Device& device) {
  if (kernel.hbm == Bytes(0)) return Seconds(0);
  if (device.hbm_bandwidth <= BytesPerSecond(0)) {
    throw std::invalid_argument(fmt::format("device \"{}\" has no memory bandwidth", device.name));
  }
  const bool gathers = kernel.kind == KernelClass::Gather;
  const double share =
      gathers ? device.gather_efficiency.value_or(device.hbm_efficiency) : device.hbm_efficiency;
  return kernel.hbm / (device.hbm_bandwidth * share);
}

/// Without the gap.
Seconds busy_time(const Kernel& kernel, const Device& device) {
  const Seconds memory = memory_time(kernel, device);
  switch (kernel.kind) {
    case KernelClass::Gemm: {
      const Seconds arithmetic = gemm_time(kernel, device);
      const GemmModel& gemm = device.gemm;
      const double exposed =
          kernel.grouped ? gemm.grouped_exposed_memory.value_or(gemm.exposed_memory) : gemm.exposed_memory;
      return std::max(arithmetic, memory) + exposed * std::min(arithmetic, memory);
    }
    case KernelClass::Attention: return std::max(attention_time(kernel, device), memory);
    default: return memory;
  }
}

/// What the host issues by several calls runs as so many kernels one after another; products of experts in streams of
/// their own, four at a time (Transformer Engine, cublaslt_gemm.cu: nvte_multi_stream_cublas_gemm).
double kernels_in_turn(const Kernel& kernel) {
  constexpr double Streams = 4;
  return std::max(1.0, kernel.grouped ? static_cast<double>(kernel.batch) / Streams : kernel.launches);
}

/// Whose figures stand in where a precision has none: of peaks where the hardware is the same, of rates where
/// kernels are most alike.
std::optional<Precision> stand_in(Precision precision) {
  switch (precision) {
    case Precision::Fp8Block:
    case Precision::Fp4: return Precision::Fp8;
    case Precision::Fp16:
    case Precision::Bf16: return std::nullopt;
    default: return Precision::Bf16;
  }
}

bool has_rates(const GemmModel& gemm, Precision precision) {
  return gemm.own.contains(precision) || !stand_in(precision);
}

}  // namespace

GemmRates GemmModel::rates_of(Precision precision) const {
  while (!has_rates(*this, precision)) precision = *stand_in(precision);
  const auto found = own.find(precision);
  return found == own.end() ? GemmRates{plateau, small_rate, k_half} : found->second;
}

std::string carried_over(const Device& device, Precision precision) {
  if (has_rates(device.gemm, precision)) return "";
  Precision other = *stand_in(precision);
  while (!has_rates(device.gemm, other)) other = *stand_in(other);
  return fmt::format("{} products as {}", name_of(precision), name_of(other));
}

FlopPerSecond Device::peak_of(Precision precision) const {
  auto found = peak.find(precision);
  if (found == peak.end() && precision == Precision::Fp8Block) found = peak.find(Precision::Fp8);
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

Seconds issue_time(const Kernel& kernel, const Device& device) {
  if (kernel.launches == 0) return {};
  return device.launch + (kernel.launches - 1) * device.launch_more.value_or(device.launch);
}

Seconds kernel_time(const Kernel& kernel, const Device& device) {
  if (kernel.kind == KernelClass::Fixed) return kernel.fixed;
  return busy_time(kernel, device) + device.kernel_gap * kernels_in_turn(kernel);
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
