// Which points of a sweep are worth looking at: those that no other beats in every metric.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/sweep/row.hpp"

namespace syncline::sweep {

/// Indices of the points that no other point dominates, sorted by the first figure. A point dominates another
/// that it equals or beats in every figure and beats in one. Of equal points all are on the front; what differs by less
/// than a millionth is equal.
/// @param points  figures of which less is better, as many for each
[[nodiscard]] std::vector<std::size_t> pareto_front(const std::vector<std::vector<double>>& points);

/// Rows on the front of these metrics of the sweep, best in the first one first. Rows that lack one are left
/// out.
/// @throws std::invalid_argument when the sweep has no such metric
[[nodiscard]] std::vector<std::size_t> pareto_rows(const Sweep& sweep, const std::vector<Row>& rows,
                                                   const std::vector<std::string>& metrics);

}  // namespace syncline::sweep
