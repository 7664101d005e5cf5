// An accelerator's figures and what a kernel costs on it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

/// Efficiency of matrix products, from a few fitted figures:
///   time = ceil(tiles / units) · units · tile_flop / (peak · plateau · k/(k + k_half)) + launch gap
/// i.e. the product is cut into tiles of tile_m × tile_n, `units` of which run at once (wave quantisation); a tile's
/// rate rises with the inner size k. Fitted to measured GEMM tables; the device file states source and fit error.
struct GemmModel {
  double plateau = 1.0;   // share of peak for large k and full waves
  int tile_m = 128, tile_n = 128;
  int units = 1;          // streaming multiprocessors (tiles in flight)
  double k_half = 0;      // inner size at which a tile reaches half of the plateau
};

/// Share of peak (or of HBM bandwidth) that a class of kernels reaches, and what one kernel costs on top.
struct Device {
  std::string name;
  std::string source;
  std::map<Precision, FlopPerSecond> peak;  // dense
  Bytes memory;                             // capacity
  BytesPerSecond hbm_bandwidth;
  double hbm_efficiency = 1.0;
  GemmModel gemm;
  double sustained_clock = 1.0;             // clock under load ÷ clock of the peak figure (power limit)
  double attention_forward = 1.0;           // share of peak, flash attention
  double attention_backward = 1.0;
  Seconds kernel_gap;                       // device-side cost of starting one more kernel
  Seconds launch;                           // host-side cost of issuing one kernel or collective
  double compute_rate_while_communicating = 1.0;  // interference: rate of compute with a communication kernel resident
  Bytes reserve;                            // memory the run time takes for itself (context, communicators)

  /// @throws std::invalid_argument when the device has no figure for that precision
  [[nodiscard]] FlopPerSecond peak_of(Precision precision) const;
};

/// A device without costs of its own: ops of fixed time take that time, nothing is added; for textbook schedules.
/// Unlimited memory (capacity 0 means: not checked).
[[nodiscard]] Device ideal_device();

/// Time of one kernel: max(FLOP / (peak × efficiency(shape)), bytes / (HBM bandwidth × efficiency)) + gap.
[[nodiscard]] Seconds kernel_time(const Kernel& kernel, const Device& device);

/// Sum over the kernels of a work.
[[nodiscard]] Seconds work_time(const Work& work, const Device& device);

}  // namespace syncline
