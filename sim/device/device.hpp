// An accelerator's figures and what a kernel costs on it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/quantity.hpp"
#include "sim/schedule/schedule.hpp"

namespace syncline {

/// How fast tiles of products run in one precision.
struct GemmRates {
  double plateau = 1.0;     // share of peak for large k and full waves
  double small_rate = 1.0;  // rate of the small tile ÷ rate of the large one
  double k_half = 0;        // inner size at which a tile reaches half of the plateau
};

/// Time of matrix products, from a few figures fitted to a measured table (the device file names it and its
/// error):
///   arithmetic = waves · units · 2·tile_m·tile_n·k / (peak · rate),   waves = ⌈tiles / units⌉,
///   rate = plateau · k / (k + k_half),
///   time = max(arithmetic, memory) + exposed_memory · min(arithmetic, memory),
///   exposed_memory that of grouped products where the kernel's are
/// i.e. the product is cut into tiles, `units` of which run at once (wave quantisation), and a tile's rate
/// rises with the inner size k. Libraries choose among kernels: here between a large tile, and a small one
/// that runs at `small_rate` of the large one's rate but wastes less at the edges; the faster is taken.
struct GemmModel {
  double plateau = 1.0;            // of fp16 and bf16, and of precisions without rates of their own;
  int tile_m = 128, tile_n = 256;  // the large tile
  int small_m = 64, small_n = 32;  // the small tile
  double small_rate = 1.0;         // so are these ...
  int units = 1;                   // streaming multiprocessors (tiles in flight)
  double k_half = 0;               // ... two
  double exposed_memory = 0;       // of the shorter of arithmetic and memory: not hidden under the longer;
  std::optional<double>
      grouped_exposed_memory{};          // where each product is a kernel of its own; not given: as all
  std::map<Precision, GemmRates> own{};  // of precisions that were measured by themselves

  /// Those of the precision itself, or of the one that stands in for it: fp8-block and fp4 are taken as fp8,
  /// then as bf16; all others as bf16.
  [[nodiscard]] GemmRates rates_of(Precision precision) const;
};

/// What kernels cost on one accelerator: the share of peak, or of HBM bandwidth, that each class of them
/// reaches, and what one kernel costs on top.
struct Device {
  std::string name;
  std::string source;
  std::vector<std::string> chips;           // what measured tables call it
  std::map<Precision, FlopPerSecond> peak;  // dense
  Bytes memory;                             // capacity
  BytesPerSecond hbm_bandwidth;
  double hbm_efficiency = 1.0;
  std::optional<double> gather_efficiency{};  // of kernels that move rows to other places; not given: as all
  GemmModel gemm;
  double sustained_clock = 1.0;    // clock under load ÷ clock at which the shares of peak were measured
  double attention_forward = 1.0;  // share of peak, flash attention, causal FLOP, head size up to 128
  double attention_backward = 1.0;
  double attention_wide_head = 1.0;  // rate with heads of more than 128 ÷ rate with 128
  Seconds attention_ramp;            // of one attention kernel: first tiles load, last ones run alone
  Seconds kernel_gap;                // start, ramp and drain of one kernel, on top of its work
  Seconds launch;                    // host-side cost of issuing one kernel or collective
  std::optional<Seconds>
      launch_more{};  // ... each further kernel of one call, as of grouped products; not given: as much
  double compute_rate_while_communicating =
      1.0;                     // interference: rate of compute with a communication kernel resident
  Bytes reserve;               // memory the run time takes for itself (context, communicators)
  std::optional<Watts> power;  // the data sheet's, at full load

  /// fp8-block has the peak of fp8, where it has none of its own.
  /// @throws std::invalid_argument when the device has no figure for that precision
  [[nodiscard]] FlopPerSecond peak_of(Precision precision) const;
};

/// Which precision's rates stand in for those of `precision`: "fp8-block products as fp8"; empty when the
/// device has rates of its own for it (bf16 and fp16 are one).
[[nodiscard]] std::string carried_over(const Device& device, Precision precision);

/// A device without costs of its own: ops of fixed time take that time, nothing is added; for textbook
/// schedules. Unlimited memory (capacity 0 means: not checked).
[[nodiscard]] Device ideal_device();

/// Of the host, to issue a kernel's launches; 0 where another's call has begun them.
[[nodiscard]] Seconds issue_time(const Kernel& kernel, const Device& device);
/// Time of one kernel: max(FLOP / (peak · clock · efficiency(shape)), bytes / (HBM bandwidth · efficiency)) +
/// gap; for products see GemmModel. A fixed kernel takes its fixed time, without the gap.
/// @throws std::invalid_argument when the device lacks the figure that the kernel needs
[[nodiscard]] Seconds kernel_time(const Kernel& kernel, const Device& device);

/// Sum over the kernels of a work.
[[nodiscard]] Seconds work_time(const Work& work, const Device& device);

}  // namespace syncline
