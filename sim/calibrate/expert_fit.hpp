// Figures of libraries of dispatch and combine out of measured calls.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/calibrate/expert_rows.hpp"

namespace syncline::calibrate {

/// Predicted against measured, over some rows.
struct ExpertError {
  int rows = 0;
  double mean = 0;  // of |predicted / measured − 1|
  double signed_mean = 0;
};

/// Nothing where the kernel has no figures of the operation.
[[nodiscard]] std::optional<Seconds> predict(const ExpertRow& row, std::span<const ExpertLibrary> libraries);

/// Puts figures into the kernels of `libraries` for every operation that rows are of; figures of others are
/// dropped. Rows that another GPU stands in for take no part.
///
/// Least Σ √(e² + 0.03²), e = log(predicted / measured), so that single odd rows pull little, plus a pull of
/// each figure to its usual value, 0.03 · (log(figure / usual) / width)², which a few rows outweigh. Usual
/// values, in a first round: those of `guess` or of the code, and shares of the data-sheet rates of `links`,
/// which bound the fitted ones. In a second, for latencies and lanes, the geometric means over the same
/// kernel and operation of other libraries of the family. Rates between nodes differ by their number where
/// two or more numbers have at least 20 rows each.
void fit_experts(std::vector<ExpertLibrary>& libraries, std::span<const ExpertRow> rows);

/// The same with every series predicted by figures fitted without it (usual values as in the second round).
/// @returns  the predicted time of each row; nothing for those that take no part
[[nodiscard]] std::vector<std::optional<Seconds>> predict_held_out(std::vector<ExpertLibrary> libraries,
                                                                   std::span<const ExpertRow> rows);

}  // namespace syncline::calibrate
