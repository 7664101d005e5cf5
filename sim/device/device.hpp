// An accelerator's figures and what a kernel costs on it.
#pragma once

#include <map>
#include <string>

#include "sim/core/quantity.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

/// Time of matrix products, from a few figures fitted to a measured table (the device file names it and its
/// error):
///   time = waves · units · 2·tile_m·tile_n·k / (peak · rate),   waves = ⌈tiles / units⌉,
///   rate = plateau · k / (k + k_half)
/// i.e. the product is cut into tiles, `units` of which run at once (wave quantisation), and a tile's rate
/// rises with the inner size k. Libraries choose among kernels: here between a large tile, and a small one
/// that runs at `small_rate` of the large one's rate but wastes less at the edges; the faster is taken.
struct GemmModel {
  double plateau = 1.0;            // share of peak for large k and full waves
  int tile_m = 128, tile_n = 256;  // the large tile
  int small_m = 64, small_n = 32;  // the small tile
  double small_rate = 1.0;         // rate of the small tile ÷ rate of the large one
  int units = 1;                   // streaming multiprocessors (tiles in flight)
  double k_half = 0;               // inner size at which a tile reaches half of the plateau
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
  double sustained_clock = 1.0;    // clock under load ÷ clock at which the shares of peak were measured
  double attention_forward = 1.0;  // share of peak, flash attention, causal FLOP
  double attention_backward = 1.0;
  Seconds kernel_gap;  // start, ramp and drain of one kernel, on top of its work
  Seconds launch;      // host-side cost of issuing one op or collective
  double compute_rate_while_communicating =
      1.0;        // interference: rate of compute with a communication kernel resident
  Bytes reserve;  // memory the run time takes for itself (context, communicators)

  /// @throws std::invalid_argument when the device has no figure for that precision
  [[nodiscard]] FlopPerSecond peak_of(Precision precision) const;
};

/// A device without costs of its own: ops of fixed time take that time, nothing is added; for textbook
/// schedules. Unlimited memory (capacity 0 means: not checked).
[[nodiscard]] Device ideal_device();

/// Time of one kernel: max(FLOP / (peak · clock · efficiency(shape)), bytes / (HBM bandwidth · efficiency)) +
/// gap. A fixed kernel takes its fixed time, without the gap.
/// @throws std::invalid_argument when the device lacks the figure that the kernel needs
[[nodiscard]] Seconds kernel_time(const Kernel& kernel, const Device& device);

/// Sum over the kernels of a work.
[[nodiscard]] Seconds work_time(const Work& work, const Device& device);

}  // namespace syncline
