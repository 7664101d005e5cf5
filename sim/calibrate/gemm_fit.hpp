// The figures of a device's matrix products and attention, fitted to measured ones.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/calibrate/gemm_rows.hpp"
#include "sim/device/device.hpp"

namespace syncline::calibrate {

/// The clock at which a table's kernels ran. A benchmark repeats each kernel about as often, so a short one
/// is over before the power limit takes hold, and a long one runs at the clock that the limit leaves, as in
/// training:
///   clock(t) = sustained + (1 - sustained) / (1 + (t / settles)²)
struct Throttle {
  double sustained = 1;  // of the clock of the shortest
  Seconds settles = Seconds(1);
  /// Up to where `settles` is sought: about 50 ms ÷ the runs of each kernel in a row.
  Seconds settles_within = Seconds(0.01);
  [[nodiscard]] double clock(Seconds kernel) const;
};

/// What a row of less than 16 bit has on top of its product: serving libraries time the cast of the left
/// operand (m × k numbers of 16 bit) with it.
struct Cast {
  double bytes = 0;  // moved, a number
  Seconds fixed;
};

/// All that explains the rows of one table. Only the device is kept in a file.
struct Explanation {
  Device device;
  Throttle throttle;
  std::map<Precision, Cast> casts;

  /// Time of the row as it was measured.
  [[nodiscard]] Seconds measured(const KernelRow& row);
};

/// How far predicted times are from measured ones: logarithms of their ratios, so that twice and half weigh
/// the same.
struct FitError {
  std::size_t rows = 0;
  double mean = 0, median = 0, largest = 0;  // of the absolute values
  double signed_mean = 0;                    // above 0: predicted too slow
  double by_time = 0, signed_by_time = 0;    // means weighted by measured time
};
[[nodiscard]] FitError error_of(std::span<const double> measured, std::span<const double> predicted);

/// What a fit makes least: the mean error, the mean weighted by time, and what is left of the latter when
/// rows that are too slow make up for rows that are too fast. The first alone would fit the many small
/// products, the second the few largest; the third makes the sum of many kernels' times come out right, as a
/// step needs it.
[[nodiscard]] double cost_of(const FitError& error);

/// How many figures so many rows can tell apart. All: from 30 rows on; some (plateau, k-half, kernel-gap)
/// from 4 on; below, the plateau alone.
enum class Figures : std::uint8_t { Plateau, Some, All };
[[nodiscard]] Figures figures_for(std::size_t rows);

/// Products of 16 bit: plateau, k-half, small-rate, exposed-memory, hbm.efficiency, kernel-gap, and the
/// throttle with sustained-clock, which is the clock of the longest row: never lower than was seen. Figures
/// that the rows cannot tell stay as they are: the gap where less than one in 25 is shorter than 20 us,
/// hbm.efficiency where less than one in 25 is bound by memory, k-half where all are cubes.
void fit_products(std::span<const KernelRow> rows, Explanation& explanation);

/// Products of another precision, all else being known: its own plateau, k-half, small-rate, and the cast.
void fit_precision(std::span<const KernelRow> rows, Precision precision, Explanation& explanation);

/// Grouped products of 16 bit, each product a kernel of its own, all else being known: grouped-exposed-memory. A
/// benchmark's host has nothing to run ahead of: a row takes as long as its calls, if that is longer.
void fit_grouped(std::span<const KernelRow> rows, Explanation& explanation);

/// Flash attention: forward, backward, wide-head, ramp; at the clock at which products that take as long ran.
void fit_attention(std::span<const KernelRow> rows, Explanation& explanation);

}  // namespace syncline::calibrate
