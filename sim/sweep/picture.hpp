// A sweep drawn: which column goes where, in which unit.
#pragma once

#include <string>
#include <vector>

#include "sim/sweep/row.hpp"

namespace syncline::sweep {

/// Kinds of plot, for messages and help: bars, lines, heat, pareto.
[[nodiscard]] std::vector<std::string> plot_kinds();

/// What is open is filled in: bars; the first path (for pareto the first metric) along x, the first metric
/// (the second) along y, and the second path as group.
/// @throws InputError whose place is the option, when the sweep has no such column or the kind none such
[[nodiscard]] PlotRequest completed(const Sweep& sweep, PlotRequest request);

/// SVG. Rows with an error or without the figure are left out; of several rows at one place, as of seeds and
/// of paths that are not drawn, the mean is.
/// @pre  the request is completed
[[nodiscard]] std::string picture_of(const Sweep& sweep, const std::vector<Row>& rows,
                                     const PlotRequest& request);

}  // namespace syncline::sweep
