// The least value of a function of a few numbers, without derivatives.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace syncline::calibrate {

/// One number to be found. Values outside of [low, high] are never tried.
struct Unknown {
  double start = 0;
  double step = 0;  // of the first tries; 0: the number stays where it is
  double low = 0;
  double high = 1;
};

/// The simplex of Nelder and Mead (Computer Journal 7, 1965), begun anew from its own result until that no
/// longer helps, at most `restarts` times. The same input gives the same result, to the last bit.
/// @param function  of as many values as there are unknowns, in their order
[[nodiscard]] std::vector<double> minimise(const std::function<double(std::span<const double>)>& function,
                                           const std::vector<Unknown>& unknowns, int restarts = 6);

}  // namespace syncline::calibrate
