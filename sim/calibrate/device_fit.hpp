// A device file out of a table of measured kernels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/gemm_fit.hpp"
#include "sim/core/csv.hpp"

namespace syncline::calibrate {

struct DeviceFitRequest {
  std::string chip{};            // as the table calls it
  std::string attention_chip{};  // whose attention is taken; empty: the same
  std::string source{};  // products of sources that have this text; empty: the source with most of them
  std::optional<Precision> precision{};  // only this one; all others are kept as they are
  Seconds settles_within = Throttle{}.settles_within;
  bool share_of_peak = false;  // take each row's share of its own peak, not its FLOP/s: rows of half a chip
};

/// Rows that one fit was made to, and their times as measured and as the figures have them.
struct FittedGroup {
  std::string name;  // "bf16", "fp8", "attention"
  std::string source;
  Figures figures = Figures::Plateau;
  bool fitted = true;  // false: only compared
  std::vector<KernelRow> rows;
  std::vector<double> predicted;  // s, by row
  [[nodiscard]] std::vector<double> measured() const;
};

struct DeviceFit {
  std::string table, chip;
  Explanation explanation;
  std::vector<FittedGroup> groups;
  std::vector<std::string> notes;  // what was chosen or could not be fitted
};

/// Fits what the rows can tell to a copy of `base`, and keeps its other figures.
/// @throws InputError  see read_kernel_rows(); no row of that source or precision (with those there are); the
/// base has no
///                     peak for a precision of the rows
[[nodiscard]] DeviceFit fit_device(const CsvTable& table, const DeviceFitRequest& request,
                                   const Device& base);

/// Error by group, by time of the kernel, and the worst rows.
[[nodiscard]] std::string report(const DeviceFit& fit);

/// The device file, headed by a comment: rows, source and error of the fit.
/// @param base  name of the file that the other figures are from
[[nodiscard]] std::string device_yaml(const DeviceFit& fit, const std::string& base);

}  // namespace syncline::calibrate
